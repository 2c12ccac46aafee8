"""Random infos through whole vector environments: what Gymnasium's SyncVectorEnv makes of them."""

import gymnasium as gym
import numpy as np
import pytest
from equality import outcome
from gymnasium.vector import AutoresetMode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from info_strategies import N, calls, gymnasiums
from lockstep import assert_same
from scripted import Scripted

import gymvec

ACTIONS = np.zeros((N, 2), np.float32)
MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP]


class Informed(Scripted):
    """Its infos are those of a list, one after another; all other things are always the same."""

    def __init__(self):
        super().__init__()
        self.script = [{}]
        self.ends = False

    def next_info(self):
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def reset(self, *, seed=None, options=None):
        return self.observe(0), self.next_info()

    def step(self, action):
        return self.observe(0), 1.0, self.ends, False, self.next_info()


@pytest.fixture(scope="module", params=MODES, ids=str)
def vector_envs(request):
    """Gymnasium's, gymvec's in this process and in others, of one autoreset mode."""
    mode = request.param
    made = [
        gym.vector.SyncVectorEnv([Informed] * N, autoreset_mode=mode),
        gymvec.SyncVectorEnv([Informed] * N, autoreset_mode=mode),
        gymvec.AsyncVectorEnv([Informed] * N, autoreset_mode=mode, num_workers=2),
    ]
    yield made
    for envs in made:
        envs.close()


def raised(what):
    """Class and text of an error."""
    return type(what.error), str(what.error)


def play(envs, scripts, ends, steps):
    """The results of some calls, up to the first error."""
    envs.set_attr("ends", ends)
    envs.set_attr("script", scripts)
    results = [outcome(envs.reset)]
    while results[-1].error is None and len(results) <= steps:
        results.append(outcome(envs.step, ACTIONS))
    # An error is not the end of the environments, and leaves nothing to the call after it.
    envs.set_attr("script", [[{}]] * N)
    envs.set_attr("ends", [False] * N)
    assert envs.reset()[1] == {}
    assert envs.step(ACTIONS)[4] == {}
    return results


@settings(suppress_health_check=list(HealthCheck))
@given(st.lists(calls, min_size=1, max_size=4), st.lists(st.booleans(), min_size=N, max_size=N))
def test_reset_and_step(vector_envs, infos, ends):
    scripts = [list(script) for script in zip(*infos, strict=True)]
    theirs, *ours = vector_envs
    expected = play(theirs, scripts, ends, len(infos))
    for envs in ours:
        scripts = [list(script) for script in zip(*infos, strict=True)]
        played = play(envs, scripts, ends, len(infos))
        for i, (actual, right) in enumerate(zip(played, expected, strict=True)):
            assert raised(actual) == raised(right), type(envs)
            assert actual.warnings == right.warnings
            assert_same(actual.result, right.result, f"{type(envs).__name__}, call {i}")


@pytest.fixture(scope="module")
def received():
    """A vector environment whose batches are of half of its environments."""
    envs = gymvec.AsyncVectorEnv([Informed] * N, num_workers=N, batch_size=N // 2)
    yield envs
    envs.close()


@settings(suppress_health_check=list(HealthCheck))
@given(calls)
def test_recv(received, infos):
    """Infos are numbered by their position in the batch; an error says whose they are."""
    received.set_attr("script", [[info] for info in infos])
    received.async_reset()
    waiting = N
    while waiting >= received.batch_size:
        actual = outcome(received.recv, 60)
        if actual.error is None:
            envs = actual.result[4].pop("env_id").tolist()
            assert actual.result[4].pop("_env_id").all()
        else:
            envs = actual.error.__cause__.env_ids
        items = [(i, infos[env]) for i, env in enumerate(envs)]
        expected = outcome(gymnasiums, items, received.batch_size)
        assert raised(actual) == raised(expected)
        assert actual.warnings == expected.warnings
        if actual.error is None:
            assert_same(actual.result[4], expected.result, "infos")
        waiting -= len(envs)
