"""The play of CLIENT TRACKING with streams: reads of all kinds, and what groups change."""

from __future__ import annotations

from typing import Final

STREAMS: Final = """
    a: CLIENT TRACKING ON
    b: XADD x 1-1 f v
    a: XRANGE x - +
    b: XADD x 1-2 f v
    a: XLEN x
    b: XDEL x 1-1
    b: XADD x 1-3 f v
    a: XREVRANGE x + -
    b: XTRIM x MAXLEN 1
    a: XREAD STREAMS x y 0 0
    b: XADD y 1-1 f v
    b: XADD x 2-1 f v
    a: XREAD STREAMS x $
    b: XSETID x 9-9
    b: XADD x 9-10 f v
    a: XREAD COUNT 1 STREAMS x 0
    b: XGROUP CREATE x crew 0
    b: XGROUP CREATE x others 0
    b: DEL x
    b: XADD x 1-1 f v
    b: XGROUP CREATE x crew 0
    a: XPENDING x crew
    b: XREADGROUP GROUP crew ann STREAMS x >
    a: XPENDING x crew
    b: XACK x crew 1-1
    b: XADD x 2-1 f v
    a: XREADGROUP GROUP crew bob STREAMS x >
    b: XADD x 3-1 f v
    a: PING
"""
