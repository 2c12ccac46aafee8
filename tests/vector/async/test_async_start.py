"""Construction of AsyncVectorEnv: arguments, spaces, start methods, what cannot be pickled."""

import errno
import multiprocessing
import os
import pydoc
import sys
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
from async_envs import Acts, alive, sleep, wait_until
from gymnasium.spaces import Box, Dict, Discrete, Graph, Sequence, Text, Tuple
from lockstep import MODES, CustomSpace, assert_same
from names import name_of
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv
from gymvec.system import limits as cores
from gymvec.vector import async_vector_env
from gymvec.vector.parent import worker_pool as pool

pytestmark = pytest.mark.timeout(60)

THEIRS = gym.vector.AsyncVectorEnv
ZEROS = np.zeros((3, 2), np.float32)


def children():
    return {process.pid for process in multiprocessing.active_children()}


# --- arguments --------------------------------------------------------------------------


def test_arguments_that_are_refused():
    before = children()
    for kwargs, match in (
        ({"worker": lambda: None}, "gymnasium.vector.AsyncVectorEnv"),
        ({"wait": "sometimes"}, "'auto', 'spin', 'block'"),
        ({"num_workers": 0}, "`num_workers` must be a positive"),
        ({"num_workers": 1.5}, "`num_workers` must be an integer"),
        ({"max_concurrency": -1}, "`max_concurrency` must be a positive"),
        ({"autoreset_mode": "never"}, "never"),
        ({"observation_mode": "other"}, "Invalid `observation_mode`"),
        ({"observation_mode": (BOX,)}, "Invalid `observation_mode`"),
        ({"context": "thread"}, "thread"),
        ({"cpu_affinity": []}, "cpu_affinity"),
    ):
        with pytest.raises(ValueError, match=match):
            AsyncVectorEnv([Scripted] * 2, **kwargs)
    with pytest.raises(ValueError, match="at least one"):
        AsyncVectorEnv([])
    with pytest.raises(TypeError, match="Spaces"):
        AsyncVectorEnv([Scripted], observation_mode=(1, 2))
    assert children() == before


@pytest.mark.parametrize(
    ("n", "kwargs", "workers"),
    [
        (3, {"num_workers": 2}, 2),
        (3, {"num_workers": np.int64(3)}, 3),
        (3, {"num_workers": 3, "max_concurrency": 1}, 1),
        (5, {"max_concurrency": 2, "num_workers": 4}, 2),
        (1, {}, 1),
    ],
)
def test_numbers_of_workers(n, kwargs, workers):
    envs = AsyncVectorEnv([Acts] * n, **kwargs)
    assert envs.num_workers == len(envs.processes) == workers
    pids = envs.call("pid")
    assert len(set(pids)) == workers
    assert list(pids) == sorted(pids, key=list(pids).index)
    envs.close()


def test_one_worker_a_usable_core(monkeypatch):
    monkeypatch.setattr(async_vector_env, "usable_cores", lambda: 3)
    envs = AsyncVectorEnv([Acts] * 7)
    assert envs.num_workers == 3
    envs.close()
    assert 1 <= cores.usable_cores() <= (os.cpu_count() or 1)


def test_help_shows_every_method():
    text = pydoc.plain(pydoc.render_doc(AsyncVectorEnv))
    for name, summary in {
        "__init__": "Start the workers, which create the sub-environments.",
        "reset": "Reset the sub-environments, or some of them; see :meth:`reset_async`.",
        "reset_async": "Begin to reset the sub-environments, or some of them.",
        "reset_wait": "Wait for what :meth:`reset_async` began.",
        "step": "Take one step in each sub-environment; see :meth:`step_async` and "
        ":meth:`step_wait`.",
        "step_async": "Begin to step the sub-environments.",
        "step_wait": "Wait for what :meth:`step_async` began.",
        "async_reset": "Begin to reset the sub-environments, or some of them, for :meth:`recv`.",
        "send": "Begin to step some sub-environments, for :meth:`recv`.",
        "recv": "Wait for the ``batch_size`` sub-environments that are ready first.",
        "call": "Call a method of each sub-environment, or get its attribute; see "
        ":meth:`call_async`.",
        "call_async": "Begin to call a method of each sub-environment, or to get its attribute.",
        "call_wait": "Wait for what :meth:`call_async` began.",
        "get_attr": "Get an attribute of each sub-environment, looked up through the wrappers.",
        "set_attr": "Set an attribute of each sub-environment.",
        "render": "The rendered frames of the sub-environments.",
        "close": "Close the sub-environments and end the workers. Always ends; a second call "
        "does nothing.",
    }.items():
        assert f"\n |  {name}(" in text
        assert f"\n |      {summary}\n" in text


@pytest.mark.parametrize("wait", ["auto", "spin", "block"])
@pytest.mark.parametrize("mode", MODES)
def test_ways_of_waiting_and_autoreset_modes(wait, mode):
    envs = AsyncVectorEnv([Acts] * 3, wait=wait, autoreset_mode=mode.value, num_workers=2)
    assert envs.metadata["autoreset_mode"] is mode
    envs.reset()
    for step in range(20):
        assert envs.step(ZEROS)[0].tolist() == [[(step + 1)] * 2] * 3 if step < 9 else True
    envs.close()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux")
def test_cpu_affinity():
    class Where(Acts):
        def cores(self):
            return sorted(os.sched_getaffinity(0))

    mine = sorted(os.sched_getaffinity(0))
    wanted = [mine[-1], mine[0]]
    envs = AsyncVectorEnv([Where] * 3, num_workers=3, cpu_affinity=wanted)
    assert envs.call("cores") == ([mine[-1]], [mine[0]], [mine[-1]])
    envs.close()
    assert sorted(os.sched_getaffinity(0)) == mine
    with pytest.raises(OSError) as caught:
        AsyncVectorEnv([Where] * 3, num_workers=3, cpu_affinity=[100_000])
    assert caught.value.errno == errno.EINVAL


def _slow_in_a_worker(parent):
    def factory():
        if os.getpid() != parent:
            time.sleep(60)
        return Scripted()

    return factory


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_start_timeout(context):
    before = children()
    begun = time.monotonic()
    with pytest.raises(TimeoutError, match="start_timeout=0.3"):
        AsyncVectorEnv(
            [Scripted, _slow_in_a_worker(os.getpid())],
            start_timeout=0.3,
            context=context,
            num_workers=2,
        )
    assert time.monotonic() - begun < 10
    assert children() == before
    AsyncVectorEnv([Scripted] * 2, start_timeout=30).close()


def test_spaces_that_are_given_save_an_environment_in_the_parent():
    parent = os.getpid()

    def factory():
        assert os.getpid() != parent
        return Scripted(action_space=Discrete(3))

    with pytest.raises(AssertionError):
        AsyncVectorEnv([factory])
    with pytest.raises(AssertionError):
        AsyncVectorEnv([factory], observation_space=BOX)
    envs = AsyncVectorEnv([factory] * 3, observation_space=BOX, action_space=Discrete(3))
    envs.reset()
    assert envs.step([0, 1, 2])[1].tolist() == [1, 1, 1]
    envs.close()
    with pytest.raises(RuntimeError, match="action space"):
        AsyncVectorEnv([factory] * 3, observation_space=BOX, action_space=Discrete(4))
    with pytest.raises(RuntimeError, match="not equivalent"):
        AsyncVectorEnv([factory] * 3, observation_space=Discrete(2), action_space=Discrete(3))


def test_start_methods_and_contexts():
    for context in (None, "fork", multiprocessing.get_context("fork"), multiprocessing):
        envs = AsyncVectorEnv([Scripted] * 2, context=context, daemon=context is None)
        assert [process.daemon for process in envs.processes] == [context is None] * len(
            envs.processes
        )
        envs.reset()
        envs.close()


# --- what cannot be pickled -------------------------------------------------------------


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_a_function_that_cannot_be_pickled_is_named(context):
    before = children()
    lock = threading.Lock()
    factories = [Scripted, Scripted, Scripted, lambda: Scripted(error=lock), Scripted]
    with pytest.raises(TypeError, match="environment 3 cannot be pickled.*lock"):
        AsyncVectorEnv(factories, context=context, num_workers=2)
    assert children() == before
    AsyncVectorEnv(factories, context="fork").close()


# --- spaces -----------------------------------------------------------------------------


def factories_of(*spaces, **kwargs):
    return [lambda space=space: Scripted(observation_space=space, **kwargs) for space in spaces]


def test_observation_modes():
    spaces = [Box(0, high, (2,), np.float32) for high in (1, 2)]
    fns = factories_of(*spaces)
    batched = Box(0, 9, (2, 2), np.float32)
    for shared_memory in (True, False):
        for mode in ("different", (batched, spaces[1])):
            ours = AsyncVectorEnv(fns, shared_memory, observation_mode=mode)
            theirs = gym.vector.SyncVectorEnv(fns, observation_mode=mode)
            assert ours.observation_space == theirs.observation_space
            assert ours.single_observation_space == theirs.single_observation_space
            assert_same(ours.reset(), theirs.reset())
            ours.close()


def test_each_environment_is_read_with_its_own_space():
    """Discrete spaces that differ in their start, dtypes that are equal."""
    spaces = [Dict({"a": Discrete(4), "b": Box(0, i, (2,))}) for i in (1, 2, 3)]
    fns = factories_of(*spaces, observe=lambda steps: {"a": 3, "b": np.full(2, steps)})
    ours = AsyncVectorEnv(fns, observation_mode="different", num_workers=2)
    theirs = gym.vector.SyncVectorEnv(fns, observation_mode="different")
    assert ours.observation_space == theirs.observation_space
    assert_same(ours.reset()[0]["a"], theirs.reset()[0]["a"])
    ours.close()


def test_keys_in_another_order():
    """Equal Dict spaces may have their keys in different orders."""
    leaves = {"a": Text(4), "b": BOX, "c": Text(4)}
    spaces = [Dict([(key, leaves[key]) for key in order]) for order in ("abc", "cba", "bca")]
    assert spaces[0] == spaces[1]
    fns = factories_of(*spaces, observe=lambda n: {"a": "a", "b": np.full(2, n), "c": f"c{n}"})
    for mode in ("same", "different"):
        theirs = gym.vector.SyncVectorEnv(fns, observation_mode=mode)
        ours = AsyncVectorEnv(fns, observation_mode=mode, num_workers=2)
        assert_same(ours.reset()[0], theirs.reset()[0])
        actions = np.zeros((3, 2), np.float32)
        assert_same(ours.step(actions)[0], theirs.step(actions)[0])
        ours.close()


HETEROGENEOUS = [
    ([BOX, Box(0, 1, (2,), np.float32)], "same"),
    ([BOX, Box(-10, 10, (3,), np.float32)], "different"),
    ([BOX, Discrete(3)], "different"),
    ([BOX, Dict({"a": BOX})], "same"),
    ([Dict({"a": BOX}), Dict({"b": BOX})], "same"),
    ([Dict({"a": BOX}), Dict({"b": BOX})], "different"),
    ([Tuple([BOX]), Tuple([BOX, BOX])], "different"),
    ([Dict({"a": Tuple([BOX, BOX])}), Dict({"a": Tuple([BOX])})], "different"),
    ([BOX, Box(-10, 10, (2,), np.float64)], (Box(-10, 10, (2, 2), np.float32), BOX)),
]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("spaces", "mode"), HETEROGENEOUS, ids=str)
def test_spaces_that_do_not_go_together(spaces, mode, workers, capfd):
    before = children()
    fns = factories_of(*spaces)
    with pytest.raises((RuntimeError, TypeError, ValueError)) as expected:
        gym.vector.SyncVectorEnv(fns, observation_mode=mode)
    with pytest.raises(expected.type) as caught:
        AsyncVectorEnv(fns, observation_mode=mode, num_workers=workers)
    if expected.type is not RuntimeError:
        assert str(caught.value) == str(expected.value)
    elif mode == "same":
        assert "observation_mode='same'" in str(caught.value)
    else:
        assert "do not share a common shape and dtype" in str(caught.value)
    assert capfd.readouterr().err == ""
    assert children() == before


def test_action_spaces_that_differ(capfd):
    fns = [Scripted, lambda: Scripted(action_space=Discrete(2))]
    with pytest.raises(RuntimeError, match="action space different from"):
        AsyncVectorEnv(fns, num_workers=2)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "space",
    [
        Graph(BOX, None),
        Sequence(BOX),
        Sequence(Discrete(3), stack=True),
        CustomSpace(),
        Dict({"a": Graph(BOX, None), "b": Sequence(BOX)}),
        Tuple([CustomSpace()]),
    ],
    ids=name_of,
)
def test_shared_memory_that_no_part_can_use(space):
    fns = [lambda: Scripted(observation_space=space, observe=lambda steps: space.sample())] * 2
    with pytest.raises((TypeError, ValueError)) as theirs:
        THEIRS(fns)
    with pytest.raises(type(theirs.value)) as ours:
        AsyncVectorEnv(fns)
    assert str(ours.value) == str(theirs.value)
    AsyncVectorEnv(fns, shared_memory=False).close()


@pytest.mark.parametrize(
    "space",
    [Dict({}), Tuple([]), Text(3), Dict({"a": Dict({}), "b": Text(2)}), Box(0, 1, (0,))],
    ids=str,
)
@pytest.mark.parametrize("shared_memory", [True, False])
def test_spaces_with_little_in_them(space, shared_memory):
    space.seed(1)
    value = space.sample()
    fns = factories_of(*[space] * 2, observe=lambda steps: value)
    ours = AsyncVectorEnv(fns, shared_memory, observation_space=space, action_space=BOX)
    theirs = gym.vector.SyncVectorEnv(fns)
    assert_same(ours.reset(), theirs.reset())
    assert_same(ours.step(ZEROS[:2]), theirs.step(ZEROS[:2]))
    ours.close()


# --- nothing is left behind -------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/shm")
def test_no_room_for_the_segment(monkeypatch):
    before = children()

    def full(fd, offset, length):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="no room for .* bytes of shared memory"):
        AsyncVectorEnv([Scripted] * 2)
    assert children() == before


def test_what_was_started_ends_when_a_later_start_fails(monkeypatch):
    started = []
    start = multiprocessing.context.ForkProcess.start

    def starts_twice(self):
        if len(started) == 2:
            raise OSError(errno.EAGAIN, "no more processes")
        start(self)
        started.append(self.pid)

    monkeypatch.setattr(multiprocessing.context.ForkProcess, "start", starts_twice)
    with pytest.raises(OSError, match="no more processes"):
        AsyncVectorEnv([Scripted] * 3, num_workers=3, context="fork")
    assert len(started) == 2
    assert wait_until(lambda: not any(map(alive, started)), 3)


def test_a_failed_start_leaves_an_object_that_can_be_deleted():
    for kwargs in ({"context": "thread"}, {"observation_mode": "same"}):
        with pytest.raises((ValueError, RuntimeError)):
            AsyncVectorEnv(factories_of(BOX, Discrete(2)), **kwargs)
    assert not pool._pools


def test_closing_lets_go_of_sleepers():
    fns = [lambda: Acts(sleep(60), "close")] * 2
    envs = AsyncVectorEnv(fns, num_workers=2, observation_space=BOX, action_space=BOX)
    begun = time.monotonic()
    envs.close(timeout=0.2)
    assert time.monotonic() - begun < 6
    assert not envs.processes[0].is_alive()
