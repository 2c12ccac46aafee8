"""Random arrays as observations and actions: what Gymnasium's SyncVectorEnv makes of them."""

import gymnasium as gym
import numpy as np
import pytest
from equality import outcome
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, Tuple
from gymnasium.vector import AutoresetMode
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from info_strategies import N, arrays, numbers, others
from layouts import LAYOUTS, laid_out
from lockstep import CustomSpace, assert_same
from scripted import Scripted

import gymvec

ACTION_SPACE = Dict(
    a=Box(-9, 9, (2, 3), np.float32),
    b=Tuple([Discrete(9), Box(0, 200, (), np.float64), MultiBinary(3)]),
)
OBSERVATION_SPACE = Dict(**ACTION_SPACE.spaces, c=CustomSpace())


class Keeps(Scripted):
    """Returns the observations of a list, one after another, and keeps its action."""

    def __init__(self):
        super().__init__(OBSERVATION_SPACE, ACTION_SPACE)
        self.ends = False
        self.action = None
        self.script = [OBSERVATION_SPACE.sample()]

    def next_observation(self):
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def reset(self, *, seed=None, options=None):
        return self.next_observation(), {}

    def step(self, action):
        self.action = action
        return self.next_observation(), 1.0, self.ends, False, {}


@pytest.fixture(scope="module", params=[AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP], ids=str)
def vector_envs(request):
    """Gymnasium's; gymvec's in this process, and in others with and without shared memory."""
    mode = request.param
    made = [
        gym.vector.SyncVectorEnv([Keeps] * N, autoreset_mode=mode),
        gymvec.SyncVectorEnv([Keeps] * N, autoreset_mode=mode),
        gymvec.AsyncVectorEnv([Keeps] * N, autoreset_mode=mode, num_workers=2),
        gymvec.AsyncVectorEnv([Keeps] * N, autoreset_mode=mode, shared_memory=False),
    ]
    yield made
    for envs in made:
        envs.close()


layouts = st.sampled_from(["C", "C", *LAYOUTS])


def values(shape):
    """What fits the spaces of actions, with more dimensions in front."""

    def array(row, dtype):
        count = int(np.prod(shape + row))
        numbers = st.integers(0, 99).map(
            lambda first: (np.arange(first, first + count) % 8).astype(dtype).reshape(shape + row)
        )
        return st.builds(laid_out, numbers, layouts)

    numbers = st.tuples(array((), "i8"), array((), "f8"), array((3,), "i1"))
    return st.fixed_dictionaries({"a": array((2, 3), "f4"), "b": numbers})


observations = st.builds(
    lambda value, other: {**value, "c": other}, values(()), st.one_of(arrays, numbers, others)
)


def own(value):
    """The value with its arrays C-contiguous and native, as environments are given them."""
    if isinstance(value, np.ndarray) and value is not np.ma.masked:
        return np.array(value, value.dtype.newbyteorder("="), order="C", subok=True)
    if isinstance(value, dict):
        return {key: own(part) for key, part in value.items()}
    return tuple(own(part) for part in value) if isinstance(value, tuple) else value


def play(envs, scripts, ends, actions):
    envs.set_attr("ends", ends)
    envs.set_attr("script", scripts)
    results = [outcome(envs.reset)]
    for action in actions:
        results += [outcome(envs.step, action), outcome(envs.get_attr, "action")]
    return results


@settings(suppress_health_check=list(HealthCheck))
@given(
    st.lists(st.lists(observations, min_size=N, max_size=N), min_size=1, max_size=3),
    st.lists(st.booleans(), min_size=N, max_size=N),
    st.lists(values((N,)), min_size=1, max_size=2),
)
def test_observations_and_actions(vector_envs, observations, ends, actions):
    played = []
    for envs in vector_envs:
        scripts = [list(script) for script in zip(*observations, strict=True)]
        played.append(play(envs, scripts, ends, actions))
    theirs, *others = played
    for envs, ours in zip(vector_envs[1:], others, strict=True):
        for i, (actual, expected) in enumerate(zip(ours, theirs, strict=True)):
            where = f"{type(envs).__name__}, call {i}"
            assert (actual.error, expected.error) == (None, None), where
            assert actual.warnings == expected.warnings, where
            is_action = i > 0 and i % 2 == 0
            assert_same(
                actual.result, own(expected.result) if is_action else expected.result, where
            )
