"""Calls within a call: a signal handler, code of the caller's own, a subclass."""

import contextlib
import copy as copying
import functools
import os
import signal
import sys
import threading
import time

import numpy as np
import pytest
from async_envs import Acts, sleep
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError
from gymnasium.spaces import Dict, Discrete, Text
from scripted import Scripted

import gymvec
from gymvec import AsyncVectorEnv, SyncVectorEnv

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore:.*Calling `close` while waiting"),
]

FOLDER = os.path.dirname(gymvec.__file__)
MASK = np.array([False, True, True])
LETTERS = Dict({"n": Discrete(10**6), "text": Text(9)})
INNER = {
    "step": lambda envs: envs.step([0, 1, 2]),
    "step_async": lambda envs: envs.step_async([0, 1, 2]),
    "step_wait": lambda envs: envs.step_wait(),
    "reset": lambda envs: envs.reset(seed=99),
    "reset_async": lambda envs: envs.reset_async(seed=99),
    "reset_wait": lambda envs: envs.reset_wait(),
    "call": lambda envs: envs.call("twice", 99),
    "call_async": lambda envs: envs.call_async("twice", 99),
    "call_wait": lambda envs: envs.call_wait(),
    "get_attr": lambda envs: envs.get_attr("steps"),
    "set_attr": lambda envs: envs.set_attr("steps", 99),
    "render": lambda envs: envs.render(),
    "send": lambda envs: envs.send([0, 1, 2]),
    "recv": lambda envs: envs.recv(),
    "async_reset": lambda envs: envs.async_reset(seed=99),
}
# Those of SyncVectorEnv, where `get_attr` is a `call`.
SYNC_INNER = ("step", "reset", "call", "get_attr", "set_attr", "render")


def counts_of(observations):
    return list(observations["n"] if isinstance(observations, dict) else observations)


def in_two(envs, begin, wait, *arguments):
    getattr(envs, begin)(*arguments)
    return getattr(envs, wait)()


# What is called, and what comes of it where each environment has made one step.
OUTER = {
    "step": (lambda envs: counts_of(envs.step([0, 1, 2])[0]), [2, 2, 2]),
    "step in two": (
        lambda envs: counts_of(in_two(envs, "step_async", "step_wait", [0, 1, 2])[0]), [2, 2, 2],
    ),
    "send and recv": (
        lambda envs: counts_of(in_two(envs, "send", "recv", [0, 1, 2])[0]), [2, 2, 2],
    ),
    "step some": (lambda envs: counts_of(envs.step([0, 1, 2], [2, 1, 0])[0]), [2, 2, 2]),
    "reset": (lambda envs: counts_of(envs.reset(seed=3)[0]), [0, 0, 0]),
    "reset some": (
        lambda envs: counts_of(envs.reset(options={"reset_mask": MASK})[0]), [1, 0, 0],
    ),
    "async_reset": (lambda envs: counts_of(in_two(envs, "async_reset", "recv")[0]), [0, 0, 0]),
    "call": (lambda envs: envs.call("twice", 2), (4, 4, 4)),
    "get_attr": (lambda envs: envs.get_attr("steps"), (1, 1, 1)),
    "set_attr": (lambda envs: envs.set_attr("reward", 2.0), None),
    "render": (lambda envs: envs.render(), ("frame 1",) * 3),
    "seeds": (lambda envs: envs.np_random_seed, (5, 6, 7)),
}  # fmt: skip
SYNC_OUTER = ("step", "reset", "reset some", "call", "get_attr", "set_attr", "render", "seeds")


class Seeded(Scripted):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._np_random_seed = seed
        return super().reset(seed=seed, options=options)


def make(messages=False, kind=AsyncVectorEnv, **arguments):
    observe = (lambda steps: {"n": steps, "text": str(steps)}) if messages else np.int64
    space = LETTERS if messages else Discrete(10**6)
    if issubclass(kind, AsyncVectorEnv):
        arguments["num_workers"] = 2
    envs = kind(
        [lambda: Seeded(space, Discrete(3), length=10**9, observe=observe)] * 3, **arguments
    )
    envs.reset(seed=5)
    envs.step([0, 1, 2])
    return envs


@contextlib.contextmanager
def at_calls(act):
    """Call a function after each call that code of gymvec's makes: there signals are handled."""

    def after(frame, event, arg):
        ours = frame.f_code.co_filename.startswith(FOLDER)
        if event in ("c_return", "return") and ours:
            act()

    sys.setprofile(after)
    try:
        yield
    finally:
        sys.setprofile(None)


def refusal(envs, name):
    """What a call within another one raises; None where it is not refused."""
    try:
        INNER[name](envs)
    except (AlreadyPendingCallError, RuntimeError) as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def assert_refused(texts):
    assert texts
    for name, text in texts:
        assert text is not None and text.startswith(f"Calling `{name}` while"), (name, text)
        assert text.endswith("may call nothing but `close`."), text


BOTH = [(AsyncVectorEnv, outer) for outer in OUTER]
BOTH += [(SyncVectorEnv, outer) for outer in SYNC_OUTER]


def inner_names(envs):
    return SYNC_INNER if isinstance(envs, SyncVectorEnv) else tuple(INNER)


def named_refusal(envs, name):
    """The name that a refusal is to give, and its text."""
    is_call = name == "get_attr" and isinstance(envs, SyncVectorEnv)
    return "call" if is_call else name, refusal(envs, name)


def refusals(envs):
    return [named_refusal(envs, name) for name in inner_names(envs)]


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("messages", [False, True])
@pytest.mark.parametrize(("kind", "outer"), BOTH)
def test_every_call_at_every_moment_of_every_call(kind, outer, messages, copy):
    envs = make(messages, kind, copy=copy)
    call, expected = OUTER[outer]
    texts = []
    names = inner_names(envs)

    def act():
        # Else it is between two calls.
        if envs._user is not None:
            texts.append(named_refusal(envs, names[len(texts) % len(names)]))

    with at_calls(act):
        result = call(envs)
    assert result == expected
    assert_refused(texts)
    envs.set_attr("steps", 7)
    assert counts_of(envs.step([0, 1, 2])[0]) == [8, 8, 8]
    envs.close()


AT_CLOSE = [(AsyncVectorEnv, outer) for outer in ("step in two", "send and recv")]
AT_CLOSE += [
    (kind, outer) for kind in (AsyncVectorEnv, SyncVectorEnv) for outer in ("step", "reset", "call")
]


@pytest.mark.parametrize(("kind", "outer"), AT_CLOSE)
def test_close_at_every_moment_of_a_call(kind, outer):
    """The call returns what it has, or says that this is closed; no process is left."""
    count, over = 0, False
    while not over:
        count += 1
        envs = make(messages=True, kind=kind)
        moments = []

        def act(envs=envs, moments=moments, count=count):
            if envs._user is not None:
                moments.append(1)
                if len(moments) == count:
                    envs.close()

        with at_calls(act):
            try:
                result = OUTER[outer][0](envs)
            except ClosedEnvironmentError:
                pass
            else:
                assert result == OUTER[outer][1]
        over = len(moments) < count
        assert envs.closed or over
        envs.close()
        if kind is SyncVectorEnv:
            assert [env.closed for env in envs.envs] == [1, 1, 1]
        else:
            assert all(process.exitcode is not None for process in envs.processes)
        # Those that come late in a call are much alike.
        count += count // 8
    assert count > 5


needs_signals = pytest.mark.skipif(sys.platform == "win32", reason="signals to a thread")


@contextlib.contextmanager
def at_signal(act, seconds):
    before = signal.signal(signal.SIGALRM, lambda number, frame: act())
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@needs_signals
@pytest.mark.parametrize("outer", ["step", "step in two", "send and recv", "reset", "call"])
def test_a_signal_handler_that_calls(outer):
    envs = AsyncVectorEnv([lambda: Acts(sleep(0.4), "step reset twice")] * 3, num_workers=3)
    envs.reset()
    texts = []

    def act():
        texts.extend((name, refusal(envs, name)) for name in INNER)

    actions = np.zeros((3, 2), np.float32)
    calls = {
        "step": lambda: envs.step(actions)[0].tolist() == [[1, 1]] * 3,
        "step in two": lambda: in_two(envs, "step_async", "step_wait", actions)[1].sum() == 3,
        "send and recv": lambda: in_two(envs, "send", "recv", actions)[1].sum() == 3,
        "reset": lambda: envs.reset()[0].tolist() == [[0, 0]] * 3,
        "call": lambda: envs.call("twice", 2) == (4, 4, 4),
    }
    with at_signal(act, 0.1):
        assert calls[outer]()
    assert [name for name, _ in texts] == list(INNER)
    assert_refused(texts)
    envs.close()


@needs_signals
def test_a_signal_handler_that_closes(tmp_path):
    """The environments are closed as by any other `close`."""
    own = os.getpid()

    def act(env, name):
        if os.getpid() != own:
            time.sleep(0.3)
            if name == "close":
                (tmp_path / f"{os.getpid()}").touch()

    envs = AsyncVectorEnv([lambda: Acts(act, "step close")] * 2, num_workers=2)
    envs.reset()
    with at_signal(envs.close, 0.1), pytest.raises(ClosedEnvironmentError):
        envs.step(np.zeros((2, 2)))
    assert envs.closed
    assert [process.exitcode for process in envs.processes] == [0, 0]
    assert len(list(tmp_path.iterdir())) == 2


# --- subclasses -------------------------------------------------------------------------


class Own(AsyncVectorEnv):
    """Has each method of its own, which calls others before and after that of its base class."""

    seen = ()

    def look(self, name):
        self.seen += (name,)

    def step(self, actions, env_ids=None):
        self.look("step")
        self.get_attr("steps")
        return super().step(actions, env_ids)

    def step_async(self, actions):
        self.look("step_async")
        self.get_attr("steps")
        super().step_async(actions)

    def step_wait(self, timeout=None):
        self.look("step_wait")
        result = super().step_wait(timeout)
        self.get_attr("steps")
        return result

    def reset_async(self, seed=None, options=None):
        self.look("reset_async")
        self.call("twice", 1)
        super().reset_async(seed=seed, options=options)

    def reset_wait(self, timeout=None):
        self.look("reset_wait")
        result = super().reset_wait(timeout)
        self.set_attr("reward", 1.0)
        return result

    def call_async(self, name, *args, **kwargs):
        self.look("call_async")
        return super().call_async(name, *args, **kwargs)

    def call_wait(self, timeout=None):
        self.look("call_wait")
        return super().call_wait(timeout)

    def send(self, actions, env_ids=None):
        self.look("send")
        return super().send(actions, env_ids)

    def recv(self, timeout=None):
        self.look("recv")
        return super().recv(timeout)


@pytest.mark.parametrize("messages", [False, True])
@pytest.mark.parametrize("outer", OUTER)
def test_a_subclass_whose_methods_call_others(outer, messages):
    envs = make(messages, Own)
    envs.seen = ()
    call, expected = OUTER[outer]
    assert call(envs) == expected
    if outer == "step":
        own = [name for name in envs.seen if not name.startswith("call")]
        assert own == ["step", "step_async", "step_wait"]
    elif outer in ("call", "get_attr", "render", "seeds"):
        assert envs.seen == ("call_async", "call_wait")
    assert envs._user is None
    envs.close()


def test_an_override_in_disguise():
    """It has the attributes of what it takes the place of, and is called nevertheless."""

    class Disguised(AsyncVectorEnv):
        @functools.wraps(AsyncVectorEnv.step_async)
        def step_async(self, actions):
            self.begun = True
            AsyncVectorEnv.step_async(self, actions)

    envs = make(kind=Disguised)
    assert envs.begun
    envs.begun = False
    waits = []
    wait = envs.reset_wait
    envs.reset_wait = lambda: waits.append(1) or wait()
    assert counts_of(envs.reset()[0]) == [0, 0, 0]
    assert waits == [1]
    envs.close()


@needs_signals
def test_an_override_is_not_interrupted_within_its_base():
    """A handler may do there what the override may do, but nothing within the base class."""

    class Waits(AsyncVectorEnv):
        def step_wait(self, timeout=None):
            return super().step_wait(timeout)

    envs = Waits([lambda: Acts(sleep(0.4), "step")] * 2, num_workers=2)
    envs.reset()
    texts = []
    with at_signal(lambda: texts.append(("step_wait", refusal(envs, "step_wait"))), 0.1):
        assert envs.step(np.zeros((2, 2)))[0].tolist() == [[1, 1]] * 2
    assert_refused(texts)
    envs.close()


def test_a_rule_for_infos_that_calls():
    texts = []

    class Asks(AsyncVectorEnv):
        def _add_info(self, vector_infos, env_info, env_num):
            texts.extend((name, refusal(self, name)) for name in INNER)
            return super()._add_info(vector_infos, env_info, env_num)

    class Tells(Scripted):
        def step(self, action):
            return (*super().step(action)[:4], {"text": "a"})

    envs = Asks([lambda: Tells(length=9)] * 2, num_workers=2)
    envs.reset()
    assert envs.step(np.zeros((2, 2)))[4]["text"].tolist() == ["a", "a"]
    assert_refused(texts)
    envs.close()


def test_a_subclass_that_calls_while_it_closes():
    class Saves(AsyncVectorEnv):
        def close_extras(self, **kwargs):
            self.saved = self.call("twice", 2)
            super().close_extras(**kwargs)

    envs = make(kind=Saves)
    envs.close()
    assert envs.saved == (4, 4, 4)
    with pytest.raises(ClosedEnvironmentError):
        envs.step([0, 1, 2])


# --- environments of this process -------------------------------------------------------


class Reaches(Seeded):
    """Its methods first call `act`, which may reach the vector environment."""

    act = staticmethod(lambda name: None)

    def reset(self, **kwargs):
        self.act("reset")
        return super().reset(**kwargs)

    def step(self, action):
        self.act("step")
        return super().step(action)

    def render(self):
        self.act("render")
        return super().render()

    def twice(self, value):
        self.act("call")
        return super().twice(value)

    def set_wrapper_attr(self, name, value, **kwargs):
        self.act("set_attr")
        return super().set_wrapper_attr(name, value, **kwargs)

    def close(self):
        self.act("close")
        super().close()


def reaching(kind=SyncVectorEnv):
    envs = kind([lambda: Reaches(Discrete(10**6), Discrete(3), length=10**9, observe=np.int64)] * 3)
    envs.reset(seed=5)
    envs.step([0, 1, 2])
    return envs


IN_THIS_PROCESS = ["step", "reset", "reset some", "call", "set_attr", "render"]


@pytest.mark.parametrize("outer", IN_THIS_PROCESS)
def test_an_environment_that_calls(outer):
    envs = reaching()
    texts = []
    envs.envs[1].act = lambda name: texts.extend(refusals(envs))
    call, expected = OUTER[outer]
    assert call(envs) == expected
    assert_refused(texts)
    envs.envs[1].act = Reaches.act
    envs.set_attr("steps", 7)
    assert counts_of(envs.step([0, 1, 2])[0]) == [8, 8, 8]
    envs.close()


@pytest.mark.parametrize("outer", IN_THIS_PROCESS)
def test_an_environment_whose_call_is_not_caught(outer):
    """The refusal is what the call raises; another call goes on from there."""
    envs = reaching()
    envs.envs[1].act = lambda name: envs.step([0, 1, 2])
    with pytest.raises(RuntimeError, match="^Calling `step` while this thread is in a call"):
        OUTER[outer][0](envs)
    envs.envs[1].act = Reaches.act
    envs.set_attr("steps", 7)
    assert counts_of(envs.step([0, 1, 2])[0]) == [8, 8, 8]
    envs.close()


@pytest.mark.parametrize("outer", IN_THIS_PROCESS)
def test_an_environment_that_closes_all(outer):
    """The others are stepped all the same, and may fail."""
    envs = reaching()
    envs.envs[1].act = lambda name: envs.close()
    call, expected = OUTER[outer]
    assert call(envs) == expected
    assert envs.closed and [env.closed for env in envs.envs] == [1, 1, 1]
    for _, text in refusals(envs):
        assert text.startswith("ClosedEnvironmentError"), text

    def fails(name):
        envs.close()
        if name != "close":
            raise LookupError("gone")

    envs = reaching()
    envs.envs[1].act = fails
    with pytest.raises(ClosedEnvironmentError) as caught:
        call(envs)
    assert type(caught.value.__cause__) is LookupError
    assert envs.closed and [env.closed for env in envs.envs] == [1, 1, 1]


def test_a_close_that_calls():
    envs = reaching()
    texts = []

    def act(name):
        envs.close()
        texts.extend(text for _, text in refusals(envs))

    envs.envs[1].act = act
    envs.close()
    assert len(texts) == len(SYNC_INNER)
    assert all(text.startswith("ClosedEnvironmentError") for text in texts)
    assert envs.closed and [env.closed for env in envs.envs] == [1, 1, 1]


def test_a_subclass_that_calls_while_it_closes_within_a_call():
    class Saves(SyncVectorEnv):
        def close_extras(self, **kwargs):
            self.saved = self.call("twice", 2)
            super().close_extras(**kwargs)

    envs = reaching(Saves)
    envs.envs[1].act = lambda name: envs.close() if name == "step" else None
    assert counts_of(envs.step([0, 1, 2])[0]) == [2, 2, 2]
    assert envs.saved == (4, 4, 4)
    assert [env.closed for env in envs.envs] == [1, 1, 1]


def test_values_that_call():
    """Actions while they are read, and a subclass's rule for infos."""
    texts = []

    class Rows(list):
        def __iter__(self):
            texts.extend(refusals(envs))
            return super().__iter__()

    class Asks(SyncVectorEnv):
        def _add_info(self, vector_infos, env_info, env_num):
            texts.extend(refusals(self))
            return super()._add_info(vector_infos, env_info, env_num)

    envs = reaching(Asks)
    del texts[:]
    assert counts_of(envs.step(Rows([0, 1, 2]))[0]) == [2, 2, 2]
    assert len(texts) == 4 * len(SYNC_INNER)
    assert_refused(texts)
    envs.close()


def test_a_copy_made_within_a_call_is_free():
    envs = reaching()
    copies = []
    envs.envs[0].act = lambda name: copies.append(copying.deepcopy(envs))
    envs.step([0, 1, 2])
    for env in copies[0].envs:
        env.act = Reaches.act
    assert counts_of(copies[0].step([0, 1, 2])[0]) == [2, 2, 2]
    copies[0].close()
    envs.close()


@needs_signals
def test_a_signal_handler_that_calls_while_an_environment_of_this_process_steps():
    envs = reaching()
    envs.envs[1].act = lambda name: time.sleep(0.4)
    texts = []
    with at_signal(lambda: texts.extend(refusals(envs)), 0.1):
        assert counts_of(envs.step([0, 1, 2])[0]) == [2, 2, 2]
    assert_refused(texts)
    envs.envs[1].act = Reaches.act
    envs.close()


def beside(envs, act):
    """What is done by another thread while this one is in a step, and the step's result."""
    found = []

    def in_step(name):
        if name == "step":
            other = threading.Thread(target=lambda: found.extend(act()))
            other.start()
            other.join()

    envs.envs[1].act = in_step
    result = counts_of(envs.step([0, 1, 2])[0])
    envs.envs[1].act = Reaches.act
    return found, result


def test_a_second_thread():
    envs = reaching()
    found, result = beside(envs, lambda: refusals(envs))
    assert result == [2, 2, 2]
    assert len(found) == len(SYNC_INNER)
    for name, text in found:
        assert text == (
            f"Calling `{name}` while another thread is in a call of this vector environment."
        )
    found, result = beside(envs, lambda: [envs.close(), *refusals(envs)])
    assert result == [3, 3, 3]
    assert all(text.startswith("ClosedEnvironmentError") for _, text in found[1:])
    assert [env.closed for env in envs.envs] == [1, 1, 1]


def test_a_second_thread_while_this_one_closes():
    envs = reaching()
    texts = []

    def act(name):
        other = threading.Thread(
            target=lambda: (envs.close(), texts.extend(text for _, text in refusals(envs)))
        )
        other.start()
        other.join()

    envs.envs[1].act = act
    envs.close()
    assert len(texts) == len(SYNC_INNER)
    assert all(text.startswith("ClosedEnvironmentError") for text in texts)
    assert [env.closed for env in envs.envs] == [1, 1, 1]
