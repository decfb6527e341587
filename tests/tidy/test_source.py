"""Every file keeps the rules of style that no linter here knows."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

from tests.tidy.source import EVERYTHING, PRODUCT, Module, functions, imported_names, modules

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 400

# Files that nothing imports, each with who runs it instead.
ENTRY_POINTS = {
    "benchmarks.metrics.unmeasured": "benchmarks/metrics/cost.py, as a process of its own",
    "ops.demo.make_data": "a person who makes the demo's CSV anew",
    "ops.entry": "the console script, by its name in pyproject.toml",
    "tests.clients.counting": "tests/clients/programs.py, as a process of its own",
    "tests.faults.killed": "tests/faults/test_kill_snapshots.py, as a process of its own",
    "tests.docs.example_checks": "tests/docs/test_adding_a_command.py, in a session of its own",
    "tests.python_alone": "tests/__main__.py and `make nightly`, as a process of its own",
    "tests.real.fixtures": "tests/conftest.py, by its name in a string",
}


def test_every_test_says_what_it_proves() -> None:
    """Every test function has a docstring: the fact that holds if it passes."""
    silent = [
        f"{module.place}:{function.lineno} {function.name}"
        for module in modules("tests")
        for function in functions(module.tree)
        if function.name.startswith("test_") and not ast.get_docstring(function)
    ]

    assert [] == silent


def test_no_test_is_switched_off() -> None:
    """No test is skipped or expected to fail: what cannot run here is an error, with what to install."""
    banned = {"pytest.skip", "pytest.importorskip", "pytest.xfail", "skip", "skipif", "xfail", "importorskip"}
    found = [
        f"{module.place}:{node.lineno}"
        for module in modules("tests")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and node.attr in banned and ast.unparse(node).startswith("pytest.")
    ]

    assert [] == found


def test_nobody_waits_by_wait_for() -> None:
    """`asyncio.wait_for` of Python 3.11 may lose a cancellation, which `asyncio.timeout` does not."""
    found = [
        f"{module.place}:{node.lineno}"
        for module in modules(*PRODUCT)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "asyncio.wait_for"
    ]

    assert [] == found


def test_no_assert_statement_guards_anything() -> None:
    """In the product `assert` tells the type checker what is no None or of which class; `python -O` drops it."""
    others = [
        f"{module.place}:{node.lineno} {ast.unparse(node)}"
        for module in modules(*PRODUCT)
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assert) and not ast.unparse(node.test).startswith("isinstance(")
        if not ast.unparse(node.test).endswith(" is not None")
    ]

    assert [] == others


def test_functions_are_short() -> None:
    """No function has more than 70 lines."""
    long = [
        f"{module.place}:{function.lineno} {function.name} has {lines} lines"
        for module in modules(*EVERYTHING)
        for function in functions(module.tree)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert [] == long


def test_a_node_of_a_cluster_is_given_its_second_port() -> None:
    """No test lets a server choose where its bus listens: that may be the port of an outgoing connection."""
    found = [
        f"{module.place}:{node.lineno} takes no tests.real.oracle.cluster_options"
        for module in modules("tests", "benchmarks")
        if module.name not in {"tests.real.oracle", __name__}
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Constant) and node.value == "--cluster-enabled"
    ]

    assert [] == found


def test_files_are_short() -> None:
    """No file has more than 400 lines."""
    long = [
        f"{module.place} has {lines} lines"
        for module in modules(*EVERYTHING)
        if (lines := module.text.count("\n")) > FILE_LINES_MAX
    ]

    assert [] == long


def test_no_file_is_dead() -> None:
    """Every module of the product is imported by another one of it, and every helper of the tests by a test."""
    dead = [
        module.place
        for module in modules(*EVERYTHING)
        if module.name not in ENTRY_POINTS and not _runs_by_itself(module) and module.name not in _imported_for(module)
    ]

    assert [] == dead


def test_entry_points_exist() -> None:
    """The list of files that nothing imports names no file that is gone, or is imported by now."""
    names = {module.name for module in modules(*EVERYTHING)}
    product_imports = _imports_of(PRODUCT)

    assert [] == sorted((ENTRY_POINTS.keys() - names) | (ENTRY_POINTS.keys() & product_imports))


def _runs_by_itself(module: Module) -> bool:
    """Packages, `python -m` files, test files and what pytest reads beside them, programs that a test runs by name."""
    if module.path.name in {"__init__.py", "__main__.py", "conftest.py"} or module.path.name.startswith("test_"):
        return True
    if module.path.parent.name != "outage_programs":
        return False
    tests = (path.read_text() for path in module.path.parents[1].glob("test_*.py"))
    return any(f'python("{module.path.stem}")' in text for text in tests)


def _imported_for(module: Module) -> frozenset[str]:
    """What counts as a use: for the product an import in the product (tests alone keep nothing alive), else any."""
    if module.name.startswith(tuple(f"{package}." for package in PRODUCT)):
        return _imports_of(PRODUCT)
    return _imports_of(EVERYTHING)


@cache
def _imports_of(packages: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_each_import(packages))


def _each_import(packages: tuple[str, ...]) -> Iterator[str]:
    for module in modules(*packages):
        yield from imported_names(module.tree) - {module.name}
