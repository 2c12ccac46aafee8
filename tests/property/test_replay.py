"""Which examples property tests draw: the same in each run, or those of a seed."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
DRAWS = """
from hypothesis import given, strategies as st

@given(st.integers(0, 2**64), st.text())
def test_draws(number, text):
    print("drawn", number, ascii(text))
"""


def drawn(folder, *options, **variables):
    """What a property test draws under the settings of these tests, in a new process."""
    (folder / "test_draws.py").write_text(DRAWS)
    environment = {**os.environ, "PYTHONPATH": str(TESTS), **variables}
    if not variables:
        environment.pop("HYPOTHESIS_PROFILE", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-s", "-p", "conftest", *options, "test_draws.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if "drawn" in line]


def test_each_run_draws_the_same(tmp_path):
    first = drawn(tmp_path)
    assert len(first) == 200
    assert drawn(tmp_path) == first


def test_a_seed_draws_the_same_again(tmp_path):
    profile = {"HYPOTHESIS_PROFILE": "random", "EXAMPLES": "300"}
    first = drawn(tmp_path, "--hypothesis-seed=5", **profile)
    assert len(first) == 300
    assert drawn(tmp_path, "--hypothesis-seed=5", **profile) == first
    assert drawn(tmp_path, "--hypothesis-seed=6", **profile) != first
