"""Steps and resets that return something else than they should, beside Gymnasium's."""

from collections import OrderedDict, UserDict, namedtuple

import gymnasium as gym
import numpy as np
import pytest
from lockstep import assert_same
from scripted import Scripted

import gymvec

ZEROS = np.zeros((2, 2), np.float32)
Five = namedtuple("Five", "a b c d e")


class Receives(gymvec.AsyncVectorEnv):
    """Steps and resets by ``send`` and ``recv``."""

    def reset(self):
        self.async_reset()
        observations, *_, infos = self.recv()
        return observations, self.without_ids(infos)

    def step(self, actions):
        self.send(actions, [0, 1])
        *results, infos = self.recv()
        return *results, self.without_ids(infos)

    @staticmethod
    def without_ids(infos):
        del infos["env_id"], infos["_env_id"]
        return infos


KINDS = (gymvec.SyncVectorEnv, gymvec.AsyncVectorEnv, Receives)


class Returns(Scripted):
    """What a step or a reset returns goes through a function first."""

    def __init__(self, at, change, **kwargs):
        super().__init__(**kwargs)
        self.at = at
        self.change = change

    def reset(self, **kwargs):
        returned = super().reset(**kwargs)
        # In the second reset it is the mode's.
        return self.change(returned) if self.at in ("reset", len(self.resets)) else returned

    def step(self, action):
        returned = super().step(action)
        return self.change(returned) if self.at == "step" else returned


def outcome(kind, factory, mode):
    """What a reset and three steps return, up to the first error."""
    envs = kind([factory] * 2, autoreset_mode=mode)
    results = []
    try:
        results.append(envs.reset())
        for _ in range(3):
            results.append(envs.step(ZEROS))
    except Exception as error:
        results.append((type(error), str(error)))
    envs.close()
    return results


def assert_as_gymnasiums(at, change, mode="NextStep"):
    def factory():
        return Returns(at, change, length=2)

    expected = outcome(gym.vector.SyncVectorEnv, factory, mode)
    for kind in KINDS:
        assert_same(outcome(kind, factory, mode), expected, f"{kind.__name__} {mode} {at}")
    return expected


WRONG_NUMBERS = {
    "one less": lambda returned: returned[:-1],
    "one more": lambda returned: (*returned, 1),
    "a list, one less": lambda returned: list(returned[:-1]),
    "a list, one more": lambda returned: [*returned, 1],
    "an iterator, one less": lambda returned: iter(returned[:-1]),
    "an iterator, one more": lambda returned: iter((*returned, 1)),
    "none": lambda returned: (),
    "an empty dict": lambda returned: {},
    "a named tuple": lambda returned: Five(1, 2, 3, 4, 5)[:3] + (1,) * len(returned),
    "None": lambda returned: None,
    "a number": lambda returned: 5,
    "a NumPy number": lambda returned: np.float32(5),
    "an array without dimensions": lambda returned: np.array(5),
    "a class": lambda returned: Scripted,
}


@pytest.mark.parametrize("name", WRONG_NUMBERS)
def test_a_wrong_number_of_values(name):
    # A second reset is the mode's own.
    for at, mode in (("reset", "NextStep"), ("step", "NextStep"), (2, "NextStep"), (2, "SameStep")):
        *_, (error, text) = assert_as_gymnasiums(at, WRONG_NUMBERS[name], mode)
        assert error in (ValueError, TypeError) and "unpack" in text or "iterat" in text


def test_the_texts_are_pythons():
    """As a program that unpacks in Python says it, which for too many depends on its version."""
    with pytest.raises(ValueError) as too_many:
        _first, _second, _third, _fourth, _fifth = (1, 2, 3, 4, 5, 6)
    for change, text in (
        (lambda returned: returned[:4], "not enough values to unpack (expected 5, got 4)"),
        (lambda returned: (*returned, 6), str(too_many.value)),
        (lambda returned: None, "cannot unpack non-iterable NoneType object"),
    ):
        for kind in KINDS:
            *_, last = outcome(kind, lambda change=change: Returns("step", change), "NextStep")
            assert last[1] == text


@pytest.mark.parametrize(
    "change", [list, iter, lambda returned: (value for value in returned), OrderedDict.fromkeys]
)
def test_five_values_that_are_no_tuple(change):
    if change is OrderedDict.fromkeys:
        # Its keys: an observation and an info that are none.
        assert_as_gymnasiums("step", lambda returned: change(("a", 1, True, 0.5, None)))
    else:
        assert_as_gymnasiums("step", change)
        assert_as_gymnasiums("reset", change)


class Falsy(dict):
    def __bool__(self):
        return False


class OwnItems(dict):
    def items(self):
        return [("own", 1)]


INFOS = {
    repr(info): info
    for info in (None, [], (), 0, "", False, [1], "abc", np.zeros(0), np.zeros(2), set())
}
DICTS = {
    "empty": {},
    "ordered": OrderedDict(),
    "falsy": Falsy(a=1),
    "with its own items": OwnItems(),
    "no dict, but like one": UserDict(a=1),
    "an empty one inside": {"a": {}, "b": {"c": OrderedDict()}},
}


@pytest.mark.parametrize("name", [*INFOS, *DICTS])
def test_infos_that_are_no_plain_dict(name):
    def with_info(returned):
        return *returned[:-1], {**INFOS, **DICTS}[name]

    for at, mode in (("reset", "NextStep"), ("step", "NextStep"), (2, "NextStep"), (2, "SameStep")):
        *_, last = assert_as_gymnasiums(at, with_info, mode)
        if name in INFOS:
            assert last[0] is AttributeError and "'items'" in last[1]


# --- a rule of the caller's own for infos -------------------------------------------------


class Tells(Scripted):
    """Has an info in some steps only."""

    def __init__(self, number, **kwargs):
        super().__init__(**kwargs)
        self.number = number

    def step(self, action):
        *returned, _ = super().step(action)
        tells = (self.steps + self.number) % 2 == 0
        return *returned, {"x": self.steps, "deep": {"y": 0.5}} if tells else {}


def lists(base):
    class Lists(base):
        def _add_info(self, vector_infos, env_info, env_num):
            vector_infos.setdefault("all", []).append((env_num, dict(env_info)))
            return vector_infos

    return Lists


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_rule_of_ones_own_gets_every_info(kind, mode):
    def play(kind):
        envs = kind([lambda: Tells(0, length=2), lambda: Tells(1, length=3)], autoreset_mode=mode)
        infos = [envs.reset()[1], *(envs.step(ZEROS)[-1] for _ in range(6))]
        envs.close()
        return infos

    infos = play(lists(kind))
    assert_same(infos, play(lists(gym.vector.SyncVectorEnv)))
    assert infos[:2] == [
        {"all": [(0, {}), (1, {})]},
        {"all": [(0, {}), (1, {"x": 1, "deep": {"y": 0.5}})]},
    ]


def test_a_rule_of_ones_own_with_masks():
    envs = lists(gymvec.AsyncVectorEnv)([lambda: Tells(0)] * 3, num_workers=2)
    envs.reset()
    _, infos = envs.reset(options={"reset_mask": np.array([True, False, True])})
    assert infos == {"all": [(0, {}), (2, {})]}
    envs.close()


def test_a_rule_of_ones_own_in_batches_of_some():
    """It gets positions in the batch; Gymnasium's makes arrays of as many elements as that."""

    class Counts(gymvec.AsyncVectorEnv):
        calls = 0

        def _add_info(self, vector_infos, env_info, env_num):
            self.calls += 1
            return super()._add_info(vector_infos, env_info, env_num)

    played = []
    for kind in (Counts, gymvec.AsyncVectorEnv):
        envs = kind([lambda i=i: Tells(i) for i in range(4)], batch_size=2, num_workers=1)
        envs.async_reset()
        results = []
        for _ in range(4):
            results.append(envs.recv())
            envs.send(ZEROS)
        played.append(results)
        if kind is Counts:
            # Each once, and once more for each nested dict.
            told = sum(int(infos["_deep"].sum()) for *_, infos in results if "deep" in infos)
            assert envs.calls == 8 + told and told > 0
        envs.close()
    assert_same(*played)

    envs = lists(gymvec.AsyncVectorEnv)([lambda: Tells(0)] * 4, batch_size=2, num_workers=1)
    envs.async_reset()
    infos = envs.recv()[-1]
    assert infos["all"] == [(0, {}), (1, {})]
    assert infos["env_id"].tolist() == [0, 1]
    envs.close()


# --- what an environment changes after a step ---------------------------------------------


class KeepsOneInfo(Scripted):
    """Returns one and the same info, with what cannot be copied in it."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.info = {"list": [0], "array": np.zeros(1), "deep": {"list": [0]}, "stuck": Stuck()}

    def changed(self):
        self.info["list"][0] = self.info["array"][0] = self.info["deep"]["list"][0] = self.steps
        return self.info

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self.changed()

    def step(self, action):
        return *super().step(action)[:-1], self.changed()


class Stuck:
    def __deepcopy__(self, memo):
        raise RuntimeError("no copies")


@pytest.mark.parametrize("kind", KINDS)
def test_final_info_is_the_terminal_steps(kind):
    envs = kind([lambda: KeepsOneInfo(length=2)] * 2, autoreset_mode="SameStep")
    envs.reset()
    envs.step(ZEROS)
    infos = envs.step(ZEROS)[-1]
    final = infos["final_info"]
    assert [final["list"].tolist(), final["deep"]["list"].tolist()] == [[[2], [2]]] * 2
    assert final["array"].tolist() == [[2], [2]]
    assert [type(stuck) for stuck in final["stuck"]] == [Stuck] * 2
    assert infos["list"].tolist() == [[0], [0]]
    envs.close()


def test_a_final_info_that_contains_itself():
    endless = []
    endless.append(endless)

    class Endless(Scripted):
        def step(self, action):
            return *super().step(action)[:-1], {"endless": endless}

    envs = gymvec.SyncVectorEnv([lambda: Endless(length=1)], autoreset_mode="SameStep")
    envs.reset()
    assert envs.step(ZEROS[:1])[-1]["final_info"]["endless"][0] is endless
