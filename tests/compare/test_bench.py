"""What judges measurements and puts them into README.md."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gymvec.cli.report import results
from gymvec.measuring.rounds import Row

BENCH = Path(__file__).parents[2] / "bench"
README = "before\n<!-- table of compare -->\nold\n<!-- end of table -->\nbetween\n<!-- table of peers -->\n<!-- end of table -->\nafter\n"


@pytest.fixture
def readme(tmp_path):
    def paste(kind, figures):
        source, target = tmp_path / "result.json", tmp_path / "README.md"
        source.write_text(json.dumps(figures))
        target.write_text(README)
        subprocess.run(
            [sys.executable, BENCH / "readme.py", kind, source, target], check=True, timeout=60
        )
        return target.read_text()

    return paste


def figures(found):
    return {
        "command": "python some.py",
        "machine": "Some, 2 cores",
        "versions": {"python": "3.11.7"},
        "plan": {"rounds": 1},
        "num_envs": 4,
        "workers": 2,
        "absent": {"EnvPool": "envpool is not installed"},
        "results": found,
    }


ROWS = [
    Row("bare loops", 4, None, 10, [1e-5]),
    Row("gymvec async", 4, 2, 10, [2e-5]),
    Row("SuperSuit", 4, None, 0, [], "ValueError: " + "x" * 200),
]


def test_compare(readme):
    assert readme("compare", figures(results(ROWS[:2]))) == (
        "before\n<!-- table of compare -->\n"
        "| env steps/s (efficiency) | n = 4 |\n"
        "|---|---:|\n"
        "| bare loops (the limit) | 100,000 (1.00) |\n"
        "| gymvec async | 50,000 (0.50) |\n"
        "\n"
        "Medians of 1 rounds of `python some.py` on Some, 2 cores; python 3.11.7.\n"
        "<!-- end of table -->\nbetween\n<!-- table of peers -->\n<!-- end of table -->\nafter\n"
    )


def test_peers(readme):
    found = [{"env": "One-v0", **result} for result in results(ROWS)]
    found += [{"env": "Two-v0", **result} for result in results(ROWS[:1])]
    assert readme("peers", figures(found)) == (
        "before\n<!-- table of compare -->\nold\n<!-- end of table -->\nbetween\n"
        "<!-- table of peers -->\n"
        "| us per env step (efficiency) | One-v0 | Two-v0 |\n"
        "|---|---:|---:|\n"
        "| bare loops (the limit) | 10 (1.00) | 10 (1.00) |\n"
        "| gymvec async | 20 (0.50) |  |\n"
        "| SuperSuit | fails |  |\n"
        "\n"
        f"SuperSuit fails on One-v0: ValueError: {'x' * 85}...\n"
        "\n"
        "EnvPool: envpool is not installed\n"
        "\n"
        "4 environments, 2 workers; medians of 1 rounds of `python some.py` on Some, 2 cores; "
        "python 3.11.7.\n"
        "<!-- end of table -->\nafter\n"
    )


@pytest.mark.parametrize(
    ("command", "source"),
    [
        (["table.py", "paste"], "utils"),
        (["vector_table.py"], "efficiency"),
        (["readme.py", "compare"], "compare"),
        (["readme.py", "peers"], "peers"),
    ],
)
def test_readme_has_the_figures_that_are_kept(tmp_path, command, source):
    kept = BENCH.parent / "README.md"
    target = tmp_path / "README.md"
    shutil.copy(kept, target)
    script, *more = command
    subprocess.run(
        [sys.executable, BENCH / script, *more, BENCH / f"results/{source}.json", target],
        check=True,
        timeout=60,
    )
    assert target.read_text(encoding="utf-8") == kept.read_text(encoding="utf-8")


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(BENCH)


def test_figures_between_slow_probes_do_not_count(bench):
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


def test_probes_ask_each_core_and_leave_the_process_where_it_was(bench):
    from probes import Probes

    usable = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    probes = Probes()
    for _ in range(3):
        probes("a")
    assert len(probes.at_full_speed()["a"]) == 2
    if usable is not None:
        assert os.sched_getaffinity(0) == usable
        assert [len(times) for _, times in probes._taken] == [len(usable)] * 3


def test_efficiency_is_that_of_the_rounds_that_count(bench):
    from efficiency import judged

    key = ("CartPole-v1", 32)
    result = {
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
    found = judged(result, flags, cores=2)
    assert (found["rounds that count"], found["rounds"]) == (7, 9)
    assert found["efficiency"] == {"gymvec async": 0.8, "Gymnasium sync": 0.5}
    assert found["efficiency in all rounds"] == {"gymvec async": 0.8, "Gymnasium sync": 0.5}
    assert found["medians"]["gymvec async"] == 1.125
    assert (found["target"], found["reached"]) == (0.85, False)

    flags[(*key, "gymvec async")] = [True] * 6 + [False, True, False]
    found = judged(result, flags, cores=2)
    assert found["efficiency"] == {"Gymnasium sync": 0.5}
    assert found["reached"] is False
