"""Bare loops: a core each."""

import functools
import os

import compare_envs
import pytest

from gymvec.measuring.workloads import BareLoops

pytestmark = pytest.mark.not_sanitized


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
