"""copy=False: what a call returned stays valid through the next, in either of two blocks."""

from __future__ import annotations

import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Text
from gymnasium.vector import AutoresetMode
from lockstep import ENVIRONMENTS, MODES, assert_same

import gymvec
from gymvec.vector.copying import copy_value


class Counts(gym.Env):
    """Observes its number, how many resets and how many steps it made."""

    observation_space = Box(0, 1e9, (3,))
    action_space = Box(-9, 9, ())

    def __init__(self, number):
        self.number = number
        self.resets = 0
        self.steps = 0

    def observe(self):
        return np.array([self.number, self.resets, self.steps], np.float32)

    def reset(self, *, seed=None, options=None):
        if (options or {}).get("fail") == self.number:
            raise LookupError("reset")
        self.resets += 1
        self.steps = 0
        return self.observe(), {}

    def step(self, action):
        if action == -1:
            raise LookupError("step")
        if action == 2:
            time.sleep(0.5)
        self.steps += 1
        return self.observe(), 0.0, False, False, {}

    def nap(self, seconds):
        time.sleep(seconds)


@pytest.fixture
def envs():
    made = gymvec.AsyncVectorEnv(
        [lambda i=i: Counts(i) for i in range(3)], copy=False, num_workers=2, context="fork"
    )
    yield made
    made.close(terminate=True)


def mask(*envs):
    chosen = np.zeros(3, np.bool_)
    chosen[list(envs)] = True
    return {"reset_mask": chosen}


def tail(observations):
    """Resets and steps of each environment."""
    assert observations[:, 0].tolist() == [0, 1, 2]
    return observations[:, 1:].astype(int).tolist()


def test_two_blocks_take_turns(envs):
    first, _ = envs.reset()
    second = envs.step(np.zeros(3))[0]
    assert tail(first) == [[1, 0]] * 3 and tail(second) == [[1, 1]] * 3
    third = envs.step(np.zeros(3))[0]
    assert np.shares_memory(third, first) and not np.shares_memory(third, second)
    assert tail(second) == [[1, 1]] * 3 and tail(third) == [[1, 2]] * 3
    assert envs.observations is third
    fourth = envs.step(np.zeros(3))[0]
    assert np.shares_memory(fourth, second)
    assert not fourth.flags.owndata and tail(third) == [[1, 2]] * 3


def test_a_masked_reset_carries_the_others(envs):
    envs.reset()
    kept = [envs.step(np.zeros(3))[0]]
    for i, wanted in enumerate(([[2, 0], [1, 1], [1, 1]], [[2, 0], [2, 0], [1, 1]])):
        observations, _ = envs.reset(options=mask(i))
        assert tail(observations) == wanted
        assert not np.shares_memory(observations, kept[-1])
        kept.append(observations)
    assert tail(kept[-2]) == [[2, 0], [1, 1], [1, 1]]
    assert tail(envs.step(np.zeros(3))[0]) == [[2, 1], [2, 1], [1, 2]]


def test_a_step_that_fails_leaves_the_last_one_as_it_was(envs):
    envs.reset()
    last = envs.step(np.zeros(3))[0]
    for _ in range(3):
        with pytest.raises(LookupError):
            envs.step([0.0, -1.0, 0.0])
        assert tail(last) == [[1, 1]] * 3
    # The one that failed is where it was; the others have gone on.
    observations, _ = envs.reset(options=mask(0))
    assert tail(observations) == [[2, 0], [1, 1], [1, 4]]
    with pytest.raises(LookupError):
        envs.reset(options={"fail": 2, **mask(0, 2)})
    assert tail(observations) == [[2, 0], [1, 1], [1, 4]]
    assert tail(envs.reset(options=mask(1))[0]) == [[3, 0], [2, 0], [1, 4]]


def test_late_answers_and_other_calls(envs):
    envs.reset()
    last = envs.step(np.zeros(3))[0]
    envs.call("nap", 0.0)
    envs.set_attr("steps", [10, 20, 30])
    envs.step_async(np.full(3, 2.0))
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0)
    assert tail(last) == [[1, 1]] * 3
    observations, _ = envs.reset(options=mask(1))
    assert tail(observations) == [[1, 11], [2, 0], [1, 31]]
    assert tail(last) == [[1, 1]] * 3


def test_send_and_recv_between(envs):
    envs.reset()
    last = envs.step(np.zeros(3))[0]
    for step in range(2, 5):
        envs.send(np.zeros(3))
        batch = envs.recv()
        assert batch[0].flags.owndata and tail(batch[0]) == [[1, step]] * 3
        assert tail(last) == [[1, 1]] * 3
    observations, _ = envs.reset(options=mask(2))
    assert tail(observations) == [[1, 4], [1, 4], [2, 0]]
    assert tail(last) == [[1, 1]] * 3
    assert tail(batch[0]) == [[1, 4]] * 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("name", ["nested arrays", "nested all", "MiniGrid"])
def test_valid_through_the_next_call(name, shared_memory, mode):
    """Each batch is Gymnasium's, and still is after the next call."""
    make = ENVIRONMENTS[name]
    ours = gymvec.AsyncVectorEnv(
        [make] * 3, copy=False, num_workers=2, autoreset_mode=mode, shared_memory=shared_memory
    )
    theirs = gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=mode)
    rng = np.random.default_rng(3)
    ours.action_space.seed(3)
    last, expected = ours.reset(seed=3)[0], theirs.reset(seed=3)[0]
    for _ in range(60):
        before, expected_before = last, copy_value(expected)
        over = np.zeros(3, np.bool_)
        actions = ours.action_space.sample()
        actual, wanted = ours.step(actions), theirs.step(actions)
        assert_same(actual, wanted, "step")
        assert_same(before, expected_before, "the one before")
        last, expected = actual[0], wanted[0]
        over = wanted[2] | wanted[3]
        if mode is not AutoresetMode.DISABLED:
            over = rng.random(3) < 0.2
        if over.any():
            before, expected_before = last, copy_value(expected)
            last, expected = (
                one.reset(options={"reset_mask": over.copy()})[0] for one in (ours, theirs)
            )
            assert_same(last, expected, "masked reset")
            assert_same(before, expected_before, "the one before the reset")
    ours.close()
    theirs.close()


def test_nothing_is_copied():
    space = Dict({"image": Box(0, 255, (512, 512), np.uint8), "text": Text(3)})

    class Images(gym.Env):
        observation_space = space
        action_space = Box(-1, 1, ())
        observation = {"image": np.ones((512, 512), np.uint8), "text": "ab"}

        def reset(self, *, seed=None, options=None):
            return self.observation, {}

        def step(self, action):
            return self.observation, 0.0, False, False, {}

    envs = gymvec.AsyncVectorEnv([Images] * 2, copy=False, context="fork")
    envs.reset()
    seen = [envs.step(np.zeros(2))[0] for _ in range(6)]
    where = [one["image"].__array_interface__["data"][0] for one in seen]
    assert len(set(where)) == 2 and where[0::2] == [where[0]] * 3
    assert seen[0] is not seen[2] and seen[-1]["text"] == ("ab", "ab")
    envs.close()
