"""Users of a log, a store or a place of dead letters ask its protocol, not which implementation it is."""

from __future__ import annotations

import ast

from tests.tidy.source import PRODUCT, Module, modules

IMPLEMENTATIONS = {
    "EmbeddedDeadLetters",
    "EmbeddedLog",
    "KafkaDeadLetters",
    "KafkaLog",
    "MemoryStore",
    "RocksStore",
}

COMPOSITION = {
    "ingest.dead_letters.finding": "chooses the search that belongs to a log",
    "ingest.dead_letters.stores": "chooses the place that belongs to a log",
    "ops.serving.background": "starts the jobs that the embedded log alone needs",
}
"""Where implementations are put together, each with what it does."""


def asked(module: Module) -> set[str]:
    """The implementations that a module asks for, by `isinstance`, in a `match`, or by `type`."""
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"isinstance", "issubclass"}
        ):
            names.update(_names_in(node.args[1]))
        elif isinstance(node, ast.MatchClass):
            names.update(_names_in(node.cls))
        elif isinstance(node, ast.Compare) and any(ast.unparse(each).startswith("type(") for each in ast.walk(node)):
            names.update(_names_in(node))
    return names & IMPLEMENTATIONS


def _names_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def test_questions_are_found() -> None:
    """However a class is asked for, it is found."""
    text = """
isinstance(a, EmbeddedLog | str)
isinstance(a, (int, KafkaLog))
type(a) is RocksStore
match a:
    case MemoryStore():
        pass
"""
    tree = ast.parse(text)

    assert {"EmbeddedLog", "KafkaLog", "MemoryStore", "RocksStore"} == asked(
        modules("engine")[0]._replace(text=text, tree=tree)
    )


def test_implementations_are_there() -> None:
    """The names of this file are classes of the product."""
    classes = {
        node.name for module in modules(*PRODUCT) for node in ast.walk(module.tree) if isinstance(node, ast.ClassDef)
    }

    assert set() == IMPLEMENTATIONS - classes


def test_only_composition_asks_which_implementation_it_is() -> None:
    """No other module does, and each of those does."""
    assert COMPOSITION.keys() == {module.name for module in modules(*PRODUCT) if asked(module)}
