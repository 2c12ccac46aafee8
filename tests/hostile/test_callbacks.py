"""Callbacks that change what a kernel or a vector environment is at work on."""

import sys
from collections import OrderedDict, namedtuple

import kernel_calls
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from hostile_values import Replies, check_guards, guarded
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv, SyncVectorEnv
from gymvec.kernels import infos, rows, trees
from gymvec.kernels.trees import KeyedItems
from gymvec.utils import _array_spaces
from gymvec.vector import stepping
from gymvec.vector.transport import info_schemas


def acts(act, answer):
    """A number, array and truth value that does something when it is asked."""

    def ask(kind):
        act()
        return answer

    return Replies(ask)


def reshaped(block, shape):
    def act():
        block.shape = shape

    return act


@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_an_index_that_reshapes_the_block():
    block = guarded((4, 2), np.float32)
    with pytest.raises(IndexError):
        rows.write_row(block, acts(reshaped(block, (2, 4)), 3), np.ones(4, np.float32))
    check_guards()
    block = guarded((4, 2), np.float32)
    with pytest.raises(IndexError):
        rows.RowWriter(block, acts(reshaped(block, (2, 4)), 3))


def test_a_number_of_a_worker_that_closes():
    for method in ("ring", "queue_pending", "mark_dead", "pending"):
        parent = kernel_calls.parent()
        with pytest.raises(ValueError, match="closed"):
            getattr(parent, method)(acts(parent.close, 0))
    parent = kernel_calls.parent()
    with pytest.raises(RuntimeError, match="in use"):
        parent.send([acts(parent.close, 0)], 1)


def test_shapes_of_too_many_dimensions():
    from hostile_values import Plain

    for shape in ((1,) * 65, (1,) * 5000):
        for call in (
            lambda: _array_spaces.write(
                Plain(shape, np.dtype("f4")),  # noqa: B023
                0,
                1.0,
                kernel_calls._Memory(),
            ),
            lambda: _array_spaces.read(Plain(shape, np.dtype("f4")), kernel_calls._Memory(), 1),  # noqa: B023
        ):
            with pytest.raises(ValueError, match="dimensions"):
                call()


@pytest.mark.parametrize("dtype", [None, "f4", np.dtype("O"), np.dtype("c8"), np.dtype("M8[s]")])
def test_spaces_without_a_dtype_of_numbers(dtype):
    from hostile_values import Plain

    for call in (
        lambda: _array_spaces.write(Plain((2,), dtype), 0, [1, 1], kernel_calls._Memory()),
        lambda: _array_spaces.read(Plain((2,), dtype), kernel_calls._Memory(), 2),
    ):
        with pytest.raises((TypeError, ValueError)):
            call()


def test_parts_that_change_the_dict_they_come_from():
    parts = {}

    class Grows:
        def __iter__(self):
            parts.pop("a", None)
            parts[len(parts), id(self)] = [7]
            return iter([1, 2])

    parts.update(a=Grows(), b=Grows(), c=[1, 2])
    assert list(KeyedItems(lambda: parts)) == [{"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 2}]


# --- infos ------------------------------------------------------------------------------


def test_infos_that_contain_themselves():
    info = {"a": 1}
    info["self"] = info
    for gather in (
        lambda: infos.gather_infos([(0, info)], 2),
        lambda: infos.add_info({}, info, 0, 2),
        lambda: SyncVectorEnv([lambda: Tells(info)]).reset(),
    ):
        with pytest.raises(RecursionError):
            gather()
    assert info_schemas.schema_of(info, 1024) is None


def test_writers_that_contain_themselves_are_deep():
    writer = trees.TreeWriter([("a", None)])
    value = {"a": 1}
    for _ in range(sys.getrecursionlimit() * 20):
        writer = trees.TreeWriter([("a", writer)])
        value = {"a": value}
    with pytest.raises(RecursionError):
        writer(value)
    # Taken apart one by one, for the same reason.
    while isinstance(value, dict):
        value = value.pop("a")


@pytest.mark.filterwarnings("ignore:Setting the shape")
@pytest.mark.parametrize("change", ["shape", "shorter", "strided", "object", "mask"])
def test_infos_whose_arrays_are_exchanged(change):
    batch = infos.InfoBatch(4)
    batch.add({"a": np.zeros(3), "b": 1.0}, 0)
    found = batch.infos
    if change == "shape":
        found["a"].shape = (2, 6)
        found["b"].shape = (2, 2)
    elif change == "mask":
        found["_a"].shape = (2, 2)
    else:
        found.clear()
        found["c"] = {"shorter": np.zeros(1), "strided": np.zeros(8)[::2], "object": 3}[change]
        found["_c"] = np.zeros(1, np.bool_) if change == "shorter" else np.zeros(8, np.bool_)[::2]
    for index in range(4):
        for key in "abc":
            try:
                batch.add({key: np.zeros(3) if key == "a" else 2.0}, index)
            except (IndexError, ValueError, TypeError):
                pass
    if change == "strided":
        assert found["c"].tolist() == [2.0] * 4
        assert found["_c"].all()


class Tells(Scripted):
    """Its info is given."""

    def __init__(self, info):
        super().__init__()
        self.info = info

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], self.info


# --- environments that reach the vector environment -------------------------------------


class Reaches(Scripted):
    """Calls a function at each step and reset."""

    act = staticmethod(lambda: None)

    def step(self, action):
        self.act()
        return super().step(action)

    def reset(self, **kwargs):
        self.act()
        return super().reset(**kwargs)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("what", ["clear", "shorten", "replace", "observations", "close", "step"])
def test_an_environment_that_changes_the_list_it_is_in(what, mode):
    envs = SyncVectorEnv([lambda: Reaches(length=1)] * 3, autoreset_mode=mode)
    envs.reset()
    busy = []

    def act():
        if busy:
            return
        busy.append(1)
        try:
            {
                "clear": envs.envs.clear,
                "shorten": lambda: envs.envs.__delitem__(slice(1, None)),
                "replace": lambda: envs.envs.__setitem__(
                    slice(None), [Reaches(), Reaches(), Reaches()]
                ),
                "observations": envs._env_obs.clear,
                "close": envs.close,
                "step": lambda: envs.step(np.zeros((3, 2))),
            }[what]()
        finally:
            busy.clear()

    envs.envs[0].act = act
    for _ in range(3):
        try:
            envs.step(np.zeros((3, 2)))
        except Exception as error:
            assert what != "replace" or isinstance(error, AssertionError), error
            assert what != "step" or str(error).startswith("Calling `step` while this thread")
        else:
            assert what != "step"
    envs.close()


def test_actions_that_are_taken_away():
    env = Reaches()
    actions = [None, None]
    env.act = actions.clear
    with pytest.raises(RuntimeError, match="changed its length"):
        stepping.step_environments(
            [env, env],
            actions,
            [None, None],
            kernel_calls.step_blocks(),
            guarded((2,), np.bool_),
            stepping.NEXT_STEP,
            infos.InfoBatch(2),
            lambda value: value,
        )


class Closes:
    """Closes a vector environment when it is copied, pickled, or made an array of."""

    def __init__(self, envs):
        self.envs = envs

    def __array__(self, dtype=None, copy=None):
        self.envs.close()
        return np.zeros(2, np.float32)

    def __reduce__(self):
        self.envs.close()
        return (int, ())

    def __int__(self):
        self.envs.close()
        return 1

    __index__ = __int__


DICT = Dict({"a": Box(-1, 1, (2,), np.float32)})
CALLS = {
    "step": lambda envs, value: envs.step([value] * 3),
    "step_async": lambda envs, value: envs.step_async([value] * 3),
    "send": lambda envs, value: envs.send([value] * 3),
    "send to": lambda envs, value: envs.send(np.zeros((3, 2)), [0, 1, value]),
    "reset": lambda envs, value: envs.reset(seed=[1, 2, value]),
    "async_reset": lambda envs, value: envs.async_reset(seed=[1, 2, value]),
    "options": lambda envs, value: envs.reset(options={"a": value}),
    "call": lambda envs, value: envs.call("twice", value),
    "set_attr": lambda envs, value: envs.set_attr("a", value),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("batch_size", [None, 3])
def test_an_argument_that_closes_the_async_vector_environment(name, batch_size):
    envs = AsyncVectorEnv([Scripted] * 3, batch_size=batch_size)
    envs.reset()
    with pytest.raises(ClosedEnvironmentError):
        CALLS[name](envs, Closes(envs))
    assert envs.closed
    envs.close()
    assert all(process.exitcode is not None for process in envs.processes)


@pytest.mark.parametrize("space", [BOX, DICT])
def test_a_batch_of_actions_that_closes_the_vector_environment(space):
    """While it is read, which is when it is written into the segment."""

    class Batch(dict):
        def __getitem__(self, key):
            envs.close()
            return np.zeros((3, 2), np.float32)

    class Rows(list):
        def __iter__(self):
            envs.close()
            return iter([np.zeros(2, np.float32)] * 3)

    for make in (SyncVectorEnv, AsyncVectorEnv):
        envs = make([lambda: Scripted(action_space=space)] * 3)
        envs.reset()
        with pytest.raises((ClosedEnvironmentError, ValueError), match="closed|close"):
            envs.step(Batch(a=1) if space is DICT else Rows([1, 2, 3]))
        assert envs.closed
        envs.close()


class Reads(dict):
    """Calls back when a part is taken out of it, once."""

    def __init__(self, parts, act):
        super().__init__(parts)
        self.act = act

    def __getitem__(self, key):
        act, self.act = self.act, None
        if act is not None:
            act()
        return super().__getitem__(key)


class Indexed(tuple):
    def __getitem__(self, key):
        act, self.act = getattr(self, "act", None), None
        if act is not None:
            act()
        return super().__getitem__(key)


_PARTS = {"a": np.zeros(3, np.int64), "b": np.ones(3, np.int64)}


def _batch_that_acts(space, act):
    if isinstance(space, Dict):
        return Reads(_PARTS, act)
    batch = Indexed(_PARTS.values())
    batch.act = act
    return batch


_PAIRS = [Dict({"a": Discrete(2), "b": Discrete(2)}), Tuple([Discrete(2), Discrete(2)])]


@pytest.mark.parametrize("space", _PAIRS)
@pytest.mark.parametrize("begin", ["step", "step_async"])
@pytest.mark.parametrize("name", ["reset_async", "step_async", "call_async", "send", "step_wait"])
@pytest.mark.parametrize("caught", [True, False])
def test_a_batch_of_actions_that_calls_the_vector_environment(space, begin, name, caught):
    """It is refused, and the call that reads the batch ends as if nothing else were asked for."""
    good = _PARTS if isinstance(space, Dict) else tuple(_PARTS.values())
    envs = AsyncVectorEnv([lambda: Scripted(action_space=space, length=99)] * 3, num_workers=2)
    envs.reset()
    envs.step(good)
    arguments = {"step_async": (good,), "send": (good,), "call_async": ("twice", 4)}
    refused = []

    def act():
        try:
            getattr(envs, name)(*arguments.get(name, ()))
        except (AlreadyPendingCallError, RuntimeError) as error:
            refused.append(str(error))
            if not caught:
                raise

    batch = _batch_that_acts(space, act)
    if caught:
        result = getattr(envs, begin)(batch) or envs.step_wait()
        assert result[0].tolist() == [[2, 2]] * 3
    else:
        with pytest.raises((AlreadyPendingCallError, RuntimeError)):
            getattr(envs, begin)(batch)
        assert envs.step(good)[0].tolist() == [[2, 2]] * 3
    assert len(refused) == 1
    assert refused[0].startswith(f"Calling `{name}` while")
    assert envs.step(good)[0].tolist() == [[3, 3]] * 3
    envs.close()


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("batch_size", [None, 3])
def test_an_argument_that_steps_the_async_vector_environment(name, batch_size):
    """Refused; the call does what it would with any other argument like it."""
    envs = AsyncVectorEnv([lambda: Scripted(length=99)] * 3, batch_size=batch_size)
    envs.reset()
    refused = []

    class Steps:
        @staticmethod
        def close():
            with pytest.raises((AlreadyPendingCallError, RuntimeError)) as caught:
                envs.step(np.zeros((3, 2)))
            refused.append(str(caught.value))

    value = Closes(Steps)
    if name == "send to":
        # An array in place of a number.
        with pytest.raises(ValueError):
            CALLS[name](envs, value)
    else:
        CALLS[name](envs, value)
    assert refused
    assert all(text.startswith("Calling `step` while") for text in refused)
    if envs._state.value == "step":
        envs.step_wait()
    elif envs._batches.any_busy:
        envs.recv()
    envs.reset()
    assert envs.step(np.zeros((3, 2)))[0].tolist() == [[1, 1]] * 3
    envs.close()


@pytest.mark.parametrize("space", _PAIRS)
def test_containers_that_only_have_another_name_go_through_the_segment(space):
    named = namedtuple("named", "a b")
    batches = [OrderedDict(_PARTS), dict(_PARTS)]
    if isinstance(space, Tuple):
        batches = [named(*_PARTS.values()), list(_PARTS.values())]
    envs = AsyncVectorEnv([lambda: Scripted(action_space=space, length=99)] * 3)
    assert all(envs._put_actions(batch, None) for batch in batches)
    assert not envs._put_actions(_batch_that_acts(space, None), None)
    envs.close()
