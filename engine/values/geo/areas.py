"""Finds the geohash cells that a shape may reach: the centre's and up to eight around it.

A search that sorts nothing gives its members in the order of these cells, so their order is Redis'.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.values.geo.geohash import LATITUDE_MAX, STEP_MAX, Cell, Point, cell_at
from engine.values.geo.shapes import Edges, Shape

_HALF_MAP_M: Final = 20037726.37
_FAR_NORTH: Final = 66.0
_FURTHEST_NORTH: Final = 80.0

# East and north of the middle: itself, N, S, E, W, NE, NW, SE, SW.
_AROUND: Final = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1))


def score_ranges(shape: Shape) -> Iterator[tuple[float, float]]:
    """For each of the cells its least score and the least one behind it, in order. No two of them overlap."""
    middle = _onto_map(shape.middle)
    step = _estimate_step(shape.reach_m, middle[1])
    cells = _cells(middle, step)
    if step > 1:
        edges = shape.edges()
        if _is_too_fine(cells, edges):
            step -= 1
            cells = _cells(middle, step)
        if step > 1:
            cells = _needed(cells, edges)
    done: list[Cell] = []
    for cell in cells:
        if cell not in done:  # the grid goes on at its other end: in a coarse one east and west are the same cell
            done.append(cell)
            yield cell.scores()


def _onto_map(position: Point) -> Point:
    """The middle of a polygon around a pole is not on the map."""
    return position[0], max(-LATITUDE_MAX, min(LATITUDE_MAX, position[1]))


def _cells(middle: Point, step: int) -> list[Cell]:
    cell = cell_at(middle, step)
    return [cell.neighbour(east, north) for east, north in _AROUND]


def _estimate_step(reach_m: float, latitude: float) -> int:
    """The step whose cells are about as wide as the reach."""
    if not reach_m:
        return STEP_MAX
    step = -1
    while reach_m < _HALF_MAP_M:
        reach_m *= 2
        step += 1
    step -= (abs(latitude) > _FAR_NORTH) + (abs(latitude) > _FURTHEST_NORTH)
    return max(1, min(STEP_MAX, step))


def _is_too_fine(cells: list[Cell], edges: Edges) -> bool:
    """Whether the shape reaches beyond the cells around its middle."""
    west, south, east, north = edges
    return (
        cells[1].edges()[3] < north
        or cells[2].edges()[1] > south
        or cells[3].edges()[2] < east
        or cells[4].edges()[0] > west
    )


def _needed(cells: list[Cell], edges: Edges) -> list[Cell]:
    """Without those on a side where the shape stays within the cell of its middle."""
    west, south, east, north = edges
    cell_west, cell_south, cell_east, cell_north = cells[0].edges()
    spared_east, spared_north = [], []
    if cell_west < west:
        spared_east.append(-1)
    if cell_east > east:
        spared_east.append(1)
    if cell_south < south:
        spared_north.append(-1)
    if cell_north > north:
        spared_north.append(1)
    return [
        cell
        for cell, (to_east, to_north) in zip(cells, _AROUND, strict=True)
        if to_east not in spared_east and to_north not in spared_north
    ]
