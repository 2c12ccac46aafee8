"""Hostile arguments to every compiled callable, in a process whose crash is seen."""

import os
import subprocess
import sys
from pathlib import Path

import kernel_calls
import pytest
from hypothesis import settings

HERE = Path(__file__).parent
# About five milliseconds each.
EXAMPLES = 25 * settings().max_examples
TIMEOUT_SECONDS = 280 + EXAMPLES // 20


def test_every_compiled_callable_is_called():
    assert set(kernel_calls.compiled()) == set(kernel_calls.CALLS) | kernel_calls.IMMEDIATE


@pytest.mark.parametrize("name", sorted(kernel_calls.CALLS))
def test_the_good_calls_are_good(name):
    """Or hostile ones would be refused for what they are not meant to be refused for."""
    kernel_calls.find(name)(*kernel_calls.CALLS[name]())


# The program draws the examples. The marker puts it among the tests that `make test-random` runs.
@pytest.mark.hypothesis
@pytest.mark.timeout(TIMEOUT_SECONDS + 20)
@pytest.mark.skipif(sys.platform == "win32", reason="interval timers")
def test_no_crash_and_no_byte_outside(tmp_path):
    log = tmp_path / "last_call"
    seed = os.environ.get("FUZZ_SEED", "1")
    done = subprocess.run(
        [sys.executable, str(HERE / "fuzz_kernels.py"), str(EXAMPLES), seed],
        env={
            **os.environ,
            "LAST_CALL": str(log),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        },
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    last = log.read_bytes()[:300].decode().strip() if log.exists() else "none"
    assert done.returncode == 0, f"{last}\n{done.stderr[-4000:]}"
    assert f"{EXAMPLES} calls" in done.stdout
