"""Tables and pictures of figures that are known."""

import io

import pytest
from rich.console import Console

from gymvec.cli.report import (
    failed,
    markdown,
    note_of_uneven_cores,
    results,
    rich_table,
)
from gymvec.measuring.rounds import Row

pytestmark = pytest.mark.not_sanitized

ROWS = [
    Row("bare loops", 1, None, 10, [1e-5]),
    Row("bare loops", 4, None, 10, [1e-5, 2e-5, 1e-5]),
    Row("gymvec async", 4, 2, 10, [2e-5, 2e-5, 4e-5]),
    Row("EnvPool", 4, 2, 0, [], "ValueError: [no] such"),
]
FACTS = {
    "env": {"id": "Some-v0"},
    "plan": {"rounds": 3},
    "command": "python -m gymvec compare Some-v0",
    "machine": "Some, 2 cores",
    "versions": {"python": "3.11.7", "gymvec": "0.1.0"},
    "results": results(ROWS),
}


def test_results():
    loops, _, ours, theirs = FACTS["results"]
    assert loops["env steps per second"] == {
        "median": pytest.approx(1e5),
        "lower quartile": pytest.approx(1e5),
        "upper quartile": pytest.approx(1e5),
    }
    assert ours["env steps per second"] == {
        "median": pytest.approx(50000),
        "lower quartile": pytest.approx(37500),
        "upper quartile": pytest.approx(50000),
    }
    # The quotients of the rounds are 0.5, 1 and 0.25.
    assert ours["efficiency"] == pytest.approx(0.5)
    assert (theirs["env steps per second"], theirs["efficiency"]) == (None, None)


def test_without_the_limit_there_is_no_efficiency():
    (row,) = results([Row("gymvec sync", 4, None, 10, [1e-5])])
    assert row["efficiency"] is None


@pytest.mark.parametrize(("rows", "expected"), [(ROWS, False), (ROWS[:2], True), (ROWS[3:], True)])
def test_failed(rows, expected):
    assert failed(results(rows)) is expected


@pytest.mark.parametrize(
    ("factors", "told"), [([], None), ([1.0, 1.05, 2.0], None), ([1.2, 1.37, 1.4], "1.37 times")]
)
def test_uneven_cores(factors, told):
    rows = [Row("bare loops", 4, None, 10, [1e-5] * 3, unevenness=factors), *ROWS[2:]]
    note = note_of_uneven_cores(results(rows))
    assert note is None if told is None else told in note


def test_markdown():
    assert markdown(FACTS) == (
        "| env steps/s (efficiency) | n = 1 | n = 4 |\n"
        "|---|---:|---:|\n"
        "| bare loops (the limit) | 100,000 (1.00) | 100,000 (1.00) |\n"
        "| gymvec async |  | 50,000 (0.50) |\n"
        "| EnvPool |  | - |\n"
        "\n"
        "EnvPool, n = 4: ValueError: [no] such\n"
        "\n"
        "Medians of 3 rounds of `python -m gymvec compare Some-v0` on Some, 2 cores; "
        "python 3.11.7, gymvec 0.1.0."
    )


def test_rich_table():
    console = Console(width=120, file=io.StringIO())
    console.print(rich_table(FACTS))
    lines = [
        [cell.strip() for cell in line.strip("│┃").replace("┃", "│").split("│")]
        for line in console.file.getvalue().splitlines()
        if line[0] in "│┃"
    ]
    assert lines == [
        [
            *("n", "backend", "env steps/s", "quartiles", "us per env step", "efficiency"),
            "why not",
        ],
        ["1", "bare loops (the limit)", "100,000", "100,000 to 100,000", "10", "1.00", ""],
        ["4", "bare loops (the limit)", "100,000", "75,000 to 100,000", "10", "1.00", ""],
        ["4", "gymvec async", "50,000", "37,500 to 50,000", "20", "0.50", ""],
        ["4", "EnvPool", "-", "-", "-", "-", "ValueError: [no] such"],
    ]
