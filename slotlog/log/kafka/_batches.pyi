from collections.abc import Callable

from slotlog.log.log import Headers, LogRecord

INTERFACE: int

def take(
    fetched: bytes, at: int, from_offset: int, most: int, crc_of: Callable[[memoryview], int] | None, /
) -> tuple[list[LogRecord], list[tuple[int, Headers]], int, int]: ...
