"""What figures are taken of: an undisturbed machine, and loops with a core each."""

import functools
import itertools
import os

import compare_envs
import pytest

from gymvec.compare import measure
from gymvec.compare.backends import BACKENDS, Setting
from gymvec.compare.measure import Plan, Pool, measured
from gymvec.compare.subjects import BareLoops


@pytest.fixture
def rounds(monkeypatch):
    def take(disturbed, patience=60):
        monkeypatch.setattr(measure, "_PATIENCE_SECONDS", patience)
        subjects = [(BACKENDS["gymvec-sync"], 1)]
        setting = Setting(functools.partial(compare_envs.Quick, at=-1), 2, 1)
        with Pool() as pool:
            (row,) = measured(
                setting, subjects, Plan(rounds=2, seconds=0.001), pool, disturbed=disturbed
            )
        assert row.reason is None
        assert len(row.seconds) == 2
        return row.retaken, row.disturbed

    return take


def answers(*given):
    """A function that gives these answers, and then no for ever."""
    left = list(given)
    return lambda: left.pop(0) if left else False


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], (0, 0)),
        # Before the first figure it is waited for.
        ([True, True, False, False], (0, 0)),
        # After it, that one does not count.
        ([False, True, False, False], (1, 0)),
        ([False, True, True, False, True, False, False], (2, 0)),
    ],
)
def test_what_was_disturbed_is_taken_anew(rounds, given, expected):
    assert rounds(answers(*given)) == expected


def test_what_is_always_disturbed_counts_in_the_end(rounds):
    assert rounds(lambda: True, patience=0.1) == (0, 2)


def test_what_is_disturbed_after_each_figure_counts_in_the_end(rounds):
    asked = itertools.count()
    retaken, disturbed = rounds(lambda: next(asked) % 2 == 1, patience=0.2)
    assert retaken > 0
    assert disturbed == 2


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="nobody chooses a core")
@pytest.mark.parametrize("spare", [0, 1])
def test_a_loop_for_each_core_has_it_alone(spare):
    usable = sorted(os.sched_getaffinity(0))
    count = len(usable) - spare
    if count == 0:
        pytest.skip("no core to spare")
    loops = BareLoops(functools.partial(compare_envs.Quick, at=-1), len(usable), count)
    try:
        loops.take(1)
        cores = [sorted(os.sched_getaffinity(process.pid)) for process in loops._processes]
    finally:
        loops.close()
    assert cores == ([usable] * count if spare else [[core] for core in usable])
