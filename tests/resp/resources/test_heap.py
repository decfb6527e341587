"""Freed memory goes back to the kernel, shown in fresh processes."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

COMMON: Final = """
import os
from resp.resources import heap
from resp.resources.heap import GROWN_BYTES, Heap
from resp.resources.memory import memory_use

heap._LOOK_SECONDS = 0.0
subject = Heap()
"""
FRAGMENTED: Final = """
BLOCK_BYTES = 20_000  # too small to be mapped by itself
blocks = [os.urandom(BLOCK_BYTES) for _ in range(2 * GROWN_BYTES // BLOCK_BYTES)]
kept = blocks[::50]  # between these is free what was in use: glibc cannot shrink the heap by itself
del blocks
copies = [bytes(bytearray(block)) for block in kept]
large = memory_use().rss_bytes
subject.look()
print(memory_use().rss_bytes < large - GROWN_BYTES, copies == kept)
"""
IN_USE: Final = """
calls = []
subject.give_back = lambda: calls.append(None)
subject.look()
in_use = bytearray(2 * GROWN_BYTES)
subject.look()
print(len(calls), len(in_use) == 2 * GROWN_BYTES)
"""
THREADS: Final = """
import ctypes, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
addresses = []
for _ in range(4):
    thread = threading.Thread(target=lambda: addresses.append(libc.malloc(100_000)))
    thread.start()
    thread.join()
begin, end = next(line.split()[0].split("-") for line in open("/proc/self/maps") if line.rstrip().endswith("[heap]"))
print([int(begin, 16) <= address < int(end, 16) for address in addresses])
"""


def printed(code: str) -> str:
    """What a new process prints that runs this behind `COMMON`."""
    return subprocess.run([sys.executable, "-c", COMMON + code], capture_output=True, text=True, check=True).stdout


def test_what_is_free_between_blocks_in_use_is_given_back() -> None:
    """The process is small again; what is still in use stays as it was."""
    assert printed(FRAGMENTED).splitlines()[-1] == "True True"


def test_a_process_that_has_not_grown_is_let_be() -> None:
    """Nothing is given back while less than the bound has come, nor while all of it is in use."""
    assert printed(IN_USE) == "0 True\n"


def test_threads_take_from_one_heap() -> None:
    """What a thread asks for lies in the heap of the process, not in one of its own."""
    assert printed(THREADS) == "[True, True, True, True]\n"
