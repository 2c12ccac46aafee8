"""When processes, descriptors and mappings go: at once, and without the garbage collector."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import time
import weakref

import numpy as np
import pytest
from async_envs import Acts, alive, die, start_script, wait_until
from gymnasium.spaces import Dict, Graph, Space, Text
from leftovers import SignalAt, leftovers
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv, SyncVectorEnv, WorkerDiedError
from gymvec.vector import async_vector_env

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="/proc"),
]

OWN = os.getpid()
ZEROS = np.zeros((2, 2), np.float32)
# Kinds of vector environments that keep the segment in different places.
KINDS = {
    "plain": {},
    "views": {"copy": False},
    "batches": {"batch_size": 1},
    "restarts": {"on_worker_death": "restart"},
    "pipes": {"shared_memory": False},
}


@pytest.fixture(autouse=True)
def no_collector(monkeypatch):
    # An interrupt in a finalizer cannot be raised, and is only told.
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: None)
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def make(context="fork", **kwargs):
    return AsyncVectorEnv([Scripted] * 2, num_workers=2, context=context, **kwargs)


def warm_up(context="fork", **kwargs):
    """Start the start method's own helpers, which stay."""
    make(context, **kwargs).close()
    return leftovers()


def interrupted(call, count):
    """Whether Ctrl-C at the ``count``-th event ended a call; None if it was over before."""
    signal_at = SignalAt(count)
    made = None
    try:
        sys.setprofile(signal_at)
        made = call()
        # Within the block: this is one more event.
        sys.setprofile(None)
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
        del made
    return None if signal_at.left > 0 else False


# --- constructors -----------------------------------------------------------------------


def events_of(call):
    counter = SignalAt(-1)
    sys.setprofile(counter)
    made = call()
    sys.setprofile(None)
    del made
    return -1 - counter.left


@pytest.mark.parametrize(("context", "times"), [("fork", 120), ("spawn", 12), ("forkserver", 30)])
@pytest.mark.parametrize("kind", ["plain", "restarts"])
def test_a_constructor_that_is_interrupted(context, times, kind):
    before = warm_up(context, **KINDS[kind])
    events = events_of(lambda: make(context, **KINDS[kind]))
    ended = 0
    for count in np.linspace(1, events - 1, times, dtype=int).tolist():
        ended += interrupted(lambda: make(context, **KINDS[kind]), count) is True
        assert leftovers() == before, f"interrupted at {count} of {events}"
    assert ended > times / 2


class Counted:
    """Raises an error at a step of a constructor."""

    def __init__(self, monkeypatch, place, name, error):
        self.reached = 0
        whole = getattr(place, name)

        def fails(*args, **kwargs):
            self.reached += 1
            whole(*args, **kwargs)
            raise error

        monkeypatch.setattr(place, name, fails)


@pytest.mark.parametrize("daemon", [True, False])
@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt, SystemExit, LookupError])
@pytest.mark.parametrize(
    "name",
    ["check_reports", "batch_space", "batched_observation_space", "Observations", "Snapshots",
     "create_empty_array", "bind_action_writer"],
)  # fmt: skip
def test_a_constructor_that_fails_late(name, error, daemon, monkeypatch):
    kwargs = {"daemon": daemon, "on_worker_death": "restart"}
    if name == "create_empty_array":
        kwargs["batch_size"] = 1
    before = warm_up(**kwargs)
    counted = Counted(monkeypatch, async_vector_env, name, error)
    envs = AsyncVectorEnv.__new__(AsyncVectorEnv)
    with pytest.raises(error):
        envs.__init__([Scripted] * 2, num_workers=2, context="fork", **kwargs)
    assert counted.reached == 1
    # Also while what was not made is there.
    assert leftovers() == before
    envs.close()
    assert envs.closed


def test_a_program_ends_whose_constructor_failed(tmp_path):
    program = start_script(
        tmp_path / "program.py",
        """
import gymnasium as gym, numpy as np
from gymnasium.spaces import Box, Space
import gymvec
from gymvec.utils import batch_space

class Mine(Space):
    def __init__(self):
        super().__init__((2,), np.float32)

    def __eq__(self, other):
        return isinstance(other, Mine)

@batch_space.register(Mine)
def _(space, n=1):
    raise LookupError("no batch")

class Env(gym.Env):
    observation_space = Box(-1, 1, (2,), np.float32)
    action_space = Mine()

if __name__ == "__main__":
    try:
        gymvec.AsyncVectorEnv([Env] * 2, num_workers=2, daemon=False)
    except LookupError as error:
        print(error, flush=True)
""",
    )
    assert program.communicate(timeout=30) == ("no batch\n", "")
    assert program.returncode == 0


def test_workers_end_with_their_owner():
    """Where a constructor is interrupted before there is a vector environment to close."""
    before = warm_up()
    envs = make()
    pids = [process.pid for process in envs.processes]
    fork = os.fork()
    if fork == 0:
        # In a fork they are somebody else's.
        envs.__dict__.clear()
        os._exit(0)
    os.waitpid(fork, 0)
    assert all(map(alive, pids))
    envs.__dict__.clear()
    assert not any(map(alive, pids))
    assert leftovers() == before


# --- close ------------------------------------------------------------------------------


def begin(envs, call):
    if call == "step":
        if envs.batch_size < envs.num_envs:
            envs.send(ZEROS[:1])
        else:
            envs.step_async(ZEROS)
    elif call == "call":
        envs.call_async("twice", 1)


@pytest.mark.filterwarnings("ignore:.*pending call")
@pytest.mark.parametrize("call", ["", "step", "call"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_close_that_is_interrupted_and_called_again(kind, call):
    before = warm_up(**KINDS[kind])
    count, over = 1, False
    while not over:
        envs = make(**KINDS[kind])
        envs.reset()
        begin(envs, call)
        over = interrupted(envs.close, count) is None
        envs.close()
        assert envs.closed
        assert leftovers() == before, f"interrupted at {count}"
        count += 11
    assert count > 100


def test_a_close_within_a_close():
    """Of a signal handler: the outer one goes on, and all is gone."""
    before = warm_up()
    made, calls = [], []

    def handler(number, frame):
        calls.append(1)
        made[0].close()

    previous = signal.signal(signal.SIGINT, handler)
    try:
        for count in (5, 50, 100, 150):
            made[:] = [make()]
            assert interrupted(made[0].close, count) is False
            assert made[0].closed
            assert leftovers() == before
    finally:
        signal.signal(signal.SIGINT, previous)
    assert len(calls) == 4


SPACED = [
    Scripted,
    lambda: Scripted(Dict({"b": BOX, "t": Text(9)}), observe=lambda s: {"b": ZEROS[0], "t": "x"}),
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("env_fn", SPACED, ids=["box", "dict"])
def test_close_lets_go_at_once(kind, env_fn):
    """Also while the closed vector environment is there."""
    before = warm_up()
    envs = AsyncVectorEnv([env_fn] * 2, num_workers=2, context="fork", **KINDS[kind])
    envs.reset()
    for _ in range(3):
        envs.step(ZEROS[: envs.batch_size])
    assert leftovers() != before
    envs.close()
    assert leftovers() == before
    assert envs.observations is not None


def test_the_last_views_stay_readable_after_close():
    envs = make(copy=False)
    observations, _ = envs.reset()
    envs.close()
    assert envs.observations.tolist() == observations.tolist() == [[0, 0]] * 2
    assert not np.shares_memory(envs.observations, observations)


def test_close_while_another_thread_waits():
    before = warm_up()
    envs = AsyncVectorEnv([lambda: Acts(lambda env, name: time.sleep(60), "step")] * 2,
                          num_workers=2, context="fork")  # fmt: skip
    envs.reset()
    raised = []

    def step():
        try:
            envs.step(ZEROS)
        except Exception as error:
            raised.append(type(error).__name__)

    thread = threading.Thread(target=step)
    thread.start()
    assert wait_until(lambda: envs._state.value == "step", 5)
    with pytest.warns(UserWarning, match="pending call to `step`"):
        envs.close()
    thread.join(20)
    del thread
    assert raised == ["ClosedEnvironmentError"]
    assert leftovers() == before


# --- errors that were caught ------------------------------------------------------------


def fails(env, name):
    # The environment that shows this process its spaces is to be closed.
    if os.getpid() != OWN:
        raise LookupError(name)


def fails_at(place):
    return lambda: Acts(fails, place)


def of_a_step(envs):
    envs.reset()
    for _ in range(3):
        envs.step(ZEROS[: getattr(envs, "batch_size", 2)])


def of_a_wait(envs):
    envs.reset()
    envs.step_async(ZEROS)
    envs.step_wait()


def of_a_batch(envs):
    envs.reset()
    envs.send(ZEROS)
    envs.recv()


CAUGHT = {
    "reset": (fails_at("reset"), AsyncVectorEnv.reset, LookupError, {}),
    "step": (fails_at("step"), of_a_step, LookupError, {}),
    "step in two": (fails_at("step"), of_a_wait, LookupError, {}),
    "recv": (fails_at("step"), of_a_batch, LookupError, {}),
    "batch": (fails_at("step"), of_a_step, LookupError, {"batch_size": 1}),
    "call": (Scripted, lambda envs: envs.call("nothing"), AttributeError, {}),
    "set_attr": (Scripted, lambda envs: envs.set_attr("x", [1]), ValueError, {}),
    "close": (fails_at("close"), AsyncVectorEnv.close, LookupError, {}),
    "wrong call": (Scripted, AsyncVectorEnv.step_wait, Exception, {}),
    "time-out": (
        lambda: Acts(lambda env, name: time.sleep(60), "reset"),
        lambda envs: (envs.reset_async(), envs.reset_wait(timeout=0.01)),
        TimeoutError,
        {},
    ),
    "death": (lambda: Acts(die(-9), "step"), of_a_step, WorkerDiedError, {}),
    "restart": (
        lambda: Acts(die(-9), "twice"),
        lambda envs: envs.call("twice", 1),
        WorkerDiedError,
        {"on_worker_death": "restart"},
    ),
    "death for good": (
        lambda: Acts(die(3), "reset"),
        AsyncVectorEnv.reset,
        WorkerDiedError,
        {"on_worker_death": "restart"},
    ),
}


@pytest.mark.filterwarnings("ignore:.*It was replaced by")
@pytest.mark.parametrize("name", CAUGHT)
@pytest.mark.parametrize("copy", [True, False])
def test_the_workers_go_with_the_vector_environment(name, copy):
    """Once the error is dropped that was caught, and the vector environment."""
    env_fn, act, expected, kwargs = CAUGHT[name]
    if "on_worker_death" in kwargs:
        AsyncVectorEnv([Scripted], context="forkserver").close()
    before = warm_up()
    envs = AsyncVectorEnv([env_fn] * 2, num_workers=2, context="fork", copy=copy, **kwargs)
    try:
        act(envs)
    except expected:
        pass
    else:
        pytest.fail("no error")
    here = weakref.ref(envs)
    del envs
    assert here() is None
    assert leftovers() == before


class Functions(list):
    """Can be watched."""


class Unshared(Space):
    """A custom space, which cannot lie in shared memory."""


class NoProcess:
    """A context whose processes cannot be started."""

    def __init__(self):
        self._context = multiprocessing.get_context("fork")

    def __getattr__(self, name):
        return getattr(self._context, name)

    def Process(self, **kwargs):  # noqa: N802
        process = self._context.Process(**kwargs)
        process.start = self._fails
        return process

    def _fails(self):
        raise OSError("no room")


SPACES = {"observation_space": BOX, "action_space": BOX}


@pytest.mark.parametrize(
    ("env_fn", "kwargs", "expected"),
    [
        (fails_at("init"), {}, LookupError),
        (lambda: Scripted(Graph(BOX, None)), {}, TypeError),
        (lambda: Scripted(Unshared()), {}, ValueError),
        (threading.Lock().acquire, {"context": "spawn", **SPACES}, TypeError),
        (threading.Lock().acquire, {"on_worker_death": "restart", **SPACES}, TypeError),
        (Scripted, {"context": NoProcess()}, OSError),
    ],
    ids=["build", "no shared memory", "custom", "pickle", "restart", "start"],
)
def test_the_frames_of_a_constructor_go_with_its_error(env_fn, kwargs, expected):
    before = warm_up(**{"context": "spawn"} if "context" in kwargs else {})
    env_fns = Functions([env_fn] * 2)
    there = weakref.ref(env_fns)
    try:
        AsyncVectorEnv(env_fns, **{"context": "fork", **kwargs})
    except expected:
        pass
    else:
        pytest.fail("no error")
    del env_fns
    assert there() is None
    assert leftovers() == before


# --- environments in this process -------------------------------------------------------


class Watched(Scripted):
    """Notes that it was made."""

    made: list = []

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        Watched.made.append(self)


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(Watched, "made", [])
    return Watched.made


def test_a_sync_constructor_that_fails_late(made, monkeypatch):
    def fails(*args):
        raise MemoryError

    monkeypatch.setattr(SyncVectorEnv, "_bind", fails)
    with pytest.raises(MemoryError):
        SyncVectorEnv([Watched] * 3)
    assert [env.closed for env in made] == [1] * 3


def test_a_sync_close_that_is_interrupted_and_called_again(made):
    count, over = 1, False
    while not over:
        made.clear()
        envs = SyncVectorEnv([Watched] * 3)
        over = interrupted(envs.close, count) is None
        envs.close()
        assert envs.closed
        assert all(env.closed for env in made)
        closed = [env.closed for env in made]
        envs.close()
        assert [env.closed for env in made] == closed
        count += 1
    assert closed == [1] * 3
    assert count > 10


def test_ctrl_c_within_the_close_of_a_sub_environment(made):
    """It is not lost, the others are closed, and the next close tries that one again."""
    envs = SyncVectorEnv([Watched] * 3)
    left = [LookupError("first"), KeyboardInterrupt()]

    def close(number):
        closes.append(number)
        if left:
            raise left.pop(0)

    closes = []
    for number, env in enumerate(envs.envs):
        env.close = lambda number=number: close(number)
    with pytest.raises(KeyboardInterrupt):
        envs.close()
    assert closes == [0, 1, 2]
    envs.close()
    assert closes == [0, 1, 2, 1]
    envs.close()
    assert closes == [0, 1, 2, 1]


class Fails(Scripted):
    def step(self, action):
        raise LookupError("step")

    def close(self):
        super().close()
        raise LookupError("close")


@pytest.mark.parametrize("act", [SyncVectorEnv.reset, of_a_step, SyncVectorEnv.close])
def test_sub_environments_go_with_the_vector_environment(act):
    envs = SyncVectorEnv([Fails] * 2)
    there = [weakref.ref(envs), weakref.ref(envs.envs[0])]
    try:
        act(envs)
        envs.close()
    except LookupError:
        pass
    del envs
    assert [reference() for reference in there] == [None, None]


def test_sub_environments_go_with_a_constructor_that_fails():
    there = []

    def build():
        env = Fails()
        there.append(weakref.ref(env))
        return env

    try:
        SyncVectorEnv([build, build, lambda: 1 // 0])
    except ZeroDivisionError:
        pass
    assert [reference() for reference in there] == [None, None]
