"""What environments of AsyncVectorEnv are given: actions, seeds, options."""

from collections import UserDict

import gymnasium as gym
import numpy as np
import pytest
from action_cases import ACTIONS, arrays, contiguous
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from lockstep import assert_same
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv, SyncVectorEnv

pytestmark = pytest.mark.timeout(60)

THEIRS = gym.vector.SyncVectorEnv


def make(n=3, num_workers=2, **kwargs):
    own = {name: kwargs.pop(name) for name in ("autoreset_mode", "context") if name in kwargs}
    return AsyncVectorEnv([lambda: Scripted(**kwargs)] * n, num_workers=num_workers, **own)


# --- actions ----------------------------------------------------------------------------


@pytest.mark.parametrize(("space", "actions"), ACTIONS, ids=str)
def test_actions(space, actions):
    theirs = THEIRS([lambda: Scripted(action_space=space)] * 3)
    ours = make(action_space=space)
    for envs in (ours, theirs):
        envs.reset()
        envs.step(actions)
        envs.step(actions)
    for one, other in zip(ours.get_attr("actions"), theirs.envs, strict=True):
        assert len(one) == 2
        assert_same(one, contiguous(other.actions))
    ours.close()


@pytest.mark.parametrize("shared", [True, False])
def test_an_environment_may_keep_its_last_action(shared):
    envs = make(action_space=BOX if shared else gym.spaces.Tuple([BOX, gym.spaces.Text(2)]))
    envs.reset()
    for step in range(3):
        batch = np.full((3, 2), step, np.float32)
        envs.step_async(batch if shared else (batch, ("a", "b", "c")))
        batch[...] = 99
        envs.step_wait()
    for actions in envs.get_attr("actions"):
        boxes = actions if shared else [action[0] for action in actions]
        assert [box.tolist() for box in boxes] == [[0, 0], [1, 1], [2, 2]]
        assert all(a.flags.c_contiguous and a.flags.writeable for a in arrays(boxes))
    envs.close()


@pytest.mark.parametrize("count", [0, 2, 4, 9])
@pytest.mark.parametrize("kind", [np.zeros, lambda shape: [[0.0, 0.0]] * shape[0]])
def test_a_wrong_number_of_actions_steps_nothing(count, kind):
    envs = make()
    envs.reset()
    with pytest.raises(ValueError, match="expected 3 actions"):
        envs.step(kind((count, 2)))
    assert envs.get_attr("steps") == (0, 0, 0)
    assert envs.step(np.zeros((3, 2)))[0].tolist() == [[1, 1]] * 3
    envs.close()


@pytest.mark.parametrize(
    ("space", "actions"),
    [(Dict({}), {}), (Tuple([]), ()), (Tuple([Discrete(2), Dict({})]), (np.zeros(3, int), {}))],
    ids=str,
)
def test_spaces_whose_batches_have_no_actions_are_refused_as_in_sync(space, actions):
    for kind in (THEIRS, SyncVectorEnv, AsyncVectorEnv):
        envs = kind([lambda: Scripted(action_space=space)] * 3)
        envs.reset()
        with pytest.raises(ValueError):
            envs.step(actions)
        assert envs.get_attr("steps") == (0, 0, 0)
        envs.close()


@pytest.mark.parametrize("actions", [None, 3, np.array(1.0)])
def test_actions_that_cannot_be_iterated_over(actions):
    theirs = THEIRS([Scripted])
    with pytest.raises(Exception) as caught:
        theirs.step(actions)
    envs = make()
    envs.reset()
    with pytest.raises(type(caught.value)) as ours:
        envs.step(actions)
    assert str(ours.value) == str(caught.value)
    envs.reset()
    envs.close()


def test_an_action_that_cannot_be_pickled_steps_nothing():
    envs = make(action_space=gym.spaces.Text(3))
    envs.reset()
    with pytest.raises(TypeError, match="generator"):
        envs.step(("a", (i for i in ()), "b"))
    assert envs.get_attr("steps") == (0, 0, 0)
    envs.step(("a", "b", "c"))
    envs.close()


def test_a_step_over_array_leaves_sends_nothing_through_the_pipes():
    def messages():
        return [(box.sent, box.received) for box in envs._pool.workers.pipes]

    space = gym.spaces.Dict({"a": Discrete(4), "b": gym.spaces.Tuple([BOX, Box(0, 9, (3, 3))])})
    envs = make(
        action_space=space,
        observation_space=space,
        observe=lambda steps: {"a": steps, "b": (np.zeros(2), np.zeros((3, 3)))},
        length=4,
    )
    envs.reset()
    before = messages()
    for _ in range(50):
        envs.step(envs.action_space.sample())
    assert messages() == before
    envs.call("twice", 1)
    assert all(now > then for now, then in zip(messages(), before, strict=True))
    envs.close()


# --- seeds and options ------------------------------------------------------------------


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
    envs.reset(seed=seed, options={"x": 1})
    envs.reset(seed=seed)
    resets = envs.get_attr("resets")
    assert [[one for one, _ in both] for both in resets] == [[seed] * 2 for seed in expected]
    assert all(one is None or type(one) is int for both in resets for one, _ in both)
    assert all([options for _, options in both] == [{"x": 1}, None] for both in resets)
    envs.close()


@pytest.mark.parametrize("seed", [[1, 2], [], [1, 2, 3, 4], 1.5, np.array(3)])
def test_wrong_seeds_reset_nothing(seed):
    envs = make()
    with pytest.raises((ValueError, TypeError)):
        envs.reset(seed=seed)
    assert envs.get_attr("resets") == ([], [], [])
    envs.close()


class Defaults(Scripted):
    """Its reset has other defaults than Gymnasium's."""

    def reset(self, *, seed=5, options=6):
        return super().reset(seed=seed, options=options)


def test_a_reset_hands_over_none_and_an_autoreset_nothing():
    asked = []
    for kind in (AsyncVectorEnv, THEIRS):
        envs = kind([lambda: Defaults(length=1)] * 2)
        envs.reset(seed=3)
        envs.reset()
        for _ in range(4):
            envs.step(np.zeros((2, 2), np.float32))
        asked.append(envs.get_attr("resets"))
        envs.close()
    assert (
        asked[0]
        == asked[1]
        == (
            [(3, None), (None, None), (5, 6), (5, 6)],
            [(4, None), (None, None), (5, 6), (5, 6)],
        )
    )


def test_reset_mask():
    envs = make()
    envs.reset()
    envs.step(np.zeros((3, 2), np.float32))
    options = {"reset_mask": np.array([False, True, False]), "x": 1}
    observations, _ = envs.reset(seed=5, options=options)
    assert observations.tolist() == [[1, 1], [0, 0], [1, 1]]
    assert options.keys() == {"reset_mask", "x"}
    resets = envs.get_attr("resets")
    assert [len(one) for one in resets] == [1, 2, 1]
    assert resets[1][1] == (6, {"x": 1})
    envs.reset(options=UserDict(x=1, reset_mask=np.ones(3, bool)))
    _, options = envs.get_attr("resets")[0][-1]
    assert type(options) is UserDict and options == {"x": 1}
    envs.close()


def test_wrong_masks_reset_nothing():
    envs = make()
    for mask in ([True] * 3, np.ones(2, bool), np.ones(3), np.zeros(3, bool), None):
        theirs = THEIRS([Scripted] * 3)
        with pytest.raises((TypeError, ValueError, AssertionError)):
            theirs.reset(options={"reset_mask": mask})
        with pytest.raises((TypeError, ValueError, AssertionError)):
            envs.reset(options={"reset_mask": mask})
    with pytest.raises(ValueError, match=r"never reset: \[0, 2\]"):
        envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert envs.get_attr("resets") == ([], [], [])
    envs.reset(options={"reset_mask": np.ones(3, bool)})
    envs.reset(options={"reset_mask": np.array([False, True, False])})
    envs.close()


def test_after_a_reset_that_failed_the_others_count_as_reset():
    envs = AsyncVectorEnv([Scripted, lambda: Scripted(fail=("reset",)), Scripted], num_workers=2)
    with pytest.raises(LookupError):
        envs.reset()
    with pytest.raises(ValueError, match=r"never reset: \[1\]"):
        envs.reset(options={"reset_mask": np.array([True, False, False])})
    envs.set_attr("fail", (set(), set(), set()))
    observations, _ = envs.reset(options={"reset_mask": np.array([False, True, False])})
    assert observations.tolist() == [[0, 0]] * 3
    envs.close()
