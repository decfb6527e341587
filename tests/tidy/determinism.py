"""Finds in the engine's syntax trees whatever could make an outcome depend on more than state and record.

Not a proof: it sees names, not values. It finds the honest mistakes, and the replay tests look for the rest.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

# A module that is not here has to be argued for: nothing in it may tell the time, draw a number, look at the
# machine, wait, or do I/O.
STANDARD_MODULES = frozenset(
    {
        "__future__",
        "abc",
        "array",
        "binascii",
        "bisect",
        "collections",
        "contextlib",
        "dataclasses",
        "enum",
        "fractions",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "math",
        "operator",
        "re",
        "struct",
        "types",
        "typing",
        "zlib",
    }
)

SHARED = "slotlog.shared."
"""What the engine has in common with clients, and held to the same rules."""

# math's other functions come from the platform's C library, and their last bit with it. A square root, by IEEE 754, has
# one right answer.
EXACT_MATH = frozenset({
    "ceil", "comb", "copysign", "floor", "fmod", "frexp", "gcd", "inf", "isfinite", "isinf", "isnan", "isqrt", "ldexp",
    "modf", "nan", "nextafter", "sqrt", "trunc",
})  # fmt: skip

BANNED_CALLS = {
    "__import__": "an import that nobody sees",
    "breakpoint": "a debugger",
    "eval": "code from data",
    "exec": "code from data",
    "hash": "str and bytes hash differently in each process",
    "id": "an address",
    "input": "I/O",
    "open": "I/O",
    "print": "I/O",
}

# Calls that walk through an argument in its own order; sorted(), len(), sum() and the like do not care about it.
_ORDERED_CALLS = frozenset({"enumerate", "iter", "list", "map", "next", "tuple", "zip"})
_ORDERED_METHODS = frozenset({"extend", "fromkeys", "join"})
_SET_TYPES = frozenset({"AbstractSet", "MutableSet", "frozenset", "set"})
_SET_METHODS = frozenset({"difference", "intersection", "symmetric_difference", "union"})


def violations(tree: ast.Module) -> Iterator[str]:
    """One `line: what` for every place in a module of the engine that is not deterministic."""
    sets = _names_of_sets(tree)
    for node in ast.walk(tree):
        for what in (*_imports(node), *_calls(node), *_set_orders(node, sets)):
            yield f"{getattr(node, 'lineno', 0)}: {what}"


def _imports(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module or ""]
        if node.module == "math":
            yield from (f"math.{name.name} is not exact" for name in node.names if name.name not in EXACT_MATH)
    else:
        if isinstance(node, ast.Attribute) and _name(node.value) == "math" and node.attr not in EXACT_MATH:
            yield f"math.{node.attr} is not exact"
        return
    for name in names:
        top = name.partition(".")[0]
        if top != "engine" and top not in STANDARD_MODULES and not name.startswith(SHARED):
            yield f"imports {top}"


def _calls(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in BANNED_CALLS:
        yield f"calls {node.func.id}(): {BANNED_CALLS[node.func.id]}"


def _set_orders(node: ast.AST, sets: frozenset[str]) -> Iterator[str]:
    """The order of a set of bytes changes with the hash seed, so nothing may walk through one."""
    for expression in _walked(node):
        if _is_set(expression, sets):
            yield f"depends on the order of the set {ast.unparse(expression)}"


def _walked(node: ast.AST) -> list[ast.expr]:
    """What `node` goes through in its own order."""
    match node:
        case ast.For(iter=walked) | ast.comprehension(iter=walked) | ast.Starred(value=walked):
            return [walked]
        case ast.Call(func=ast.Attribute(value=walked, attr="pop"), args=[]):
            return [walked]
        case ast.Call(func=ast.Name(id=name), args=args) if name in _ORDERED_CALLS:
            return args
        case ast.Call(func=ast.Attribute(attr=name), args=args) if name in _ORDERED_METHODS:
            return args
        case _:
            return []


def _names_of_sets(tree: ast.Module) -> frozenset[str]:
    """Last parts of names that are annotated as a set, or assigned one, anywhere in the module."""
    names: set[str | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation is not None and _is_set_type(node.annotation):
            names.add(node.arg if isinstance(node, ast.arg) else _name(node.target))
        elif isinstance(node, ast.Assign) and _is_set(node.value, frozenset()):
            names.update(_name(target) for target in node.targets)
    return frozenset(name for name in names if name is not None)


def _is_set(node: ast.expr, sets: frozenset[str]) -> bool:
    match node:
        case ast.Set() | ast.SetComp():
            return True
        case ast.Call(func=ast.Name(id=name)):
            return name in _SET_TYPES
        case ast.Call(func=ast.Attribute(attr=attribute)):
            return attribute in _SET_METHODS
        case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
            return _is_set(left, sets) or _is_set(right, sets)
        case _:
            return _name(node) in sets


def _is_set_type(annotation: ast.expr) -> bool:
    if isinstance(annotation, ast.BinOp):  # set[bytes] | None
        return _is_set_type(annotation.left) or _is_set_type(annotation.right)
    outer = annotation.value if isinstance(annotation, ast.Subscript) else annotation
    if _name(outer) in {"ClassVar", "Final"} and isinstance(annotation, ast.Subscript):
        return _is_set_type(annotation.slice)
    return _name(outer) in _SET_TYPES


def _name(node: ast.expr) -> str | None:
    """The last part of a name: `b` of `a.b`."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case _:
            return None
