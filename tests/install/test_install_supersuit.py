"""SuperSuit's vector environments: the same trajectory with gymvec installed and without."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("supersuit_program.py")

for package in ("supersuit", "pettingzoo"):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed", allow_module_level=True)


def trajectory(processes, when):
    done = subprocess.run(
        [sys.executable, PROGRAM, str(processes), when],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("processes", [0, 2], ids=["in process", "two processes"])
def test_same_trajectory(processes):
    without = trajectory(processes, "never")
    assert len(without) == 16
    assert trajectory(processes, "first") == without
    assert trajectory(processes, "after") == without
