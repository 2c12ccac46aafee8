"""SyncVectorEnv gives what Gymnasium's gives, to the bit."""

import gymnasium as gym
import pytest
from lockstep import ENVIRONMENTS, MODES, assert_lockstep

import gymvec

STEPS = {"CartPole": 2000, "HalfCheetah": 1000, "MiniGrid": 500, "nested all": 100}


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_lockstep(name, mode, copy):
    factories = [ENVIRONMENTS[name]] * 3
    ours = gymvec.SyncVectorEnv(factories, copy=copy, autoreset_mode=mode)
    theirs = gym.vector.SyncVectorEnv(factories, copy=copy, autoreset_mode=mode)
    assert_lockstep(ours, theirs, STEPS.get(name, 50))


@pytest.mark.parametrize("n", [1, 33])
def test_lockstep_of_other_sizes(n):
    factories = [ENVIRONMENTS["nested arrays"]] * n
    assert_lockstep(gymvec.SyncVectorEnv(factories), gym.vector.SyncVectorEnv(factories), 30)
