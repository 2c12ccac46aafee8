"""What steps of AsyncVectorEnv return, above all when something is odd."""

import copy
import time

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Sequence, Text, Tuple
from gymnasium.vector import AutoresetMode
from lockstep import assert_same
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv

pytestmark = pytest.mark.timeout(60)

THEIRS = gym.vector.SyncVectorEnv
ZEROS = np.zeros((3, 2), np.float32)


def make(n=3, kind=AsyncVectorEnv, copy=True, autoreset_mode="NextStep", **kwargs):
    mode = AutoresetMode(autoreset_mode)
    own = {"num_workers": 2} if kind is AsyncVectorEnv else {}
    return kind([lambda: Scripted(**kwargs)] * n, copy=copy, autoreset_mode=mode, **own)


@pytest.fixture
def started():
    """Makes environments that are reset, and closes them at the end."""
    made = []

    def start(**kwargs):
        made.append(make(**kwargs))
        made[-1].reset()
        return made[-1]

    yield start
    for envs in made:
        envs.close()


# --- rewards and flags ------------------------------------------------------------------


def test_rewards(started):
    good = [2.5, 2, True, np.float32(2.5), np.float64(2.5), np.int64(2), np.bool_(True)]
    good += [np.array(2.5), np.array([2.5]), np.array([2], np.int8), [2.5], float("nan")]
    envs = started(length=99)
    for reward in good:
        envs.set_attr("reward", [reward, 0.0, 1])
        number = reward[0] if np.shape(reward) == (1,) else reward
        assert_same(envs.step(ZEROS)[1], np.array([float(number), 0, 1]))
    for reward in (np.zeros(2), np.zeros(0), np.zeros((1, 1)), (), [[1.0]]):
        envs.set_attr("reward", (0.0, reward, 0.0))
        with pytest.raises(ValueError, match="environment 1"):
            envs.step(ZEROS)
    for reward in ("x", 1j, 10**400):
        theirs = make(1, THEIRS, reward=reward)
        theirs.reset()
        with pytest.raises(Exception) as caught:
            theirs.step(ZEROS[:1])
        envs.set_attr("reward", (0.0, 0.0, reward))
        with pytest.raises(type(caught.value)):
            envs.step(ZEROS)


class Reuses(Scripted):
    """Returns one and the same array and info, filled anew."""

    def __init__(self, shared=None, **kwargs):
        super().__init__(**kwargs)
        self.observe = self.fill
        self.array = np.zeros(2, np.float32) if shared is None else shared
        self.info = {"array": self.array, "list": [0]}

    def fill(self, steps):
        self.array[:] = steps
        self.info["list"][0] = steps
        self.info["steps"] = steps
        return self.array

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self.info

    def step(self, action):
        return (*super().step(action)[:4], self.info)


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("copies", [True, False])
def test_final_obs_and_final_info_of_a_reused_array(copies, shared_memory):
    kwargs = dict(copy=copies, autoreset_mode=AutoresetMode.SAME_STEP)
    ours = AsyncVectorEnv([lambda: Reuses(length=2)] * 2, shared_memory, num_workers=1, **kwargs)
    theirs = THEIRS([lambda: Reuses(length=2)] * 2, **kwargs)
    for step in range(7):
        results = (
            [envs.step(ZEROS[:2]) for envs in (ours, theirs)]
            if step
            else [envs.reset() for envs in (ours, theirs)]
        )
        if "final_obs" in results[0][-1]:
            finals = results[0][-1]["final_obs"]
            assert [final.tolist() for final in finals] == [[2, 2], [2, 2]]
            final = results[0][-1]["final_info"]
            assert final["steps"].tolist() == [2, 2]
            assert final["array"].tolist() == [[2, 2], [2, 2]]
            # Gymnasium's has the array and the list that the environment goes on with.
            assert final["list"].tolist() == [[2], [2]]
            for infos in (results[0][-1], results[1][-1]):
                del infos["final_obs"], infos["final_info"]["list"]
        assert_same(*results)
    ours.close()


def test_environments_of_one_worker_that_share_an_array():
    """The second one overwrites what the first has returned."""

    def factories():
        shared = np.zeros(2, np.float32)
        return [lambda: Reuses(shared, length=9), lambda: Reuses(shared, length=1)]

    for shared_memory in (True, False):
        ours = AsyncVectorEnv(factories(), shared_memory, num_workers=1)
        theirs = THEIRS(factories())
        for envs in (ours, theirs):
            envs.reset()
        for step in range(4):
            results = [envs.step(ZEROS[:2]) for envs in (ours, theirs)]
            assert_same(results[0][4]["array"], results[1][4]["array"])
            assert results[0][0][0].tolist() == [step + 1] * 2
        ours.close()


def test_disabled_autoreset_past_the_end_steps_nothing(started):
    envs = started(length=1, autoreset_mode="Disabled")
    envs.step(ZEROS)
    mask = np.array([True, False, True])
    envs.reset(options={"reset_mask": mask})
    with pytest.raises(AssertionError):
        envs.step(ZEROS)
    assert [len(actions) for actions in envs.get_attr("actions")] == [1, 1, 1]
    envs.reset(options={"reset_mask": ~mask})
    envs.step(ZEROS)
    with pytest.raises(AssertionError):
        envs.step_async(ZEROS)
    envs.reset()
    envs.step(ZEROS)


def test_disabled_autoreset_after_a_step_that_failed(started):
    envs = started(length=1, autoreset_mode="Disabled")
    envs.set_attr("fail", [set(), {"step"}, set()])
    with pytest.raises(LookupError):
        envs.step(ZEROS)
    envs.set_attr("fail", [set(), set(), set()])
    with pytest.raises(AssertionError):
        envs.step(ZEROS)
    assert [len(actions) for actions in envs.get_attr("actions")] == [1, 0, 1]
    envs.reset(options={"reset_mask": np.array([True, False, True])})
    envs.step(ZEROS)


# --- observations -----------------------------------------------------------------------


def test_a_row_of_leaves_of_both_kinds_is_of_one_step(started):
    """An environment that a masked reset leaves out, after a call that failed."""
    space = Dict({"n": Discrete(9), "text": Text(3)})
    for shared_memory in (True, False):
        envs = AsyncVectorEnv(
            [lambda: Scripted(space, observe=lambda s: {"n": s, "text": str(s)})] * 3,
            shared_memory,
            num_workers=2,
        )
        envs.reset()
        envs.set_attr("fail", [set(), set(), {"step"}])
        with pytest.raises(LookupError):
            envs.step(ZEROS)
        mask = np.array([False, False, True])
        observations, _ = envs.reset(options={"reset_mask": mask})
        assert observations["n"].tolist() == [1, 1, 0]
        assert observations["text"] == ("1", "1", "0")
        envs.close()


def scribble(value):
    for part in value.values() if isinstance(value, dict) else value:
        if isinstance(part, np.ndarray):
            part[...] = 7
        elif isinstance(part, (dict, list, tuple)):
            scribble(part)


def test_with_copy_everything_is_the_callers_own(started):
    space = Dict({"a": BOX, "b": Sequence(BOX), "c": Tuple([Box(0, 9, (1,)), Text(5)])})
    kept = {"a": ZEROS[0].copy(), "b": (ZEROS[1].copy(),), "c": (np.zeros(1, np.float32), "ab")}
    envs = started(observation_space=space, observe=lambda steps: kept)
    results = envs.step(ZEROS)
    again = copy.deepcopy(results)
    envs.step(ZEROS)
    assert_same(results, again)
    scribble(results)
    assert_same(envs.reset()[0], again[0])
    mask = np.array([True, False, False])
    assert_same(envs.reset(options={"reset_mask": mask})[0], again[0])


def test_without_copy_arrays_are_written_over(started):
    envs = started(copy=False, length=9)
    first, *others = envs.step(ZEROS)
    second = envs.step(ZEROS)[0]
    assert first.tolist() == [[1, 1]] * 3
    assert envs.step(ZEROS)[0].tolist() == first.tolist() == [[3, 3]] * 3
    assert second.tolist() == [[2, 2]] * 3
    assert others[0].tolist() == [1, 1, 1]
    assert envs.observations.tolist() == [[3, 3]] * 3
    envs.close()
    assert first.tolist() == [[3, 3]] * 3


@pytest.mark.parametrize("shared_memory", [True, False])
def test_ill_formed_observations(shared_memory):
    """Nothing dies, and a row keeps its old or has its new value."""
    bad = ["ab", [1.0, 2.0, 3.0], {}, np.zeros((2, 2)), [1.0, "x"]]
    envs = AsyncVectorEnv([lambda: Scripted(length=99)] * 3, shared_memory, num_workers=2)
    envs.reset()
    for observation in bad:
        envs.set_attr("observe", [_count, lambda steps, o=observation: o, _count])
        with pytest.raises((ValueError, TypeError)):
            envs.step(ZEROS)
        envs.set_attr("observe", [_count] * 3)
        assert envs.reset()[0].tolist() == [[0, 0]] * 3
    envs.set_attr("observe", [lambda steps: [1, 2]] * 3)
    assert envs.step(ZEROS)[0].tolist() == [[1, 2]] * 3
    envs.close()


def _count(steps):
    return np.full(2, steps, np.float32)


def test_parts_that_are_missing(started):
    envs = started(
        observation_space=Dict({"a": BOX, "b": Discrete(9)}),
        observe=lambda steps: {"a": ZEROS[0], "b": 1, "more": 2} if steps < 2 else {"a": ZEROS[0]},
    )
    envs.step(ZEROS)
    with pytest.raises(KeyError, match="b"):
        envs.step(ZEROS)


# --- infos ------------------------------------------------------------------------------

INFOS = [
    {},
    {"a": 1, "b": 2.5, "c": True, "d": None, "e": "text", "f": np.float32(3)},
    {"a": 2.5, "b": "x", "g": np.arange(3), "h": np.bool_(True), "i": b"bytes", "j": 1j},
    {"g": np.arange(3) + 0.5, "n": {"x": 1, "m": {"y": np.ones((2, 2))}, "s": "t"}},
    {"n": {"x": 2}, "a": np.int8(3), "l": [1, 2], "t": (1, "2"), "set": {1}, "_k": 1, "k": 2},
    {"big": ">", "swapped": np.arange(2, dtype=">i4"), "d": 5, "odd": np.arange(6)[::2]},
    {"obj": Box(0, 1, (2,)), "empty": {}, "zero": np.zeros((0, 3)), "dt": np.datetime64("2020")},
    {"c": False, "episode": {"r": 1.5, "l": 3, "t": 0.25}, 7: "key", ("k", 1): 2.0},
    {"final_obs": np.ones(2), "final_info": {"a": 1}, "str": np.str_("np")},
]


class Tells(Scripted):
    """Its infos are those of a list, from another place in each environment."""

    def __init__(self, start, **kwargs):
        super().__init__(length=5, **kwargs)
        self.start = start

    def tell(self):
        self.start += 1
        return copy.deepcopy(INFOS[self.start % len(INFOS)])

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self.tell()

    def step(self, action):
        return (*super().step(action)[:4], self.tell())


def outcome(call):
    try:
        return call()[-1]
    except Exception as error:
        return type(error), str(error)


def test_infos_of_every_pair():
    ours = AsyncVectorEnv([lambda: Tells(0)] * 2, num_workers=1)
    theirs = THEIRS([lambda: Tells(0)] * 2)
    for first in range(len(INFOS)):
        for second in range(len(INFOS)):
            for envs in (ours, theirs):
                envs.set_attr("start", [first - 1, second - 1])
            assert_same(outcome(ours.reset), outcome(theirs.reset))
    ours.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize("starts", [(0, 0, 0), (3, 3, 3), (7, 7, 7)])
def test_infos_of_steps(starts, mode):
    factories = [lambda start=start: Tells(start) for start in starts]
    ours = AsyncVectorEnv(factories, num_workers=2, autoreset_mode=mode)
    theirs = THEIRS(factories, autoreset_mode=mode)
    ours.reset(), theirs.reset()
    for _ in range(12):
        assert_same(outcome(lambda: ours.step(ZEROS)), outcome(lambda: theirs.step(ZEROS)))
    ours.close()


def test_a_subclass_with_its_own_rule_for_infos():
    class Lists(AsyncVectorEnv):
        def _add_info(self, vector_infos, env_info, env_num):
            vector_infos.setdefault("all", []).append((env_num, env_info))
            return vector_infos

    envs = Lists([lambda: Tells(0), lambda: Tells(4)])
    assert [env for env, _ in envs.reset()[1]["all"]] == [0, 1]
    envs.close()


def test_a_subclass_with_its_own_way_to_begin_and_to_wait():
    class Counts(AsyncVectorEnv):
        calls = ()

        def step_async(self, actions):
            self.calls += ("async",)
            super().step_async(actions)

        def step_wait(self, timeout=None):
            self.calls += ("wait",)
            return super().step_wait(timeout)

    envs = Counts([lambda: Tells(0), lambda: Tells(4)])
    envs.reset()
    envs.step(np.zeros(2, np.int64))
    assert envs.calls == ("async", "wait")
    envs.close()


@pytest.mark.parametrize(
    "options",
    [{}, {"copy": False}, {"step_timeout": 60.0}, {"on_worker_death": "restart"}],
    ids=str,
)
def test_plain_steps_are_compiled(options, monkeypatch):
    """They are looked at one by one only where one takes long."""
    envs = AsyncVectorEnv([lambda: Scripted(length=99)] * 2, **options)
    envs.reset()
    envs.step(ZEROS[:2])
    looks = []
    collect = envs._pool.collect
    monkeypatch.setattr(envs._pool, "collect", lambda wait: looks.append(wait) or collect(wait))
    for _ in range(20):
        envs.step(ZEROS[:2])
    assert len(looks) < 20
    monkeypatch.undo()
    envs.close()


class Images(gym.Env):
    """Its large observations differ from step to step, and some environments take longer."""

    observation_space = Dict(
        {
            "image": Box(0, 255, (128, 128, 3), np.uint8),
            "place": Box(-9, 9, (2,)),
            "on": Discrete(2),
        }
    )
    action_space = Discrete(2)

    def __init__(self, number):
        self.number = number
        self.steps = 0

    def observation(self):
        value = 20 * self.number + self.steps
        return {
            "image": np.full((128, 128, 3), value, np.uint8),
            "place": np.array([self.number, self.steps], np.float32),
            "on": self.steps % 2,
        }

    def reset(self, *, seed=None, options=None):
        return self.observation(), {}

    def step(self, action):
        self.steps += 1
        if self.number == 2:
            time.sleep(0.01)
        infos = {"odd": object} if self.steps == 7 and self.number == 1 else {}
        return self.observation(), float(action), False, False, infos


@pytest.mark.parametrize("num_workers", [1, 2, 4])
def test_large_observations(num_workers):
    """Each worker's rows are copied as soon as it has answered."""
    factories = [lambda number=number: Images(number) for number in range(4)]
    ours, theirs = AsyncVectorEnv(factories, num_workers=num_workers), THEIRS(factories)
    assert_same(ours.reset(), theirs.reset())
    before = []
    for step in range(10):
        actions = np.array([step % 2, 0, 1, 0])
        results = ours.step(actions)
        assert_same(results, theirs.step(actions))
        before.append((results, copy.deepcopy(results)))
    for results, then in before:
        assert_same(results, then)
    ours.close()
