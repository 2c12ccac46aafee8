"""What puts measurements into README.md."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gymvec.compare.measure import Row
from gymvec.compare.report import results

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
