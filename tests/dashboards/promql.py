"""Reads PromQL with promql-parser: selectors, ranges, sides of comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

import promql_parser
from promql_parser import BinaryExpr, Call, Expr, MatchOp, MatrixSelector, ParenExpr, VectorSelector

RATE_INTERVAL: Final = "10s"
"""What stands here for Grafana's $__rate_interval, with a scrape every second."""

_COMPARISONS: Final = frozenset({"==", "!=", ">", "<", ">=", "<="})
_JOINS: Final = frozenset({"and", "or", "unless"})

E = TypeVar("E", bound=Expr)


class Ranged(NamedTuple):
    """A function called on a range: its name, and the selector of the range."""

    function: str
    selector: MatrixSelector


def substituted(expression: str) -> str:
    """The expression as Grafana sends it while `All` is chosen for every variable."""
    for name in ("job", "instance", "partition"):
        expression = expression.replace(f'"${name}"', '".+"')
    return expression.replace("$__rate_interval", RATE_INTERVAL)


def parse(expression: str) -> Expr:
    """The syntax tree. ValueError says what is wrong."""
    tree: Expr = promql_parser.parse(expression.replace("$__rate_interval", RATE_INTERVAL))
    return tree


def selectors(expression: str) -> list[VectorSelector]:
    """Every selector of series in it, those with a range too."""
    return _nodes(expression, VectorSelector)


def names(expression: str) -> set[str]:
    """The metrics that it asks for."""
    return {selector.name or "" for selector in selectors(expression)}


def regular_expressions(selector: VectorSelector) -> dict[str, str]:
    """The `=~` matchers of a selector, by label."""
    return {matcher.name: matcher.value for matcher in selector.matchers.matchers if matcher.op == MatchOp.Re}


def ranges(expression: str) -> list[Ranged]:
    """Every function that it calls on a range of series."""
    return [
        Ranged(call.func.name, argument)
        for call in _nodes(expression, Call)
        for argument in call.args
        if isinstance(argument, MatrixSelector)
    ]


def compared(expression: str) -> list[str]:
    """What an alert looks at: the left side of the comparison in every part that `and`, `or` and `unless` join.

    Of `absent(series)` it is the series.
    """
    return [str(side) for side in _left_sides(parse(expression))]


def _left_sides(node: Expr) -> Iterator[Expr]:
    if isinstance(node, ParenExpr):
        yield from _left_sides(node.expr)
    elif isinstance(node, BinaryExpr) and str(node.op) in _JOINS:
        yield from _left_sides(node.lhs)
        yield from _left_sides(node.rhs)
    elif isinstance(node, Call) and node.func.name == "absent":
        yield from node.args
    else:
        yield node.lhs if isinstance(node, BinaryExpr) and str(node.op) in _COMPARISONS else node


def _nodes(expression: str, kind: type[E]) -> list[E]:
    found: list[E] = []

    def visit(node: Expr) -> None:
        if isinstance(node, kind):
            found.append(node)

    promql_parser.walk(parse(expression), visit)
    return found
