"""Functions that return one environment again and again."""

import gymnasium as gym
import numpy as np
import pytest
from lockstep import assert_same
from scripted import Scripted

import gymvec

ACTIONS = np.zeros((4, 2), np.float32)
ONE_PROCESS = {
    "sync": gymvec.SyncVectorEnv,
    "async": lambda fns: gymvec.AsyncVectorEnv(fns, num_workers=1),
    "forkserver": lambda fns: gymvec.AsyncVectorEnv(fns, num_workers=1, context="forkserver"),
    "restart": lambda fns: gymvec.AsyncVectorEnv(fns, num_workers=1, on_worker_death="restart"),
}


@pytest.mark.parametrize("kind", ONE_PROCESS.values(), ids=ONE_PROCESS)
def test_one_object_in_a_process(kind):
    env = Scripted()
    with pytest.raises(ValueError, match=r"environments \[0, 1, 2, 3\] are one Scripted object"):
        kind([lambda: env] * 4)
    other = Scripted()
    fns = [lambda: other, lambda: env, lambda: Scripted(), lambda: env]
    with pytest.raises(ValueError, match=r"environments \[1, 3\] are one .*an environment of its"):
        kind(fns)


@pytest.mark.parametrize("kind", ONE_PROCESS.values(), ids=ONE_PROCESS)
def test_wrappers_around_one_object(kind):
    env = Scripted()
    fns = [
        Scripted,
        lambda: gym.wrappers.TimeLimit(env, 5),
        lambda: gym.Wrapper(gym.wrappers.PassiveEnvChecker(env)),
    ]
    with pytest.raises(ValueError, match=r"environments \[1, 2\] are one Scripted object"):
        kind(fns)


def test_workers_name_environments_by_their_own_numbers():
    env = Scripted()
    with pytest.raises(ValueError, match=r"environments \[2, 3\] are one"):
        gymvec.AsyncVectorEnv([Scripted, Scripted, lambda: env, lambda: env], num_workers=2)


def test_each_in_its_own_process():
    env = Scripted()
    fns = [lambda: env] * 4
    ours = gymvec.AsyncVectorEnv(fns, num_workers=4)
    theirs = gym.vector.AsyncVectorEnv(fns)
    assert_same(ours.reset(), theirs.reset())
    for _ in range(5):
        assert_same(ours.step(ACTIONS), theirs.step(ACTIONS))
    ours.close()
    theirs.close()


def test_one_that_is_built_in_this_process_too():
    """The environment that tells the spaces is another process's."""
    env = Scripted()
    envs = gymvec.AsyncVectorEnv([lambda: env, Scripted], num_workers=1)
    assert envs.reset()[0].tolist() == [[0, 0]] * 2
    envs.close()


class Bare:
    """What a vector environment asks of an environment, and nothing else."""

    observation_space = action_space = Scripted().observation_space
    metadata = {"render_modes": []}
    render_mode = None
    unwrapped = None

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def close(self):
        pass


@pytest.mark.parametrize("kind", [ONE_PROCESS["sync"], ONE_PROCESS["async"]])
def test_environments_without_a_base(kind):
    envs = kind([Bare] * 3)
    assert envs.reset()[0].tolist() == [[0, 0]] * 3
    envs.close()
    bare = Bare()
    with pytest.raises(ValueError, match=r"environments \[0, 1\] are one Bare object"):
        kind([lambda: bare] * 2)
