"""Draws the rates of a run as an SVG of horizontal bars: slotlog beside what does the same work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from benchmarks.results.figures import FLOOR, QUIX, SLOTLOG, TWO, VALKEY, Panel, panels_of, results_of

_COLORS: Final = {SLOTLOG: "#1f5fbf", FLOOR: "#9aa4b2", QUIX: "#d98a1f", VALKEY: "#b5402f", TWO: "#6f9fdf"}
_INK: Final = "#1b1f24"
_WIDTH: Final = 760
_LEFT: Final = 80  # where bars begin, beside the names
_BAR_WIDTH_MAX: Final = 540
_BAR_HEIGHT: Final = 14
_BAR_STEP: Final = 17
_GROUP_GAP: Final = 9
_TITLE_HEIGHT: Final = 34
_MARGIN: Final = 12


def draw(results: Path) -> None:
    """Draw the chart of a file of results beside it, with the ending `.svg`; nothing if it has no line for a chart."""
    if panels := panels_of(results_of(results.read_text().splitlines())):
        results.with_suffix(".svg").write_text(drawn(panels))


def drawn(panels: Sequence[Panel]) -> str:
    """The chart as an SVG document."""
    shown = {name for panel in panels for group in panel.groups for name in group.per_second}
    svg = Element("svg", xmlns="http://www.w3.org/2000/svg", role="img")
    svg.set("font-family", "sans-serif")
    svg.set("font-size", "12")
    SubElement(svg, "title").text = f"Rates of {', '.join(name for name in _COLORS if name in shown)}"
    background = SubElement(svg, "rect", width="100%", height="100%", fill="#ffffff")
    y = _legend(svg, [name for name in _COLORS if name in shown])
    for panel in panels:
        y = _panel(svg, panel, y)
    height = y + _MARGIN
    svg.set("viewBox", f"0 0 {_WIDTH} {height}")
    svg.set("width", str(_WIDTH))
    svg.set("height", str(height))
    background.set("height", str(height))
    indent(svg)
    return tostring(svg, encoding="unicode") + "\n"


def _legend(svg: Element, names: Sequence[str]) -> int:
    """Who has which color; the height that this takes."""
    x = _LEFT
    for name in names:
        _rect(svg, x, _MARGIN, _BAR_HEIGHT, _COLORS[name])
        _text(svg, x + _BAR_HEIGHT + 6, _MARGIN, name)
        x += 48 + 7 * len(name)
    return _MARGIN + _BAR_HEIGHT


def _panel(svg: Element, panel: Panel, y: int) -> int:
    """One panel from `y` on; where it ends."""
    _text(svg, _LEFT, y + _TITLE_HEIGHT - _BAR_STEP - 4, panel.title, weight="bold")
    y += _TITLE_HEIGHT
    most = max(rate for group in panel.groups for rate in group.per_second.values())
    for group in panel.groups:
        _text(svg, _LEFT - 8, y, group.name, anchor="end")
        for name, rate in group.per_second.items():
            width = max(1, round(rate / most * _BAR_WIDTH_MAX))
            _rect(svg, _LEFT, y, width, _COLORS[name])
            ratio = f" ({group.ratios[name]:.2f})" if name in group.ratios else ""
            _text(svg, _LEFT + width + 6, y, f"{rate:,}{ratio}")
            y += _BAR_STEP
        y += _GROUP_GAP
    return y - _GROUP_GAP


def _rect(svg: Element, x: int, y: int, width: int, color: str) -> None:
    SubElement(svg, "rect", x=str(x), y=str(y), width=str(width), height=str(_BAR_HEIGHT), fill=color)


def _text(svg: Element, x: int, y: int, text: str, *, anchor: str = "start", weight: str = "normal") -> None:
    """A text in the row whose bar begins at `y`."""
    element = SubElement(svg, "text", x=str(x), y=str(y + _BAR_HEIGHT - 3), fill=_INK)
    element.set("text-anchor", anchor)
    element.set("font-weight", weight)
    element.text = text
