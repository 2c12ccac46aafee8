"""The comparison itself, on small checkouts: it must not say that all is well when it is not."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.not_sanitized

RUNNER = Path(__file__).with_name("run.py")


@pytest.fixture
def checkout(tmp_path):
    tests = tmp_path / "tests" / "vector"
    tests.mkdir(parents=True)
    for folder in (tests, tests.parent):
        (folder / "__init__.py").touch()
    (tmp_path / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    # It would be imported in place of the installed one if the checkout were on the path.
    (tmp_path / "gymnasium").mkdir()
    (tmp_path / "gymnasium" / "__init__.py").write_text("raise RuntimeError('the wrong one')")
    return tmp_path


def run(checkout, text, *arguments):
    (checkout / "tests" / "vector" / "test_it.py").write_text(textwrap.dedent(text))
    before = sorted(checkout.rglob("*"))
    done = subprocess.run(
        [sys.executable, RUNNER, checkout, *arguments, "--tests", "tests/vector"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert sorted(checkout.rglob("*")) == before
    return done


SAME = """
    import multiprocessing
    import gymnasium, pytest

    def test_passes(): pass
    def test_fails(): assert False
    def test_skips(): pytest.skip()
    @pytest.mark.xfail
    def test_expected_to_fail(): assert False

    def child(): import gymnasium.vector

    @pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
    def test_child(method):
        process = multiprocessing.get_context(method).Process(target=child)
        process.start()
        process.join()
        assert process.exitcode == 0
"""
WORSE = """
    import sys

    def test_passes(): pass
    def test_better(): assert "gymvec" in sys.modules
    def test_worse(): assert "gymvec" not in sys.modules
"""


def test_nothing_changes(checkout):
    done = run(checkout, SAME)
    assert done.returncode == 0, done.stdout + done.stderr
    children = 3 if sys.platform != "win32" else 1
    counts = f"1 failed, {1 + children} passed, 2 skipped"
    lines = [line.partition("gymvec")[2].strip() for line in done.stdout.splitlines()]
    assert lines == [counts, counts]


def test_a_new_failure_is_an_error(checkout):
    done = run(checkout, WORSE)
    assert done.returncode == 1
    assert "only with gymvec: tests/vector/test_it.py::test_better" in done.stdout
    assert "only without gymvec: tests/vector/test_it.py::test_worse: NOT ALLOWED" in done.stdout
    assert "1 tests pass without gymvec and not with it" in done.stderr


def test_a_crash_does_not_hide_the_tests_behind_it(checkout):
    text = """
        import os, sys
        def test_crashes(): os._exit(0)
        def test_passes(): pass
        def test_crashes_with_gymvec(): "gymvec" in sys.modules and os.abort()
        def test_worse(): assert "gymvec" not in sys.modules
    """
    done = run(checkout, text)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    assert lines[0].endswith("1 crashed, 3 passed") and "2 crashed, 1 failed, 1 passed" in lines[1]
    assert "2 tests pass without gymvec and not with it" in done.stderr


def test_a_module_that_cannot_be_imported_with_gymvec_is_an_error(checkout):
    text = 'import sys\nassert "gymvec" not in sys.modules\ndef test_passes(): pass\n'
    assert run(checkout, text).returncode == 1


def test_a_suite_without_a_passing_test_compares_nothing(checkout):
    done = run(checkout, "def test_fails(): assert False")
    assert done.returncode == 1 and "nothing was compared" in done.stderr


def test_a_folder_that_is_no_checkout(tmp_path):
    done = subprocess.run(
        [sys.executable, RUNNER, tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "not a checkout" in done.stderr
