"""Exceptions of sub-environments of AsyncVectorEnv, whatever they are and whenever they come."""

import errno
import sys
import threading
import types

import numpy as np
import pytest
from async_envs import Acts
from gymnasium.error import ResetNeeded
from scripted import Scripted

from gymvec import AsyncVectorEnv

pytestmark = pytest.mark.timeout(60)

ZEROS = np.zeros((3, 2), np.float32)


class TwoArguments(Exception):
    def __init__(self, name, number):
        super().__init__(f"{name} is {number}")
        self.name = name
        self.number = number


class KeywordOnly(ValueError):
    def __init__(self, *, code):
        super().__init__()
        self.code = code

    def __str__(self):
        return f"code {self.code}"


class Prefixes(Exception):
    def __init__(self, text="x"):
        super().__init__(f"before {text}")


class Slots(Exception):
    __slots__ = ("number",)

    def __init__(self):
        super().__init__("slots")
        self.number = 5


class OddNew(Exception):
    def __new__(cls, one, two):
        return super().__new__(cls, one)

    def __init__(self, one, two):
        super().__init__(one)


class NoText(Exception):
    def __str__(self):
        raise RuntimeError("no text")


class Holds(Exception):
    """Keeps what cannot be pickled beside what can."""

    def __init__(self):
        super().__init__("holds")
        self.lock = threading.Lock()
        self.number = 5


class NotPickled(Exception):
    def __init__(self):
        super().__init__(threading.Lock())


class NotRebuilt(Exception):
    """Comes out of the pickle as something that fails."""

    def __init__(self):
        super().__init__(Bomb())


class Bomb:
    def __reduce__(self):
        return _explode, ()


def _explode():
    raise OSError("it cannot be rebuilt")


def _raise(error):
    def act(env, name):
        raise error() if isinstance(error, type) or callable(error) else error

    return act


SAME = [
    ValueError("text"),
    KeyError("key"),
    AssertionError(),
    KeyboardInterrupt(),
    KeyboardInterrupt("text"),
    SystemExit(3),
    SystemExit(),
    GeneratorExit(),
    StopIteration(4),
    MemoryError(),
    RecursionError("deep"),
    NotImplementedError("nothing"),
    ResetNeeded("first"),
    TwoArguments("a", 2),
    KeywordOnly(code=7),
    Prefixes(),
    Slots(),
    FileNotFoundError(errno.ENOENT, "no file", "name"),
    OSError(errno.EIO, "broken"),
    OSError("text"),
    UnicodeDecodeError("ascii", b"\xff", 0, 1, "bad"),
    ImportError("no", name="module", path="path"),
]
if sys.version_info >= (3, 11):
    SAME.append(ExceptionGroup("some", [ValueError(1), KeyError(2)]))  # noqa: F821


class RaiseSame:
    """An act: raise one of those above, which need not be sent for that."""

    def __init__(self, i):
        self.i = i

    def __call__(self, env, name):
        raise SAME[self.i]


def make(n=3, num_workers=2, context=None, **kwargs):
    return AsyncVectorEnv([lambda: Acts(**kwargs)] * n, num_workers=num_workers, context=context)


def call(envs, name):
    {
        "reset": envs.reset,
        "step": lambda: envs.step(ZEROS),
        "render": envs.render,
        "twice": lambda: envs.call("twice", 1),
    }[name]()


@pytest.mark.parametrize("shared_memory", [True, False])
def test_any_exception_anywhere(shared_memory):
    envs = AsyncVectorEnv([Acts] * 3, shared_memory, num_workers=2)
    envs.reset()
    for i, error in enumerate(SAME):
        name = ("reset", "step", "render", "twice")[i % 4]
        envs.set_attr("act", [None, RaiseSame(i), None])
        envs.set_attr("at", name)
        with pytest.raises(type(error)) as caught:
            call(envs, name)
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)
        if type(error).__name__ != "ExceptionGroup":
            assert caught.value.args == error.args
        for attribute in ("code", "value", "errno", "filename", "number", "path", "reason"):
            assert getattr(caught.value, attribute, None) == getattr(error, attribute, None)
        text = str(caught.value.__cause__)
        assert "Traceback" in text
        assert "in __call__" in text
        envs.set_attr("act", None)
        assert envs.reset()[0].tolist() == [[0, 0]] * 3
        assert envs.step(ZEROS)[0].tolist() == [[1, 1]] * 3
    envs.close()


@pytest.mark.parametrize(
    ("error", "match"),
    [
        (OddNew, None),
        (NotPickled, "NotPickled"),
        (NotRebuilt, "NotRebuilt"),
        (NoText, None),
        (Holds, "holds"),
        (type("Local", (Exception,), {}), None),
    ],
)
def test_exceptions_that_cannot_travel_as_they_are(error, match):
    envs = make()
    envs.reset()
    make_error = (lambda: error(1, 2)) if error is OddNew else error
    envs.set_attr("act", [None, _raise(make_error), None])
    envs.set_attr("at", "step")
    with pytest.raises(Exception, match=match) as caught:
        envs.step(ZEROS)
    assert type(caught.value).__name__ in (error.__name__, "RuntimeError")
    assert error.__name__ in str(caught.value.__cause__)
    if error is Holds:
        assert caught.value.number == 5
        assert not hasattr(caught.value, "lock")
    envs.set_attr("act", None)
    envs.reset()
    envs.step(ZEROS)
    envs.close()


@pytest.mark.skipif(sys.platform == "win32", reason="fork")
def test_an_exception_whose_class_cannot_be_imported_here():
    def act(env, name):
        module = types.ModuleType("only_in_the_worker")
        error = type("Odd", (ValueError,), {"__module__": module.__name__})
        module.Odd = error
        sys.modules[module.__name__] = module
        raise error("lost")

    envs = make(context="fork")
    envs.reset()
    envs.set_attr("act", [None, act, None])
    envs.set_attr("at", "step")
    with pytest.raises(RuntimeError, match="cannot travel: only_in_the_worker.Odd: lost") as caught:
        envs.step(ZEROS)
    assert "ModuleNotFoundError" in str(caught.value.__cause__)
    envs.set_attr("act", None)
    envs.reset()
    envs.step(ZEROS)
    envs.close()


def test_several_at_once():
    envs = AsyncVectorEnv([Acts] * 6, num_workers=3)
    envs.reset()
    envs.set_attr("act", [None, None, *map(_raise, (KeyError("2"), KeyError("3"))), None, None])
    envs.set_attr("at", "step")
    with pytest.raises(KeyError, match="2") as caught:
        envs.step(np.zeros((6, 2)))
    assert r"[3]" in str(caught.value.__cause__)
    envs.set_attr("act", [_raise(OSError(str(i))) if i in (1, 4, 5) else None for i in range(6)])
    with pytest.raises(OSError, match="1") as caught:
        envs.step(np.zeros((6, 2)))
    assert "[4, 5]" in str(caught.value.__cause__)
    envs.close()


@pytest.mark.parametrize("error", [ZeroDivisionError(), SystemExit(1), KeyboardInterrupt()])
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_at_construction(error, workers, capfd):
    def factory(i):
        return lambda: Acts(_raise(error) if i else None, "init")

    with pytest.raises(type(error)) as caught:
        AsyncVectorEnv([factory(i) for i in range(3)], num_workers=workers)
    assert "Traceback" in str(caught.value.__cause__)
    assert capfd.readouterr().err == ""


def test_in_the_environment_that_the_parent_builds():
    with pytest.raises(ZeroDivisionError):
        AsyncVectorEnv([lambda: 1 // 0] * 2)


@pytest.mark.parametrize("terminate", [True, False])
def test_at_close(terminate):
    envs = AsyncVectorEnv(
        [lambda i=i: Acts(_raise(KeyError(i)) if i else None, "close") for i in range(3)],
        num_workers=2,
    )
    envs.reset()
    if terminate:
        envs.close(terminate=True)
    else:
        with pytest.raises(KeyError, match="1") as caught:
            envs.close()
        assert "[2]" in str(caught.value.__cause__)
    assert envs.closed
    assert all(process.exitcode is not None for process in envs.processes)
    envs.close()


def test_an_episode_that_ended_before_another_environment_failed_is_reset():
    envs = AsyncVectorEnv([lambda: Scripted(length=1)] * 3, num_workers=2)
    envs.reset()
    envs.set_attr("fail", [set(), set(), {"step"}])
    with pytest.raises(LookupError):
        envs.step(ZEROS)
    envs.set_attr("fail", [set()] * 3)
    observations, rewards, terminations, _, _ = envs.step(ZEROS)
    assert observations.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert rewards.tolist() == [0, 0, 1]
    assert terminations.tolist() == [False, False, True]
    envs.close()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_reset_that_failed_is_tried_again(mode):
    envs = AsyncVectorEnv([lambda: Scripted(length=1)] * 3, num_workers=2, autoreset_mode=mode)
    envs.reset()
    if mode == "NextStep":
        envs.step(ZEROS)
    envs.set_attr("fail", [set(), {"reset"}, set()])
    with pytest.raises(LookupError):
        envs.step(ZEROS)
    envs.set_attr("fail", [set()] * 3)
    envs.step(ZEROS)
    assert [len(actions) for actions in envs.get_attr("actions")] == [2, 1, 2]
    assert [len(resets) for resets in envs.get_attr("resets")] == (
        [2, 2, 2] if mode == "NextStep" else [3, 2, 3]
    )
    envs.close()


# --- what cannot be pickled -------------------------------------------------------------


class Tells(Scripted):
    """Its info and what it says are given."""

    info = None

    def step(self, action):
        return (*super().step(action)[:4], {"value": self.info() if self.info else 1})

    def say(self):
        return self.info()


@pytest.mark.parametrize("value", [threading.Lock, Bomb, lambda: (i for i in ())])
def test_infos_and_results_that_cannot_travel(value):
    envs = AsyncVectorEnv([Tells] * 3, num_workers=1)
    envs.reset()
    envs.set_attr("info", [None, value, None])
    with pytest.raises(RuntimeError, match="environment 1 returned cannot be"):
        envs.step(ZEROS)
    envs.set_attr("info", [value, value, int])
    with pytest.raises(RuntimeError, match="environment 0 returned cannot be"):
        envs.call("say")
    envs.set_attr("info", [None] * 3)
    assert envs.step(ZEROS)[4]["value"].tolist() == [1, 1, 1]
    envs.reset()
    envs.close()


def test_a_description_that_cannot_be_pickled():
    class Locked(Scripted):
        metadata = {"lock": threading.Lock()}

    with pytest.raises(RuntimeError, match="environment 0 returned cannot be pickled"):
        AsyncVectorEnv([Locked] * 2)


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_other_start_methods(context):
    envs = AsyncVectorEnv([Acts] * 3, num_workers=2, context=context)
    envs.reset()
    local = type("Local", (Exception,), {})
    envs.set_attr("at", "step")
    for i, error in enumerate(SAME):
        if isinstance(error, (TwoArguments, KeyboardInterrupt, SystemExit, Slots)):
            envs.set_attr("act", [None, RaiseSame(i), None])
            with pytest.raises(type(error)) as caught:
                envs.step(ZEROS)
            assert caught.value.args == error.args
    envs.set_attr("act", [None, _raise(local), None])
    with pytest.raises(local):
        envs.step(ZEROS)
    envs.set_attr("act", [None, _raise(NotPickled), None])
    with pytest.raises(RuntimeError, match="NotPickled"):
        envs.step(ZEROS)
    envs.set_attr("act", None)
    envs.step(ZEROS)
    envs.close()
