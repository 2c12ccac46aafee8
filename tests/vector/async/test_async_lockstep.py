"""AsyncVectorEnv gives what Gymnasium's SyncVectorEnv gives, to the bit."""

import gymnasium as gym
import pytest
from lockstep import ALL_LEAVES, ENVIRONMENTS, MODES, RandomEnv, assert_lockstep, nested

import gymvec

pytestmark = pytest.mark.timeout(60)

STEPS = {"CartPole": 1000, "HalfCheetah": 200, "MiniGrid": 200, "nested all": 60}
# What Gymnasium raises for shared memory.
NOT_SHARED = {
    "one sequence": TypeError,
    "one stacked": TypeError,
    "one graph": TypeError,
    "one custom": ValueError,
}
LEAVES = [name for name in ENVIRONMENTS if name.startswith("one ")]


def lockstep(name, n, steps, mode=gymvec.AutoresetMode.NEXT_STEP, **kwargs):
    factories = [ENVIRONMENTS[name]] * n
    theirs = gym.vector.SyncVectorEnv(factories, copy=kwargs.get("copy", True), autoreset_mode=mode)
    assert_lockstep(gymvec.AsyncVectorEnv(factories, autoreset_mode=mode, **kwargs), theirs, steps)


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["CartPole", "HalfCheetah", "MiniGrid", "nested all"])
def test_lockstep(name, mode, shared_memory):
    lockstep(name, 3, STEPS[name], mode, shared_memory=shared_memory, num_workers=2)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["nested arrays", "nested shared", "nested all"])
def test_lockstep_with_and_without_copies(name, mode, copy):
    lockstep(name, 3, 40, mode, copy=copy, num_workers=2)


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("name", LEAVES)
def test_lockstep_of_one_leaf(name, shared_memory):
    if shared_memory and name in NOT_SHARED:
        with pytest.raises(NOT_SHARED[name], match="shared"):
            lockstep(name, 2, 1)
        return
    lockstep(name, 2, 20, shared_memory=shared_memory, num_workers=2)


@pytest.mark.parametrize("wait", ["auto", "spin", "block"])
@pytest.mark.parametrize("workers", [1, 2, 5])
def test_lockstep_with_any_number_of_workers_and_way_of_waiting(workers, wait):
    lockstep("nested all", 5, 30, num_workers=workers, wait=wait)


@pytest.mark.parametrize("n", [1, 33])
def test_lockstep_of_other_sizes(n):
    lockstep("nested arrays", n, 30)


def _deep():
    return RandomEnv(nested(ALL_LEAVES), ENVIRONMENTS["nested shared"]().action_space)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_lockstep_with_other_start_methods(context):
    factories = [_deep] * 3
    theirs = gym.vector.SyncVectorEnv(factories, autoreset_mode=MODES[1])
    ours = gymvec.AsyncVectorEnv(factories, context=context, num_workers=2, autoreset_mode=MODES[1])
    assert_lockstep(ours, theirs, 100)
