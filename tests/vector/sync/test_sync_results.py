"""What steps return and leave behind, above all when something is wrong."""

import copy

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Sequence, Text, Tuple
from gymnasium.vector import AutoresetMode
from gymnasium.vector import utils as their_utils
from lockstep import assert_same
from names import name_of
from scripted import BOX, Scripted

import gymvec
from gymvec import SyncVectorEnv

THEIRS = gym.vector.SyncVectorEnv
ZEROS = np.zeros((3, 2), np.float32)


def make(n=3, kind=SyncVectorEnv, copy=True, autoreset_mode=AutoresetMode.NEXT_STEP, **kwargs):
    return kind([lambda: Scripted(**kwargs)] * n, copy, autoreset_mode=autoreset_mode)


def started(**kwargs):
    envs = make(**kwargs)
    envs.reset()
    return envs


# --- rewards and flags ------------------------------------------------------------------


@pytest.mark.parametrize(
    "reward",
    [2.5, 2, True, np.float32(2.5), np.float64(2.5), np.int64(2), np.bool_(True), np.float16(2.5)]
    + [np.array(2.5), np.array([2.5]), np.array([2], np.int8), [2.5], 2**53 + 1, float("nan")],
    ids=name_of,
)
def test_rewards(reward):
    rewards = started(reward=reward).step(ZEROS)[1]
    number = reward[0] if np.shape(reward) == (1,) else reward
    assert_same(rewards, np.full(3, float(number)))


@pytest.mark.parametrize(
    "reward", [np.zeros(2), np.zeros(0), np.zeros((1, 1)), [1.0, 2.0], (), [[1.0]]], ids=name_of
)
def test_a_reward_of_another_shape_names_the_environment(reward):
    envs = started()
    envs.envs[1].reward = reward
    with pytest.raises(ValueError, match="environment 1"):
        envs.step(ZEROS)


@pytest.mark.parametrize("reward", [None, "2.5", 1j, "x", {}, 10**400], ids=str)
def test_rewards_that_are_no_numbers(reward):
    outcomes = []
    for kind in (SyncVectorEnv, THEIRS):
        try:
            outcomes.append(started(kind=kind, reward=reward).step(ZEROS)[1])
        except Exception as error:
            outcomes.append((type(error), str(error)))
    assert_same(*outcomes)


@pytest.mark.parametrize("flag", [True, np.True_, 1, np.array(True), "yes", 0, None, np.False_])
def test_flags(flag):
    class Flagged(Scripted):
        def step(self, action):
            return self.observe(1), 1.0, flag, flag, {}

    results = [kind([Flagged] * 2).step(ZEROS[:2]) for kind in (SyncVectorEnv, THEIRS)]
    assert_same(*results)


def test_a_step_that_returns_four_values():
    class Old(Scripted):
        def step(self, action):
            return super().step(action)[:4]

    with pytest.raises(ValueError, match="unpack"):
        SyncVectorEnv([Old]).step(ZEROS[:1])


# --- observations -----------------------------------------------------------------------


class Reuses(Scripted):
    """Returns one and the same array, filled anew."""

    def __init__(self, **kwargs):
        super().__init__(observe=self.fill, **kwargs)
        self.array = np.zeros(2, np.float32)

    def fill(self, steps):
        self.array[:] = steps
        return self.array


@pytest.mark.parametrize("nest", [False, True])
@pytest.mark.parametrize("copies", [True, False])
def test_final_obs_of_a_reused_array(copies, nest):
    def factory():
        env = Reuses(length=2)
        if nest:
            env.observation_space = Dict({"a": Tuple([BOX]), "b": Sequence(BOX)})
            env.observe = lambda steps: {"a": (env.fill(steps),), "b": (env.array,)}
        return env

    envs = SyncVectorEnv([factory] * 2, copies, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.reset()
    envs.step(ZEROS[:2])
    observations, _, terminations, _, infos = envs.step(ZEROS[:2])
    assert terminations.tolist() == [True, True]
    for final in infos["final_obs"]:
        for array in (final["a"][0], final["b"][0]) if nest else (final,):
            assert_same(array, np.full(2, 2, np.float32))
    assert_same(observations["a"][0] if nest else observations, ZEROS[:2])
    envs.reset()
    assert_same(infos["final_obs"][0]["b"][0] if nest else infos["final_obs"][0], ZEROS[0] + 2)


def test_a_terminal_observation_that_cannot_be_copied():
    class Stuck(list):
        def __deepcopy__(self, memo):
            raise TypeError("no copies")

    envs = make(
        2,
        copy=False,
        autoreset_mode="SameStep",
        length=1,
        observation_space=Sequence(BOX),
        observe=lambda steps: Stuck([steps]),
    )
    envs.reset()
    assert envs.step(ZEROS[:2])[4]["final_obs"].tolist() == [[1], [1]]


@pytest.mark.parametrize(
    "observation",
    [
        [1.0, 2.0],
        np.array([1.0, 2.0]),
        np.array([1.0, 2.0], ">f4"),
        np.array([1, 2]),
        np.arange(4, dtype=np.float32)[::2],
        np.array([1.0]),
        np.array([[1.0, 2.0]]),
        3.0,
        None,
        "ab",
        [1j, 2],
        [1.0, None],
        np.array([1e300, 1]),
    ],
    ids=name_of,
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("which", ["all", "last"])
@pytest.mark.parametrize("copies", [True, False])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_ill_formed_observations(observation, dtype, which, copies):
    space = Box(0, 10, (2,), dtype)
    outcomes = []
    for kind in (SyncVectorEnv, THEIRS):
        envs = make(3, kind, copies, observation_space=space)
        for env in envs.envs:
            env.observe = lambda steps: np.full(2, steps, dtype)
        before, _ = envs.reset()
        for env in envs.envs[0 if which == "all" else 2 :]:
            env.observe = lambda steps: observation
        try:
            outcomes.append(envs.step(ZEROS.astype(dtype)))
        except Exception as error:
            outcomes.append((type(error), str(error)))
            if kind is SyncVectorEnv:
                # Gymnasium leaves some rows new.
                assert_same(before, np.zeros((3, 2), dtype))
    assert_same(*outcomes)


def test_parts_of_observations():
    space = Dict({"a": BOX, "b": Discrete(9)})
    for observation in ({"a": ZEROS[0]}, {"a": ZEROS[0], "b": 1, "c": 2}, {}, None, (1, 2)):
        outcomes = []
        for kind in (SyncVectorEnv, THEIRS):
            envs = make(2, kind, observation_space=space, observe=lambda steps, o=observation: o)
            try:
                outcomes.append(envs.reset())
            except Exception as error:
                outcomes.append(type(error))
        assert_same(*outcomes)


# --- ownership --------------------------------------------------------------------------


def scribble(value):
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, np.ndarray):
            part[...] = 7
        elif isinstance(part, (dict, list, tuple)):
            scribble(part)


def test_with_copy_everything_is_the_callers_own():
    space = Dict({"a": BOX, "b": Sequence(BOX), "c": Tuple([Box(0, 9, (1,)), Text(5)])})
    kept = {"a": ZEROS[0].copy(), "b": (ZEROS[1].copy(),), "c": (np.zeros(1, np.float32), "ab")}
    original = copy.deepcopy(kept)
    envs = started(observation_space=space, observe=lambda steps: kept)
    results = envs.step(ZEROS)
    again = copy.deepcopy(results)
    envs.step(ZEROS)
    assert_same(results, again)
    scribble(results)
    assert_same(kept, original)
    assert_same(envs.step(ZEROS)[0], again[0])


def test_without_copy_arrays_are_written_over():
    envs = make(copy=False)
    first, _ = envs.reset()
    second, *others = envs.step(ZEROS)
    assert second is first
    third, *_ = envs.step(ZEROS)
    assert first.tolist() == third.tolist() == [[2, 2]] * 3
    assert others[0].tolist() == [1, 1, 1]


# --- errors -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [LookupError("x"), KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("name", ["reset", "step", "render", "twice"])
@pytest.mark.parametrize("copies", [True, False])
def test_an_environment_that_raises(name, error, copies):
    envs = started(copy=copies)
    observations = envs.step(ZEROS)[0]
    before = observations.copy()
    envs.envs[1].fail = {name}
    envs.envs[1].error = error
    calls = {
        "reset": envs.reset,
        "step": lambda: envs.step(ZEROS),
        "render": envs.render,
        "twice": lambda: envs.call("twice", 1),
    }
    with pytest.raises(type(error)) as caught:
        calls[name]()
    assert caught.value is error
    assert_same(observations, before)
    envs.envs[1].fail = set()
    assert envs.reset()[0].tolist() == [[0, 0]] * 3
    assert envs.step(ZEROS)[0].tolist() == [[1, 1]] * 3
    envs.close()


def test_an_episode_that_ended_before_another_environment_failed_is_reset():
    envs = started(length=1)
    envs.envs[2].fail = {"step"}
    with pytest.raises(LookupError):
        envs.step(ZEROS)
    envs.envs[2].fail = set()
    observations, rewards, terminations, _, _ = envs.step(ZEROS)
    assert observations.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert rewards.tolist() == [0, 0, 1]
    assert terminations.tolist() == [False, False, True]


def test_a_reset_that_failed_is_tried_again():
    envs = started(length=1)
    envs.step(ZEROS)
    envs.envs[1].fail = {"reset"}
    with pytest.raises(LookupError):
        envs.step(ZEROS)
    envs.envs[1].fail = set()
    envs.step(ZEROS)
    assert [len(env.actions) for env in envs.envs] == [2, 1, 1]
    assert [len(env.resets) for env in envs.envs] == [2, 2, 2]


def test_a_same_step_reset_that_failed_is_tried_again():
    envs = started(length=1, autoreset_mode=AutoresetMode.SAME_STEP)
    envs.envs[1].fail = {"reset"}
    with pytest.raises(LookupError):
        envs.step(ZEROS)
    envs.envs[1].fail = set()
    envs.step(ZEROS)
    assert [len(env.actions) for env in envs.envs] == [2, 1, 1]
    assert [len(env.resets) for env in envs.envs] == [3, 2, 2]


def test_every_environment_is_closed_when_one_fails():
    envs = make(fail=("close",))
    with pytest.raises(LookupError):
        envs.close()
    assert [env.closed for env in envs.envs] == [1, 1, 1]
    assert envs.closed
    envs.close()


def test_disabled_autoreset_past_the_end_steps_nothing():
    errors = []
    for kind in (SyncVectorEnv, THEIRS):
        envs = started(kind=kind, length=1, autoreset_mode=AutoresetMode.DISABLED)
        envs.step(ZEROS)
        mask = np.array([True, False, True])
        envs.reset(options={"reset_mask": mask})
        with pytest.raises(AssertionError) as caught:
            envs.step(ZEROS)
        errors.append(str(caught.value))
        if kind is SyncVectorEnv:
            assert [len(env.actions) for env in envs.envs] == [1, 1, 1]
        envs.reset(options={"reset_mask": ~mask})
        envs.step(ZEROS)
    assert errors[0] == errors[1].splitlines()[0]


# --- what users put in place ------------------------------------------------------------


class OwnBox(Box):
    """A space with a user's handler."""


def test_a_users_handler_makes_the_batch():
    def handler(space, items, out):
        return np.stack(list(items)) * 2

    their_utils.concatenate.register(OwnBox, handler)
    space = Dict({"own": OwnBox(-9, 9, (2,), np.float32), "box": BOX})
    one = np.ones(2, np.float32)
    envs = make(observation_space=space, observe=lambda steps: {"own": one, "box": one})
    observations, _ = envs.reset()
    assert observations["own"].tolist() == [[2, 2]] * 3
    assert observations["box"].tolist() == [[1, 1]] * 3


def test_a_subclass_with_its_own_rule_for_infos():
    class Lists(SyncVectorEnv):
        def _add_info(self, vector_infos, env_info, env_num):
            vector_infos.setdefault("all", []).append((env_num, env_info))
            return vector_infos

    _, infos = Lists([Scripted] * 2).reset()
    assert infos == {"all": [(0, {}), (1, {})]}


def test_replaced_environments_are_used():
    envs = started()
    envs.envs[0] = gym.wrappers.TransformReward(envs.envs[0], lambda reward: 9.0)
    assert envs.step(ZEROS)[1].tolist() == [9, 1, 1]


def pickled(value):
    return cloudpickle.loads(cloudpickle.dumps(value))


@pytest.mark.parametrize("clone", [copy.deepcopy, pickled])
def test_copies_go_on_where_the_original_was(clone):
    ours = SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
    theirs = THEIRS([lambda: gym.make("CartPole-v1")] * 2)
    assert_same(ours.reset(seed=1), theirs.reset(seed=1))
    other = clone(ours)
    fresh = clone(SyncVectorEnv([Scripted] * 2))
    with pytest.raises(ValueError, match="never reset"):
        fresh.reset(options={"reset_mask": np.array([True, False])})
    for _ in range(30):
        expected = theirs.step([0, 1])
        assert_same(ours.step([0, 1]), expected)
        assert_same(other.step([0, 1]), expected)


def test_names():
    for name in gym.vector.__all__:
        assert hasattr(gymvec, name)
        assert hasattr(gymvec.vector, name)
    assert gymvec.VectorEnv is gym.vector.VectorEnv
    assert gymvec.AutoresetMode is gym.vector.AutoresetMode
