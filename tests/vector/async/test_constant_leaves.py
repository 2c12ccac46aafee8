"""A leaf that goes by message and stays as it was is not sent again, and is right nevertheless."""

from __future__ import annotations

import time
from functools import partial

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Text
from lockstep import assert_same
from scripted import Scripted

import gymvec

SPACE = Dict(a=Box(-1e6, 1e6, (1,), np.float32), t=Text(4), u=Text(4))
# Runs of equal texts, and changes of one, the other and both.
TEXTS = [("a", "b"), ("a", "b"), ("a", "c"), ("x", "c"), ("x", "c"), ("y", "d"), ("a", "b")]


class Talking(Scripted):
    """Says the next of its texts at each step and reset, whatever the episode."""

    def __init__(self, first=0, fail_at=(), info_at=(), slow_at=()):
        super().__init__(SPACE, Box(-1, 1, (1,)), length=5)
        self.said, self.fail_at, self.info_at, self.slow_at = first, fail_at, info_at, slow_at
        self.observe = self.say

    def say(self, steps):
        self.said += 1
        t, u = TEXTS[self.said % len(TEXTS)]
        # New strings, as an environment that formats its text makes them.
        return {"a": np.array([self.said], np.float32), "t": "".join([t, ""]), "u": f"{u}"}

    def step(self, action):
        result = super().step(action)
        if self.said in self.slow_at:
            time.sleep(0.4)
        if self.said in self.fail_at:
            raise LookupError("scripted")
        return (*result[:4], {"word": "new"}) if self.said in self.info_at else result


def makers(**how):
    return [partial(Talking, first, **how) for first in range(3)]


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("how", [{}, {"info_at": (4, 8, 9)}], ids=["plain", "infos by message"])
@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_every_step_has_the_current_text(mode, how, copy):
    theirs = gym.vector.SyncVectorEnv(makers(**how), autoreset_mode=mode)
    ours = gymvec.AsyncVectorEnv(makers(**how), autoreset_mode=mode, copy=copy, num_workers=2)
    try:
        for round in range(3):
            assert_same(ours.reset(seed=round), theirs.reset(seed=round), "reset")
            for step in range(12):
                actions = np.zeros((3, 1), np.float32)
                assert_same(ours.step(actions), theirs.step(actions), f"step {step}")
    finally:
        ours.close()
        theirs.close()


def texts(observations):
    return list(zip(observations["t"], observations["u"], strict=True))


def test_after_a_failed_step():
    envs = gymvec.AsyncVectorEnv(makers(fail_at=(4,)), num_workers=1)
    actions = np.zeros((3, 1), np.float32)
    try:
        envs.reset()  # says 1, 2, 3
        for _ in range(3):
            with pytest.raises(LookupError):  # one after the other says 4
                envs.step(actions)
        observations, *_ = envs.step(actions)
        assert texts(observations) == [TEXTS[5], TEXTS[6], TEXTS[0]]
    finally:
        envs.close()


def test_after_a_late_step():
    envs = gymvec.AsyncVectorEnv(makers(slow_at=(4,)), num_workers=3)
    actions = np.zeros((3, 1), np.float32)
    try:
        envs.reset()  # says 1, 2, 3
        envs.step_async(actions)
        with pytest.raises(TimeoutError):
            envs.step_wait(timeout=0.05)  # says 2, 3, and late 4
        observations, *_ = envs.step(actions)
        assert texts(observations) == [TEXTS[3], TEXTS[4], TEXTS[5]]
        observations, *_ = envs.step(actions)
        assert texts(observations) == [TEXTS[4], TEXTS[5], TEXTS[6]]
    finally:
        envs.close()


def test_batches_of_who_is_ready_first():
    envs = gymvec.AsyncVectorEnv(makers(), num_workers=3, batch_size=2)
    said = np.arange(3)
    try:
        envs.async_reset()
        for _ in range(30):
            observations, *_, infos = envs.recv()
            ids = infos["env_id"]
            said[ids] += 1
            assert texts(observations) == [TEXTS[k % len(TEXTS)] for k in said[ids]]
            envs.send(np.zeros((2, 1), np.float32), ids)
    finally:
        envs.close()


def test_a_reset_that_drops_answers():
    envs = gymvec.AsyncVectorEnv(makers(), num_workers=1, batch_size=2)
    try:
        envs.async_reset()
        *_, infos = envs.recv()
        envs.send(np.zeros((2, 1), np.float32), infos["env_id"])
        envs.async_reset()  # nobody receives what the step said
        observations, *_, infos = envs.recv()
        says = {env: 3 + env if env in infos["env_id"] else None for env in range(3)}
        assert texts(observations) == [TEXTS[says[env] % len(TEXTS)] for env in infos["env_id"]]
    finally:
        envs.close()


def test_steps_that_say_nothing_new_send_no_message():
    envs = gymvec.AsyncVectorEnv([partial(Silent, "same")] * 2, num_workers=1)
    (pipe,) = envs._pool.workers.pipes
    actions = np.zeros((2, 1), np.float32)
    try:
        envs.reset()
        before = pipe.received
        for _ in range(10):
            assert texts(envs.step(actions)[0]) == [("same", "")] * 2
        assert pipe.received == before
        envs.set_attr("text", ["same", "else"])
        before = pipe.received
        assert texts(envs.step(actions)[0]) == [("same", ""), ("else", "")]
        assert pipe.received == before + 1
    finally:
        envs.close()


class Silent(Scripted):
    def __init__(self, text):
        super().__init__(SPACE, Box(-1, 1, (1,)), length=3)
        self.text = text
        self.observe = lambda steps: {"a": np.zeros(1, np.float32), "t": self.text, "u": ""}
