"""What SyncVectorEnv promises beside equal results: arguments, errors, ownership."""

from collections import OrderedDict, UserDict

import gymnasium as gym
import numpy as np
import pytest
from action_cases import ACTIONS, arrays, contiguous
from gymnasium.error import ClosedEnvironmentError
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode
from lockstep import MODES, assert_same
from scripted import Scripted

from gymvec import SyncVectorEnv

THEIRS = gym.vector.SyncVectorEnv


def make(n=3, kind=SyncVectorEnv, copy=True, autoreset_mode=AutoresetMode.NEXT_STEP, **kwargs):
    return kind([lambda: Scripted(**kwargs)] * n, copy, autoreset_mode=autoreset_mode)


def both(call):
    """The error of a call with our class, after the same one with Gymnasium's."""
    errors = []
    for kind in (SyncVectorEnv, THEIRS):
        with pytest.raises(Exception) as caught:
            call(kind)
        errors.append(caught.value)
    assert type(errors[0]) is type(errors[1])
    assert str(errors[0]) == str(errors[1])
    return errors[0]


# --- construction -----------------------------------------------------------------------


def test_attributes():
    ours, theirs = make(), make(kind=THEIRS)
    hidden = {name for name in vars(theirs) if name.startswith("_")} | {"envs", "env_fns"}
    for name, value in vars(theirs).items():
        if name not in hidden:
            assert getattr(ours, name) == value, name
    assert len(ours.envs) == len(ours.env_fns) == 3
    assert repr(ours) == repr(theirs)
    assert ours.spec is None
    assert ours.unwrapped is ours
    assert Scripted.metadata == gym.Env.metadata


@pytest.mark.parametrize("mode", MODES)
def test_autoreset_mode_by_name(mode):
    assert make(autoreset_mode=mode.value).metadata["autoreset_mode"] is mode


def test_observation_modes():
    spaces = [Box(0, high, (2,), np.float32) for high in (1, 2)]
    fns = [lambda space=space: Scripted(observation_space=space) for space in spaces]
    batched = Box(0, 9, (2, 2), np.float32)
    for mode in ("different", (batched, spaces[1])):
        ours = SyncVectorEnv(fns, observation_mode=mode)
        theirs = THEIRS(fns, observation_mode=mode)
        assert ours.observation_space == theirs.observation_space
        assert ours.single_observation_space == theirs.single_observation_space
        assert_same(ours.reset(), theirs.reset())
    for mode in ("same", "other", (1, 2), (batched,)):
        both(lambda kind, mode=mode: kind(fns, observation_mode=mode))
    both(lambda kind: kind([Scripted, lambda: Scripted(action_space=Discrete(2))]))
    fns.append(lambda: Scripted(observation_space=Box(0, 1, (3,))))
    both(lambda kind: kind(fns, observation_mode="different"))
    both(lambda kind: kind([]))


def test_a_factory_that_fails_closes_the_others():
    made = []

    def works():
        made.append(Scripted())
        return made[-1]

    with pytest.raises(ZeroDivisionError):
        SyncVectorEnv([works, works, lambda: 1 // 0])
    assert [env.closed for env in made] == [1, 1]


# --- seeds and masks --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "expected"),
    [
        (None, [None, None, None]),
        (7, [7, 8, 9]),
        (np.int64(7), [7, 8, 9]),
        (np.uint8(254), [254, 255, 256]),
        ([1, None, 5], [1, None, 5]),
        ((1, 2, 3), [1, 2, 3]),
        (np.array([4, 5, 6]), [4, 5, 6]),
        ([np.int32(1), None, np.uint64(2**63)], [1, None, 2**63]),
    ],
)
def test_seeds(seed, expected):
    envs = make()
    options = {"x": 1}
    envs.reset(seed=seed, options=options)
    seeds = [env.resets[0][0] for env in envs.envs]
    assert seeds == expected
    assert all(seed is None or type(seed) is int for seed in seeds)
    assert all(env.resets[0][1] is options for env in envs.envs)


@pytest.mark.parametrize("seed", [[1, 2], [], [1, 2, 3, 4], 1.5, np.array(3)])
def test_wrong_seeds_reset_nothing(seed):
    envs = make()
    with pytest.raises((ValueError, TypeError)):
        envs.reset(seed=seed)
    assert all(env.resets == [] for env in envs.envs)
    if isinstance(seed, list):
        both(lambda kind: make(kind=kind).reset(seed=seed))


def test_autoreset_never_reseeds():
    envs = make(length=1)
    envs.reset(seed=3)
    for _ in range(4):
        envs.step(np.zeros((3, 2), np.float32))
    assert [seed for seed, _ in envs.envs[0].resets] == [3, None, None]


def test_reset_mask():
    envs = make()
    envs.reset()
    envs.step(np.zeros((3, 2), np.float32))
    options = {"reset_mask": np.array([False, True, False]), "x": 1}
    observations, _ = envs.reset(seed=5, options=options)
    assert observations.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert options.keys() == {"reset_mask", "x"}
    assert [len(env.resets) for env in envs.envs] == [1, 2, 1]
    assert envs.envs[1].resets[1] == (6, {"x": 1})


@pytest.mark.parametrize("kind", [dict, OrderedDict, UserDict])
def test_options_keep_their_class(kind):
    for mask in ({}, {"reset_mask": np.ones(3, bool)}):
        given = []
        for envs in (make(), make(kind=THEIRS)):
            envs.reset(options=kind(x=1, **mask))
            given.append([env.resets for env in envs.envs])
        assert given[0] == given[1] == [[(None, kind(x=1))]] * 3
        assert {type(options) for ((_, options),) in given[0]} == {kind}


def test_wrong_masks_reset_nothing():
    for mask in ([True] * 3, np.ones(2, bool), np.ones(3), np.zeros(3, bool), None):
        both(lambda kind, mask=mask: make(kind=kind).reset(options={"reset_mask": mask}))
    envs = make()
    with pytest.raises(ValueError, match=r"never reset: \[0, 2\]"):
        envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert envs.envs[1].resets == []
    envs.reset(options={"reset_mask": np.ones(3, bool)})


# --- actions ----------------------------------------------------------------------------


@pytest.mark.parametrize(("space", "actions"), ACTIONS, ids=str)
def test_actions(space, actions):
    ours, theirs = (make(kind=kind, action_space=space) for kind in (SyncVectorEnv, THEIRS))
    for envs in (ours, theirs):
        envs.reset()
        envs.step(actions)
    for one, other in zip(ours.envs, theirs.envs, strict=True):
        assert_same(one.actions[0], contiguous(other.actions[0]))
        for array in arrays(one.actions[0]):
            assert array.flags.c_contiguous
            assert array.dtype.isnative
            assert not any(np.shares_memory(array, mine) for mine in arrays(actions))


@pytest.mark.parametrize("count", [0, 2, 4, 9])
@pytest.mark.parametrize("kind", [np.zeros, lambda shape: [[0.0, 0.0]] * shape[0]])
def test_a_wrong_number_of_actions_steps_nothing(count, kind):
    envs = make()
    envs.reset()
    with pytest.raises(ValueError, match="expected 3 actions"):
        envs.step(kind((count, 2)))
    assert all(env.actions == [] for env in envs.envs)
    both_types = [make(kind=k) for k in (SyncVectorEnv, THEIRS)]
    for envs in both_types:
        envs.reset()
        with pytest.raises(ValueError):
            envs.step(kind((count, 2)))


@pytest.mark.parametrize("actions", [None, 3, np.array(1.0)])
def test_actions_that_cannot_be_iterated_over(actions):
    both(lambda kind: make(kind=kind).step(actions))


# --- calls ------------------------------------------------------------------------------


def test_call_and_attributes():
    envs = SyncVectorEnv([lambda: gym.wrappers.TimeLimit(Scripted(), 5)] * 3)
    assert envs.call("twice", 2, plus=1) == (5, 5, 5)
    assert envs.get_attr("steps") == (0, 0, 0)
    envs.set_attr("steps", [1, 2, 3])
    assert envs.render() == ("frame 1", "frame 2", "frame 3")
    envs.set_attr("steps", 7)
    assert envs.call("steps") == (7, 7, 7)
    assert [env.unwrapped.steps for env in envs.envs] == [7, 7, 7]
    envs.reset(seed=[0, 1, 2])
    assert len(envs.np_random) == 3


def test_wrong_calls():
    both(lambda kind: make(kind=kind).set_attr("steps", [1, 2]))
    both(lambda kind: make(kind=kind).get_attr("nothing"))
    both(lambda kind: make(kind=kind).call("twice"))


@pytest.mark.parametrize(
    "call",
    [
        lambda envs: envs.reset(),
        lambda envs: envs.step(np.zeros((3, 2))),
        lambda envs: envs.render(),
        lambda envs: envs.call("twice", 1),
        lambda envs: envs.get_attr("steps"),
        lambda envs: envs.set_attr("steps", 1),
        lambda envs: envs.np_random,
        lambda envs: envs.np_random_seed,
    ],
)
def test_after_close(call):
    envs = make()
    envs.close()
    assert envs.closed
    with pytest.raises(ClosedEnvironmentError):
        call(envs)
    envs.close()
    assert [env.closed for env in envs.envs] == [1, 1, 1]
