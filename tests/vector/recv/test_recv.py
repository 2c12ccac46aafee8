"""Batches of whichever environments are ready first: each one's trajectory is its own."""

from __future__ import annotations

import doctest

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate
from lockstep import ARRAY_LEAVES, ENVIRONMENTS, MODES, RandomEnv, assert_same, nested
from scripted import BOX, Scripted

import gymvec
import gymvec.vector.async_vector_env
from gymvec.vector.copying import copy_value

pytestmark = pytest.mark.not_sanitized

N, BATCH = 5, 2


class Alone:
    """One environment, with the vector environments' rules of resetting it."""

    def __init__(self, make, mode):
        self.env = make()
        self.mode = mode
        self.over = False

    def reset(self, seed=None, options=None):
        self.over = False
        observation, info = self.env.reset(seed=seed, options=options)
        return copy_value(observation), 0.0, False, False, [info]

    def step(self, action):
        if self.over and self.mode is AutoresetMode.NEXT_STEP:
            return self.reset()
        observation, reward, terminated, truncated, info = self.env.step(action)
        observation, infos = copy_value(observation), [info]
        self.over = bool(terminated or truncated)
        if self.over and self.mode is AutoresetMode.SAME_STEP:
            infos = [{"final_obs": observation, "final_info": info}]
            observation, reset_info = self.env.reset()
            observation = copy_value(observation)
            infos.append(reset_info)
            self.over = False
        return observation, reward, terminated, truncated, infos


def expected_batch(space, results):
    """What Gymnasium's rules make of the results of some environments."""
    rows, rewards, terminations, truncations, infos = zip(*results, strict=True)
    adder = VectorEnv()
    adder.num_envs = len(results)
    gathered = {}
    for position, ones in enumerate(infos):
        for info in ones:
            gathered = adder._add_info(gathered, info, position)
    return (
        concatenate(space, rows, create_empty_array(space, len(results))),
        np.array([np.asarray(reward, np.float64).item() for reward in rewards]),
        np.array(terminations, np.bool_),
        np.array(truncations, np.bool_),
        gathered,
    )


def assert_each_alone(make, mode, steps, num_envs=N, batch_size=BATCH, **arguments):
    """Step whoever is ready, and compare each batch with environments that run alone."""
    envs = gymvec.AsyncVectorEnv(
        [make] * num_envs, batch_size=batch_size, autoreset_mode=mode, **arguments
    )
    alone = [Alone(make, mode) for _ in range(num_envs)]
    rng = np.random.default_rng(0)
    envs.action_space.seed(0)
    kept = []
    # They come back in the infos. One environment's first reset may share a batch with another's
    # second, and a dict and None make no batch.
    options = {"x": 1} if mode is AutoresetMode.DISABLED else None
    try:
        due = {i: one.reset(seed=7 + i, options=options) for i, one in enumerate(alone)}
        envs.async_reset(seed=7, options=options)
        for _ in range(steps):
            *batch, infos = envs.recv(60)
            ids = infos.pop("env_id")
            assert infos.pop("_env_id").tolist() == [True] * batch_size
            assert ids.dtype == np.int64 and ids.tolist() == sorted(set(ids.tolist()))
            results = expected_batch(
                envs.single_observation_space, [due.pop(i) for i in ids.tolist()]
            )
            assert_same((*batch, infos), results, "batch")
            kept.append(((*batch, infos), results))
            over = np.zeros(batch_size, np.bool_)
            if mode is AutoresetMode.DISABLED:
                over = batch[2] | batch[3]
                if over.any():
                    mask = np.zeros(num_envs, np.bool_)
                    mask[ids[over]] = True
                    due |= {i: alone[i].reset(options=options) for i in ids[over].tolist()}
                    envs.async_reset(options={"reset_mask": mask, **options})
            actions = list(iterate(envs.action_space, envs.action_space.sample()))
            order = rng.permutation(np.flatnonzero(~over))
            if len(order) > 0:
                single = envs.single_action_space
                chosen = [actions[k] for k in order]
                due |= {
                    int(ids[k]): alone[ids[k]].step(action)
                    for k, action in zip(order, chosen, strict=True)
                }
                envs.send(
                    concatenate(single, chosen, create_empty_array(single, len(order))), ids[order]
                )
        for actual, expected in kept:
            assert_same(actual, expected, "a batch, later")
    finally:
        envs.close()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["CartPole", "HalfCheetah", "nested arrays", "nested shared"])
def test_each_alone(name, mode):
    assert_each_alone(ENVIRONMENTS[name], mode, 60, num_workers=2)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["CartPole", "nested shared", "nested all"])
def test_each_alone_without_shared_memory(name, mode):
    assert_each_alone(ENVIRONMENTS[name], mode, 40, num_workers=2, shared_memory=False)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4])
@pytest.mark.parametrize("num_workers", [1, 3, 4])
def test_sizes(batch_size, num_workers):
    assert_each_alone(
        ENVIRONMENTS["CartPole"],
        AutoresetMode.NEXT_STEP,
        60,
        4,
        batch_size,
        num_workers=num_workers,
    )


@pytest.mark.parametrize("arguments", [{"copy": False}, {"context": "spawn"}, {"wait": "block"}])
def test_options(arguments):
    assert_each_alone(
        lambda: RandomEnv(nested(ARRAY_LEAVES), MultiBinary(3)),
        AutoresetMode.SAME_STEP, 40, num_workers=2, **arguments,
    )  # fmt: skip


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_reset_and_step_are_the_same(mode):
    """`reset` and `step` alone, without a word about environments, go on with who is ready."""
    envs = gymvec.AsyncVectorEnv(
        [ENVIRONMENTS["CartPole"]] * N, batch_size=BATCH, num_workers=2, autoreset_mode=mode
    )
    alone = [Alone(ENVIRONMENTS["CartPole"], mode) for _ in range(N)]
    due = {i: one.reset(seed=3 + i) for i, one in enumerate(alone)}
    observations, infos = envs.reset(seed=3)
    batch = (observations, np.zeros(BATCH), *np.zeros((2, BATCH), np.bool_), infos)
    for step in range(80):
        ids = batch[-1].pop("env_id").tolist()
        del batch[-1]["_env_id"]
        results = expected_batch(envs.single_observation_space, [due.pop(i) for i in ids])
        assert_same(batch, results, "batch")
        assert batch[0] is envs.observations
        actions = envs.action_space.sample()
        due |= {i: alone[i].step(a) for i, a in zip(ids, actions, strict=True)}
        if step % 2:
            batch = envs.step(actions)
        else:
            envs.step_async(actions)
            batch = envs.step_wait()
    envs.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_batch_of_all_is_the_ordinary_environment(mode):
    make = ENVIRONMENTS["nested arrays"]
    ours = gymvec.AsyncVectorEnv([make] * 3, num_workers=2, batch_size=3, autoreset_mode=mode)
    theirs = gym.vector.SyncVectorEnv([make] * 3, autoreset_mode=mode)
    ours.action_space.seed(1)
    assert_same(ours.reset(seed=1), theirs.reset(seed=1))
    rng = np.random.default_rng(1)
    for step in range(40):
        actions = ours.action_space.sample()
        expected = theirs.step(actions)
        if step % 3 == 0:
            assert_same(ours.step(actions), expected)
            continue
        order = rng.permutation(3)
        if step % 3 == 1:
            actual = ours.step(actions[order], env_ids=order)
        else:
            for k in order.tolist():
                ours.send(actions[[k]], [k])
            actual = ours.recv()
        assert actual[-1].pop("env_id").tolist() == [0, 1, 2]
        assert actual[-1].pop("_env_id").all()
        assert_same(actual, expected)
    ours.async_reset(seed=5)
    observations, rewards, terminations, truncations, infos = ours.recv()
    assert not rewards.any() and not terminations.any() and not truncations.any()
    assert infos.pop("env_id").tolist() == [0, 1, 2] and infos.pop("_env_id").all()
    assert_same((observations, infos), theirs.reset(seed=5))
    ours.close()
    theirs.close()


def test_spaces_are_those_of_a_batch():
    def make(high=1.0):
        return lambda: RandomEnv(Box(-1, high, (2,)), Discrete(3))

    envs = gymvec.AsyncVectorEnv([make()] * 4, batch_size=3, num_workers=1)
    assert envs.num_envs == 4 and envs.batch_size == 3
    assert envs.observation_space.shape == (3, 2) and envs.action_space.shape == (3,)
    assert envs.observations.shape == (3, 2)
    envs.close()
    envs = gymvec.AsyncVectorEnv(
        [make(1.0), make(2.0), make(3.0)], batch_size=2, num_workers=1, observation_mode="different"
    )
    assert envs.observation_space.high[:, 0].tolist() == [1, 2, 3]
    assert envs.reset(seed=0)[0].shape == (2, 2)
    envs.close()


def test_batch_size_is_checked():
    make = [lambda: gym.make("CartPole-v1")] * 2
    spaces = {"observation_space": Box(-1, 1, (4,)), "action_space": Discrete(2)}
    for wrong in (0, -1, 3, 1.5, True):
        with pytest.raises(ValueError, match="batch_size"):
            gymvec.AsyncVectorEnv(make, batch_size=wrong, **spaces)


def test_make_vec():
    envs = gymvec.make_vec(
        "CartPole-v1", num_envs=4, vectorization_mode="async",
        vector_kwargs={"batch_size": 2, "num_workers": 2},
    )  # fmt: skip
    assert envs.reset(seed=0)[0].shape == (2, 4)
    envs.close()


def test_documented_loops():
    assert doctest.testmod(gymvec.vector.async_vector_env).failed == 0


class Ragged(Scripted):
    """Its first step returns an observation, or an info, as long as its number."""

    def __init__(self, number, where):
        super().__init__(observation_space=BOX, length=1000)
        self.number = number
        self.where = where

    def step(self, action):
        observation, *results, info = super().step(action)
        if self.steps == 1 and self.where == "observation":
            observation = np.zeros(self.number, np.float32)
        if self.steps == 1 and self.where == "info":
            info = {"array": np.zeros(self.number)}
        return observation, *results, info


@pytest.mark.parametrize("where", ["observation", "info"])
def test_answers_that_make_no_batch_are_dropped(where):
    envs = gymvec.AsyncVectorEnv(
        [lambda i=i: Ragged(i + 2, where) for i in range(3)],
        shared_memory=False,
        batch_size=2,
        num_workers=1,
    )
    for env in range(3):
        envs.async_reset(options={"reset_mask": np.arange(3) == env})
    assert envs.recv()[4]["env_id"].tolist() == [0, 1]
    envs.send(np.zeros((1, 2), np.float32), [0])
    # Environment 2 has only been reset.
    assert envs.recv()[4]["env_id"].tolist() == [0, 2]
    envs.send(np.zeros((2, 2), np.float32), [1, 2])
    with pytest.raises(ValueError) as caught:
        envs.recv()
    assert caught.value.__cause__.env_ids == [1, 2]
    envs.send(np.zeros((2, 2), np.float32), [2, 1])
    batch = envs.recv()
    assert batch[4]["env_id"].tolist() == [1, 2] and batch[0].tolist() == [[2, 2]] * 2
    envs.close()


def test_no_reset_takes_the_place_of_another():
    """The seeds of one that waits for a batch at work are not lost when it is reset again."""
    ours = gymvec.AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3, batch_size=1)
    theirs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 3)
    ours.async_reset(seed=1)
    ours.async_reset(seed=[7, None, 9])
    ours.async_reset()
    for seed in (1, [7, None, 9], None):
        expected, _ = theirs.reset(seed=seed)
    for _ in range(3):
        observations, *_, infos = ours.recv()
        assert_same(observations, expected[infos["env_id"]])
    ours.close()
    theirs.close()
