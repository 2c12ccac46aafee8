"""README.md and the pages of promises name tests that exist, and README.md stays short."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
ROOT = TESTS.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUARANTEES = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
DIFFERENCES = (ROOT / "docs" / "differences.md").read_text(encoding="utf-8")
TEST = r"`([\w/]+\.py)::(test_\w+)`"


def promises(page, header):
    """The rows of the tables of a page that have this header."""
    rows = []
    for table in page.split(header)[1:]:
        rows += table.partition("\n\n")[0].strip().splitlines()[1:]
    return rows


@pytest.mark.parametrize(
    ("page", "header", "fewest"),
    [
        (GUARANTEES, "| gymvec guarantees | shown by |", 28),
        (DIFFERENCES, "| case | gymvec | shown by |", 17),
    ],
    ids=["guarantees", "differences"],
)
def test_each_promise_names_a_test(page, header, fewest):
    rows = promises(page, header)
    assert len(rows) >= fewest
    for row in rows:
        assert re.search(rf"\| {TEST}(, {TEST})* \|$", row), row
    # No promise stands in a table that is not looked at.
    assert len(rows) == len(re.findall(r"::test_\w+` \|$", page, re.M))


@pytest.mark.parametrize("page", [GUARANTEES, DIFFERENCES], ids=["guarantees", "differences"])
def test_the_tests_exist(page):
    named = re.findall(TEST, page)
    assert len(named) > 20
    for file, name in named:
        tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
        functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert name in functions, f"{file}::{name}"


def test_the_readme_links_each_section_of_guarantees():
    sections = re.findall(r"^## (.+)$", GUARANTEES, re.M)
    anchors = [re.sub(r"\W+", "-", section.lower()) for section in sections]
    assert re.findall(r"\]\(docs/guarantees\.md#([\w-]+)\)", README) == anchors
    assert len(anchors) == 6


def test_the_readme_is_short_and_shows_an_example_early():
    lines = README.splitlines()
    assert len(lines) <= 110
    assert lines.index("import gymvec") < 30


def test_the_gain_in_the_first_sentence_is_that_of_the_table():
    (gain,) = re.findall(r"32 CartPoles ([\d.]+) times faster", README)
    (row,) = re.findall(r"^\| CartPole-v1 \|.*$", README, re.M)
    assert row.split("|")[-2].strip() == gain
