"""What judges measurements, keeps them and puts them into the pages."""

import json
import os
import re
from pathlib import Path

import pytest

from gymvec.cli.report import results
from gymvec.measuring.rounds import Row

pytestmark = pytest.mark.not_sanitized

ROOT = Path(__file__).parents[2]
ABOUT = {
    "command": "python some.py",
    "machine": "Some, 2 cores",
    "versions": {"python": "3.11.7"},
}
NOTE = "`python some.py` on Some, 2 cores; python 3.11.7."


@pytest.fixture(autouse=True)
def bench(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "bench")


def test_quartiles():
    from measure import quartiles

    assert quartiles([3e-6, 1e-6, 2e-6, 5e-6, 123456789e-8]) == [2.0, 3.0, 5.0]
    assert quartiles([1.23456789e-6]) == [1.23457] * 3


ROWS = [
    Row("bare loops", 4, None, 10, [1e-5, 1e-5], unevenness=[1.0, 1.5]),
    Row("Gymnasium async", 4, None, 10, [8e-5, 8e-5]),
    Row("gymvec async", 4, 2, 10, [2e-5, 4e-5]),
    Row("SB3 DummyVecEnv", 4, None, 10, [6e-5, 4e-5]),
    Row("SuperSuit", 4, None, 0, [], "ValueError: " + "x" * 200),
]


def test_results_are_kept_without_their_rounds():
    from measure import reduced

    loops, _, ours, theirs, failed = reduced(results(ROWS))
    assert loops["unevenness"] == 1.25
    assert ours["us per env step, quartiles"] == [25.0, 30.0, 35.0]
    assert ours["over gymvec async"] == 1.0
    assert theirs == {
        "backend": "SB3 DummyVecEnv", "num_envs": 4, "workers": None, "steps": 10, "reason": None,
        "unevenness": None, "us per env step, quartiles": [45.0, 50.0, 55.0],
        "efficiency": pytest.approx((1 / 6 + 1 / 4) / 2), "over gymvec async": pytest.approx(2.0),
    }  # fmt: skip
    assert failed["us per env step, quartiles"] is failed["over gymvec async"] is None


def test_a_series_is_written_in_one_line(tmp_path):
    from measure import write

    found = {"a": [1.5, None, 2], "b": ["[ 1 ]", "x"], "c": [[1, 2], {"d": []}]}
    write(tmp_path / "found.json", found)
    text = (tmp_path / "found.json").read_text()
    assert json.loads(text) == found
    assert '"a": [1.5, null, 2],' in text and "[1, 2]" in text


def others(found=None):
    return ABOUT | {
        "num_envs": 4,
        "workers": 2,
        "plan": {"rounds": 2},
        "absent": {"EnvPool": "envpool is not installed"},
        "env": {"id": "One-v0"},
        "results": found,
    }


def test_the_table_of_other_packages():
    from measure import reduced
    from table import other_packages

    found = [{"env": "One-v0", **result} for result in reduced(results(ROWS))]
    found += [{"env": "Two-v0", **result} for result in reduced(results(ROWS[2:4]))]
    assert other_packages(others(found)) == (
        "| times gymvec async | One-v0 | Two-v0 |\n"
        "|---|---:|---:|\n"
        "| SB3 DummyVecEnv | 2.0 | 2.0 |\n"
        "| SuperSuit | fails | - |\n"
        "\n"
        f"SuperSuit fails on One-v0: ValueError: {'x' * 85}...\n"
        "\n"
        "EnvPool: envpool is not installed\n"
        "\n"
        f"4 environments, 2 workers; medians of 2 rounds of {NOTE}"
    )


def test_what_another_table_has_is_left_out():
    from measure import reduced
    from table import numbers_of_envs

    more = [Row(row.backend, 8, row.workers, 10, row.seconds) for row in ROWS[:4]]
    compared = others(reduced(results(ROWS + more)))
    of_peers = others([{"env": "One-v0", "num_envs": 4}])
    assert numbers_of_envs(compared, of_peers) == (
        "| times gymvec async | n = 8 |\n"
        "|---|---:|\n"
        "| SB3 DummyVecEnv | 2.0 |\n"
        "\n"
        f"One-v0; medians of 2 rounds of {NOTE}"
    )


def test_readmes_table():
    from table import step_times

    result = {
        "env": "One-v0", "num_envs": 32, "rounds": 7, "refused": {},
        "us per env step, quartiles": {"Gymnasium async": [9, 49.3, 60], "gymvec async": [3, 3.6, 4]},
        "over gymvec async": {"Gymnasium async": 13.4},
    }  # fmt: skip
    fails = {
        "env": "Two-v0", "num_envs": 32, "rounds": 7, "refused": {"Gymnasium async": "ValueError"},
        "us per env step, quartiles": {"gymvec async": [3, 5.0, 7]}, "over gymvec async": {},
    }  # fmt: skip
    found = [{**result, "num_envs": 8}, result, {**fails, "num_envs": 8}, fails]
    assert step_times(ABOUT | {"workers": 2, "results": found}) == (
        "| us per environment step | Gymnasium async | gymvec async | ratio |\n"
        "|---|---:|---:|---:|\n"
        "| One-v0 | 49 | 3.6 | 13 |\n"
        "| Two-v0 | fails | 5.0 | - |\n"
        "\n"
        "Gymnasium async fails on Two-v0: ValueError\n"
        "\n"
        f"32 environments, 2 workers of gymvec; medians of 7 rounds of {NOTE}"
    )


def test_the_table_of_busy_cores():
    from table import contended

    row = {
        "env": "One-v0", "num_envs": 8, "best other": "gymvec sync", "ratio": 0.98, "at most": 1.25,
        "us per env step, quartiles": {"gymvec sync": [1.0, 2.0, 3.0], "gymvec async": [1, 1.96, 2]},
    }  # fmt: skip
    rows = [{"situation": "idle", **row}, {"situation": "one busy process", **row}]
    assert contended(ABOUT | {"results": rows}) == (
        "| beside | environment | n | gymvec sync, us | gymvec async, us "
        "| gymvec async / best other | best other |\n"
        "|---|---:|---:|---:|---:|---:|---:|\n"
        "| one busy process | One-v0 | 8 | 2.0 | 2.0 | 0.98 | gymvec sync |\n"
        "\n"
        f"Microseconds per environment step; medians of {NOTE}"
    )


def test_the_tables_of_latency():
    from table import ready_first, round_trips

    trip = {
        "what": "1 environment", "against": "a pipe", "ratio": 12.9, "target": 5,
        "us per step, quartiles": {"gymvec async": [1, 2.0, 3], "a pipe": [20, 25.8, 30]},
    }  # fmt: skip
    way = {
        "what": "gymvec async, all", "steps": "sleep", "ratio": 1.9,
        "us per env step, quartiles": [1, 2.0, 3],
    }  # fmt: skip
    figures = ABOUT | {"round trips": [trip]}
    assert "\n| 1 environment | 2.0 | a pipe | 13 |\n" in round_trips(figures)
    assert ready_first(figures).startswith("Not measured yet: `python bench/latency.py")
    figures["ready first"] = [way]
    assert "\n| gymvec async, all | sleep | 2.0 | 1.9 |\n" in ready_first(figures)


def test_tables_of_functions():
    from functions import below, reduced
    from table import functions

    def entry(name, number, seconds):
        info = {"name": name, "number": number, "calls": 10, "floor": 4}
        return {"group": "`f`", "extra_info": info, "stats": {"median": seconds}}

    measured = [entry("gymnasium", 0, 6e-5), entry("gymvec", 0, 2e-5)]
    measured += [entry("gymnasium", 1, 8e-5), entry("gymvec", 1, 4e-5)]
    result = ABOUT | reduced({"benchmarks": measured})
    assert result["rows"] == [
        {
            "call": "`f`",
            "floor": 4,
            "gymnasium": pytest.approx(7.0),
            "gymvec": pytest.approx(3.0),
            "ratio": pytest.approx(2.5),
        }
    ]
    assert below(result) == ["`f`: 2.50, floor 4"]
    assert "\n| `f` | 7.0 | 3.0 | 2.5 |\n" in functions(result)


def test_pasting_needs_one_place():
    from table import pasted

    page = "a\n<!-- table of one -->\nold\n<!-- end of table -->\nb\n<!-- end of table -->\n"
    assert pasted(page, "one", "new") == page.replace("old", "new")
    with pytest.raises(ValueError, match="expected one '<!-- table of two -->' in the page, got 0"):
        pasted(page, "two", "new")


def test_the_pages_have_the_figures_that_are_kept():
    from table import PAGES, pages

    found = pages()
    assert found.keys() == PAGES.keys()
    for page, text in found.items():
        assert (ROOT / page).read_text("utf-8") == text, page


def test_a_cell_has_one_value():
    readme = (ROOT / "README.md").read_text("utf-8").partition("<!-- end of table -->")[0]
    text = readme + (ROOT / "docs/benchmarks.md").read_text("utf-8")
    cells = [
        cell
        for line in text.splitlines()
        if line.startswith("| ")
        # Names come first, and some have digits.
        for cell in re.split(r" +\| +", line.strip("| "))[1:]
        if re.match(r"[\d.,]+", cell) and not re.search("[a-z]", cell)
    ]
    assert len(cells) > 200
    assert [cell for cell in cells if not re.fullmatch(r"[\d,]+(\.\d+)?%?", cell)] == []
    assert not re.search(r"\d \(\d|\d of \d|\d / \d", "".join(re.findall(r"^\| .*$", text, re.M)))


@pytest.mark.parametrize(
    "path", [*(ROOT / "bench" / "results").glob("*.json")], ids=lambda path: path.stem
)
def test_no_result_keeps_its_rounds(path):
    def series(found, key):
        """Each list of numbers, and the key that it stands under."""
        if isinstance(found, list) and any(isinstance(value, float | int) for value in found):
            yield key, len(found)
        elif isinstance(found, dict):
            for name, value in found.items():
                yield from series(value, key if "quartiles" in key else name)
        elif isinstance(found, list):
            for value in found:
                yield from series(value, key)

    known = {
        "load before and after": 2,
        "us per env step, quartiles": 3,
        "us per step, quartiles": 3,
    }
    found = set(series(json.loads(path.read_text("utf-8")), path.stem))
    assert found <= known.items()


def test_figures_between_slow_probes_do_not_count():
    from probes import at_full_speed

    # The second core is slower, always.
    fast, first_slow, second_slow = [1.0, 2.0], [1.3, 2.0], [1.0, 2.6]
    built = [("a", fast), ("b", fast)]
    rounds = [
        ("a", fast), ("b", [1.1, 2.2]),
        ("a", first_slow), ("b", fast),
        ("a", fast), ("b", second_slow),
        ("a", fast), ("b", fast),
    ]  # fmt: skip
    assert at_full_speed(built + rounds * 10) == {
        "a": [True, False, True, False] * 10,
        "b": [True, False, False, True] * 10,
    }


def test_probes_ask_each_core_and_leave_the_process_where_it_was():
    from probes import Probes

    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    probes = Probes()
    for _ in range(3):
        probes("a")
    assert len(probes.at_full_speed()["a"]) == 2
    if usable is not None:
        assert os.sched_getaffinity(0) == usable
        assert [len(times) for _, times in probes._taken] == [len(usable)] * 3


def test_efficiency_is_that_of_the_rounds_that_count():
    from vector_envs import judged

    key = ("CartPole-v1", 32)

    def result():
        return {
            "env": key[0],
            "num_envs": key[1],
            "times": {
                "bare loops": [2.0] * 7 + [9.0, 2.0],
                "gymvec async": [1.25, 1.0, 1.25, 1.0, 1.25, 1.0, 1.25, 1.0, 9.0],
                "Gymnasium sync": [2.0] * 9,
            },
        }

    flags = {
        (*key, "bare loops"): [True] * 7 + [False, True],
        (*key, "gymvec async"): [True] * 8 + [False],
        (*key, "Gymnasium sync"): [True] * 9,
    }
    found = judged(result(), flags, cores=2)
    assert (found["rounds that count"], found["rounds"]) == (7, 9)
    assert found["efficiency"] == {"gymvec async": 0.8, "Gymnasium sync": 0.5}
    assert found["efficiency in all rounds"] == {"gymvec async": 0.8, "Gymnasium sync": 0.5}
    assert found["us per env step, quartiles"]["gymvec async"] == [1e6, 1.25e6, 1.25e6]
    assert found["over gymvec async"] == {"Gymnasium sync": 1.6}
    assert (found["target"], found["reached"]) == (0.85, False)
    assert "times" not in found

    flags[(*key, "gymvec async")] = [True] * 6 + [False, True, False]
    found = judged(result(), flags, cores=2)
    assert found["efficiency"] == {"Gymnasium sync": 0.5}
    assert found["reached"] is False


def test_the_target_of_doing_nothing():
    from vector_envs import judged

    key = ("Nothing", 32)
    times = {"bare loops": [1.0], "gymvec async": [1.0], "Gymnasium sync": [3.0]}
    flags = {(*key, kind): [True] for kind in times}
    for theirs, reached in (59.0, False), (61.0, True):
        figures = {**times, "Gymnasium async": [theirs]}
        found = judged(
            {"env": key[0], "num_envs": key[1], "times": figures},
            flags | {(*key, "Gymnasium async"): [True]},
            cores=2,
        )
        assert found["reached"] is reached
