"""The README names tests that exist."""

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
README = (TESTS.parent / "README.md").read_text(encoding="utf-8")
NAMED = re.findall(r"`([\w/]+\.py)::(\w+)`", README)


def test_each_guarantee_names_a_test():
    table = README.partition("| gymvec guarantees | shown by |")[2].partition("\n\n")[0]
    rows = table.strip().splitlines()[1:]
    assert len(rows) > 20
    for row in rows:
        assert re.search(r"\| `[\w/]+\.py::test_\w+`(, `[\w/]+\.py::test_\w+`)* \|$", row), row


def test_the_tests_exist():
    assert len(NAMED) > 20
    for file, name in NAMED:
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{file}::{name}"
