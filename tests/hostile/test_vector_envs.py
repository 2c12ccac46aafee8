"""Vector environments and make_vec: never made, made again, wrong arguments, many threads."""

import contextlib
import gc
import threading
import time

import numpy as np
import psutil
import pytest
from gymnasium.error import Error
from gymnasium.spaces import Box, Dict, Discrete
from hypothesis import given
from hypothesis import strategies as st
from scripted import BOX, Scripted

import gymvec
import gymvec.utils as utils
from gymvec import AsyncVectorEnv, SyncVectorEnv

KINDS = [SyncVectorEnv, AsyncVectorEnv]
ZEROS = np.zeros((2, 2), np.float32)


def members(kind):
    return [name for name in dir(kind) if not name.startswith("__")]


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_was_never_made(kind):
    """Errors of Python, and no noise when it goes."""
    arguments = {"step": (ZEROS,), "step_async": (ZEROS,), "send": (ZEROS,), "call": ("a",)}
    for name in members(kind):
        envs = kind.__new__(kind)
        try:
            member = getattr(envs, name)
            if callable(member):
                member(*arguments.get(name, ()))
        except Exception:
            pass
    del envs
    gc.collect()


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_made_again(kind):
    before = len(psutil.Process().children())
    envs = kind([Scripted] * 2)
    observations, _ = envs.reset()
    processes = getattr(envs, "processes", [])
    envs.__init__([lambda: Scripted(length=1)] * 3, autoreset_mode="Disabled")
    assert not any(process.is_alive() for process in processes)
    assert observations.tolist() == [[0, 0]] * 2
    assert envs.reset()[0].shape == (3, 2)
    assert envs.step(np.zeros((3, 2)))[2].tolist() == [True] * 3
    with pytest.raises((IndexError, ValueError)):
        envs.__init__([], observation_mode=3)
    envs.close()
    assert len(psutil.Process().children()) == before


WRONG = [None, 3, -1, 1.5, float("nan"), "x", b"", object(), [], (), {}, [None], np.zeros(()),
         np.zeros((2, 2), object), lambda: None, int]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name",
    ["env_fns", "observation_mode", "autoreset_mode", "num_workers", "wait", "cpu_affinity",
     "start_timeout", "observation_space", "action_space", "batch_size", "context", "worker",
     "max_concurrency"],
)  # fmt: skip
def test_wrong_arguments_of_the_constructor(kind, name, request):
    """An error, or a vector environment that works; nothing is left behind either way."""
    if kind is SyncVectorEnv and name not in ("env_fns", "observation_mode", "autoreset_mode"):
        pytest.skip("an argument of AsyncVectorEnv")
    gc.collect()
    gc.disable()
    request.addfinalizer(gc.enable)
    before = len(psutil.Process().children())
    for wrong in WRONG:
        envs = None
        try:
            envs = kind(**{"env_fns": [Scripted] * 2, name: wrong})
            envs.reset()
        except Exception as error:
            assert str(error)
        finally:
            if envs is not None:
                envs.close()
        del envs
    assert len(psutil.Process().children()) == before


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_arguments_of_every_method(kind):
    envs = kind([Scripted] * 2)
    envs.reset()
    calls = [
        lambda wrong: envs.step(wrong),
        lambda wrong: envs.reset(seed=wrong),
        lambda wrong: envs.reset(options=wrong),
        lambda wrong: envs.reset(options={"reset_mask": wrong}),
        lambda wrong: envs.call(wrong),
        lambda wrong: envs.call("twice", wrong),
        lambda wrong: envs.get_attr(wrong),
        lambda wrong: envs.set_attr(wrong, 1),
        lambda wrong: envs.set_attr("reward", wrong),
    ]
    if kind is AsyncVectorEnv:
        calls += [
            lambda wrong: envs.send(wrong),
            lambda wrong: envs.send(ZEROS, wrong),
            lambda wrong: envs.async_reset(wrong),
            lambda wrong: envs.recv(wrong),
            lambda wrong: envs.step_wait(wrong),
            lambda wrong: envs.step(ZEROS, wrong),
        ]
    for call in calls:
        for wrong in WRONG:
            try:
                call(wrong)
            except Exception:
                pass
            if kind is AsyncVectorEnv and envs._batches.any_busy:
                envs.recv(10)
            # Whatever it was, it goes on.
            envs.set_attr("reward", 1.0)
            envs.reset()
            assert envs.step(ZEROS)[0].tolist() == [[1, 1]] * 2
    envs.close()


@pytest.mark.parametrize(
    "wrong",
    [None, 3, b"CartPole-v1", "", "CartPole-v99", "NoSuch-v0", "no.module:A-v0",
     "a/b/c-v0", "\0-v0", "é-v1", "CartPole-v1 ", [], object()],
)  # fmt: skip
@pytest.mark.parametrize("mode", [None, "sync", "async", "vector_entry_point"])
def test_ids_that_are_wrong(wrong, mode):
    with pytest.raises((Error, ModuleNotFoundError, TypeError, ValueError)) as caught:
        gymvec.make_vec(wrong, num_envs=2, vectorization_mode=mode)
    assert str(caught.value)


@pytest.mark.filterwarnings("ignore")
def test_other_wrong_arguments_of_make_vec():
    for wrong in WRONG:
        for name in ("num_envs", "vectorization_mode", "vector_kwargs", "wrappers", "no_such"):
            try:
                envs = gymvec.make_vec("CartPole-v1", **{"vectorization_mode": "sync", name: wrong})
            except Exception as error:
                assert str(error)
            else:
                envs.close()


def test_install_with_anything():
    for wrong in WRONG:
        try:
            with gymvec.installation(wrong):
                assert gymvec.installed()
        except Exception as error:
            assert str(error)
        assert not gymvec.installed()


# --- threads ----------------------------------------------------------------------------


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kind", KINDS)
def test_threads_that_do_what_they_like(kind):
    """Not supported, but an error and not a crash or a hang; and `close` ends."""
    envs = kind(
        [lambda: Scripted(length=5)] * 4, **({"num_workers": 2} if kind is AsyncVectorEnv else {})
    )
    envs.reset()
    stop = threading.Event()
    calls = [
        lambda: envs.step(np.zeros((4, 2), np.float32)),
        envs.reset,
        lambda: envs.call("twice", 1),
        lambda: envs.set_attr("reward", 2.0),
    ]

    def use(call):
        while not stop.is_set():
            try:
                call()
            except Exception:
                time.sleep(0.001)

    threads = [threading.Thread(target=use, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    stop.set()
    for thread in threads:
        thread.join(30)
    alive = [thread.is_alive() for thread in threads]
    try:
        envs.close(**({"timeout": 2} if kind is AsyncVectorEnv else {}))
    except Exception:
        pass
    assert not any(alive)
    if kind is AsyncVectorEnv:
        assert all(process.exitcode is not None for process in envs.processes)


@pytest.mark.parametrize("terminate", [True, False])
def test_close_with_a_call_pending_where_warnings_are_errors(terminate):
    envs = AsyncVectorEnv([Scripted] * 2)
    envs.reset_async()
    with pytest.raises(UserWarning, match="pending"):
        envs.close(terminate=terminate)
    assert all(process.exitcode is not None for process in envs.processes)
    assert envs.closed


@pytest.mark.timeout(60)
def test_close_from_another_thread():
    class Long(Scripted):
        def step(self, action):
            time.sleep(30)

    envs = AsyncVectorEnv([Long] * 2, num_workers=2)
    envs.reset()
    raised = []

    def step():
        try:
            envs.step(ZEROS)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=step)
    thread.start()
    time.sleep(0.3)
    with pytest.warns(UserWarning, match="pending"), contextlib.suppress(RuntimeError):
        envs.close(timeout=0.1)
    thread.join(20)
    assert not thread.is_alive()
    assert len(raised) == 1
    assert all(process.exitcode is not None for process in envs.processes)


# --- utils ------------------------------------------------------------------------------

SPACES = [BOX, Discrete(3), Dict({"a": BOX, "b": Discrete(2)}), Box(0, 1, (), np.float64)]
ANYTHING = st.sampled_from([*WRONG, *SPACES, np.zeros((2, 2)), ZEROS, [ZEROS], {"a": 1, "b": 2}])


@given(st.sampled_from(utils.__all__[:8]), st.lists(ANYTHING, min_size=0, max_size=4), st.data())
def test_anything_in_place_of_the_arguments_of_utils(name, arguments, data):
    """An error, or what Gymnasium would do; hostile values are in test_fuzz.py."""
    if data.draw(st.booleans()) and arguments:
        arguments[0] = data.draw(st.sampled_from(SPACES))
    # Sizes that are errors for want of memory say nothing here.
    try:
        result = getattr(utils, name)(*arguments)
        if name == "iterate":
            list(result)
    except Exception as error:
        assert not isinstance(error, (SystemError, UnboundLocalError, NameError)), error
