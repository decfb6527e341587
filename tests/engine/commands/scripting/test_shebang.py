"""The first line of a script."""

from __future__ import annotations

import pytest

from engine.commands.scripting.shebang import FLAGS, parse
from engine.errors import CommandError

FAULTS = {
    "#!lua": "ERR Invalid script shebang",
    "#!foo\n": "ERR Could not find scripting engine 'foo'",
    "#!\n": "ERR Could not find scripting engine ''",
    "#! lua\n": "ERR Unknown lua shebang option: lua",
    "#!lua x=1\n": "ERR Unknown lua shebang option: x=1",
    "#!lua name=lib\n": "ERR Unknown lua shebang option: name=lib",
    "#!lua flags\n": "ERR Unknown lua shebang option: flags",
    "#!lua flags=bad\n": "ERR Unexpected flag in script shebang: bad",
    "#!lua flags=no-writes,\n": "ERR Unexpected flag in script shebang: ",
}


def test_a_script_without_that_line_is_whole() -> None:
    """Without a first line of flags nothing is cut off, and no flags are known."""
    assert (b"return 1", None) == parse(b"return 1")


def test_the_line_is_cut_off_and_its_end_stays() -> None:
    """The body begins with the end of the line, so that errors name the lines of the source."""
    assert (b"\nreturn 1", frozenset()) == parse(b"#!lua\nreturn 1")
    assert (b"\n", frozenset()) == parse(b"#!lua flags=\n")


def test_every_flag_is_known() -> None:
    """All flags of Redis may stand in one list."""
    assert frozenset(FLAGS) == parse(b"#!lua flags=" + b",".join(sorted(FLAGS)) + b"\n").flags


@pytest.mark.parametrize(("source", "text"), FAULTS.items())
def test_what_cannot_be_read_is_refused(source: str, text: str) -> None:
    """An engine, an option or a flag that there is not is named."""
    with pytest.raises(CommandError) as caught:
        parse(source.encode())
    assert text == caught.value.message
