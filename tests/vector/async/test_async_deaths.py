"""Workers of AsyncVectorEnv that die, stop or hang, and forks of the parent."""

import multiprocessing
import os
import signal
import sys
import time
import warnings

import numpy as np
import pytest
from async_envs import Acts, alive, die, die_beside_a_child, sleep, wait_until
from scripted import BOX, Scripted

import gymvec
from gymvec import AsyncVectorEnv, WorkerDiedError
from gymvec.vector.parent import supervisor as watch

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform == "win32", reason="signals and forks"),
]

ZEROS = np.zeros((4, 2), np.float32)
# How a worker ends, and what is said of it. A second is the promise; a loaded machine needs more.
ENDS = [
    (die(-signal.SIGKILL), "ended by SIGKILL .*memory", -9),
    (die(-signal.SIGSEGV), "ended by SIGSEGV", -11),
    (die(0), "exited with code 0", 0),
    (die(3), "exited with code 3", 3),
    (die_beside_a_child(20), "ended by SIGKILL", -9),
]
SOON = 3.0


def make(act=None, at="", **kwargs):
    """Four environments of two workers; the act is the third's."""
    own = {"num_workers": 2, **kwargs}
    return AsyncVectorEnv([lambda i=i: Acts(act if i == 2 else None, at) for i in range(4)], **own)


def call(envs, name):
    {
        "reset": envs.reset,
        "step": lambda: envs.step(ZEROS),
        "render": envs.render,
        "twice": lambda: envs.call("twice", 1),
    }[name]()


@pytest.mark.parametrize("at", ["step", "reset", "twice", "render"])
@pytest.mark.parametrize(("act", "match", "exitcode"), ENDS)
def test_a_worker_that_dies(act, match, exitcode, at):
    envs = make()
    envs.reset()
    envs.set_attr("at", at)
    envs.set_attr("act", [None, None, act, None])
    begun = time.monotonic()
    with pytest.raises(WorkerDiedError, match=match) as caught:
        call(envs, at)
    assert time.monotonic() - begun < SOON
    assert caught.value.env_indices == [2, 3]
    assert caught.value.exitcode == exitcode
    # Every later call says the same.
    for name in ("step", "reset", "twice", "render"):
        with pytest.raises(WorkerDiedError, match=match):
            call(envs, name)
    envs.close()
    assert time.monotonic() - begun < 2 * SOON
    assert envs.closed


def test_the_others_are_closed_in_peace(tmp_path):
    def close_or_die(env, name):
        if name == "close":
            (tmp_path / str(os.getpid())).touch()
        else:
            os._exit(1)

    envs = AsyncVectorEnv(
        [lambda i=i: Acts(close_or_die, "close step" if i == 1 else "close") for i in range(3)],
        num_workers=3,
    )
    envs.reset()
    with pytest.raises(WorkerDiedError):
        envs.step(ZEROS[:3])
    envs.close()
    pids = [process.pid for process in envs.processes]
    assert [(tmp_path / str(pid)).exists() for pid in pids] == [True, False, True]
    assert [process.exitcode for process in envs.processes] == [0, 1, 0]


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("act", [die(-9), die_beside_a_child(20)])
def test_a_worker_that_dies_with_every_start_method(context, act):
    envs = make(context=context)
    envs.reset()
    envs.set_attr("act", [None, None, act, None])
    envs.set_attr("at", "step")
    begun = time.monotonic()
    with pytest.raises(WorkerDiedError) as caught:
        envs.step(ZEROS)
    assert time.monotonic() - begun < SOON
    assert caught.value.env_indices == [2, 3]
    assert caught.value.exitcode == -9
    envs.close()


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_at_construction(context):
    begun = time.monotonic()
    with pytest.raises(WorkerDiedError, match=r"\[2, 3\] exited with code 3"):
        make(die(3), "init", context=context)
    assert time.monotonic() - begun < 10


def test_at_close():
    envs = make(die(3), "close")
    envs.reset()
    envs.close()
    assert [process.exitcode for process in envs.processes] == [0, 3]


def test_a_worker_killed_between_calls():
    envs = make()
    envs.reset()
    os.kill(envs.processes[0].pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match=r"\[0, 1\]"):
        envs.step(ZEROS)
    with pytest.raises(WorkerDiedError, match=r"\[0, 1\]"):
        envs.reset_async()
    envs.close()


def test_a_worker_killed_while_another_is_in_a_long_step():
    envs = make(sleep(30), "step")
    envs.reset()
    # However fast the first worker is, it is killed before it has answered.
    envs.set_attr("act", [sleep(30), None, sleep(30), None])
    envs.set_attr("at", "step")
    envs.step_async(ZEROS)
    begun = time.monotonic()
    os.kill(envs.processes[0].pid, signal.SIGKILL)
    with pytest.raises(WorkerDiedError, match=r"\[0, 1\]"):
        envs.step_wait()
    assert time.monotonic() - begun < SOON
    envs.close(timeout=0.1)


@pytest.mark.skipif(sys.platform != "linux", reason="ignoring SIGCHLD")
def test_a_worker_that_somebody_else_reaps():
    envs = make()
    envs.reset()
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        os.kill(envs.processes[1].pid, signal.SIGKILL)
        with pytest.raises(WorkerDiedError, match="exit code"):
            envs.step(ZEROS)
        envs.close()
    finally:
        signal.signal(signal.SIGCHLD, before)


# --- stopped and slow -------------------------------------------------------------------


@pytest.mark.parametrize("pending", [True, False])
def test_a_stopped_worker(pending):
    envs = make()
    envs.reset()
    if not pending:
        os.kill(envs.processes[1].pid, signal.SIGSTOP)
        begun = time.monotonic()
        envs.close(timeout=0.3)
        assert time.monotonic() - begun < 5
        assert [process.exitcode for process in envs.processes] == [0, -9]
        return
    envs.step(ZEROS)
    os.kill(envs.processes[1].pid, signal.SIGSTOP)
    envs.step_async(ZEROS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for wait in (envs.step_wait, envs.reset_wait):
            with pytest.raises(TimeoutError):
                wait(timeout=1.5)
            envs.reset_async()
    messages = [str(warning.message) for warning in caught]
    assert len(messages) == 1
    assert "[2, 3] is stopped" in messages[0]
    os.kill(envs.processes[1].pid, signal.SIGCONT)
    assert envs.reset_wait()[0].tolist() == [[0, 0]] * 4
    assert envs.step(ZEROS)[0].tolist() == [[1, 1]] * 4
    envs.close()


def test_large_messages_to_a_stopped_worker():
    """`step_async` returns, and the wait for the answers writes what was left."""
    envs = make()
    envs.reset()
    os.kill(envs.processes[1].pid, signal.SIGSTOP)
    envs.call_async("twice", 1, plus=np.zeros(10_000_000))
    with pytest.raises(TimeoutError):
        envs.call_wait(timeout=0.1)
    envs.call_async("twice", 2)
    os.kill(envs.processes[1].pid, signal.SIGCONT)
    assert envs.call_wait(timeout=30) == (4,) * 4
    envs.close()


def test_one_warning_of_an_environment_that_does_not_return(monkeypatch):
    monkeypatch.setattr(watch, "_SLOW_SECONDS", 1.0)
    envs = make(sleep(2.5), "step")
    envs.reset()
    with pytest.warns(UserWarning, match=r"\[2, 3\] has not answered for 1 seconds") as caught:
        envs.step(ZEROS)
        envs.step(ZEROS)
    assert len(caught) == 1
    envs.close()


# --- forks of the parent ----------------------------------------------------------------


def _use(envs, pipe):
    said = []
    for call in (lambda: envs.step(ZEROS), envs.reset, lambda: envs.get_attr("steps")):
        try:
            call()
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")
    envs.close()
    pipe.send(said)


@pytest.mark.parametrize("how", ["process", "fork", "fork and exit hooks"])
def test_a_fork_of_the_parent_uses_nothing_and_ends_nothing(how):
    envs = make()
    envs.reset()
    ours, theirs = multiprocessing.Pipe()
    if how == "process":
        child = multiprocessing.get_context("fork").Process(target=_use, args=(envs, theirs))
        child.start()
        child.join(30)
        assert child.exitcode == 0
    else:
        pid = os.fork()
        if pid == 0:
            try:
                _use(envs, theirs)
                del envs
                if how != "fork":
                    import atexit

                    atexit._run_exitfuncs()
            finally:
                os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    assert ours.poll(10)
    said = ours.recv()
    assert len(said) == 3
    assert all("RuntimeError" in line and "a fork of that process" in line for line in said)
    assert envs.step(ZEROS)[0].tolist() == [[1, 1]] * 4
    assert all(process.is_alive() for process in envs.processes)
    envs.close()
    assert [process.exitcode for process in envs.processes] == [0, 0]


def test_an_environment_made_in_a_fork():
    envs = make()
    envs.reset()
    pid = os.fork()
    if pid == 0:
        try:
            own = gymvec.AsyncVectorEnv([Scripted] * 2)
            own.reset()
            good = own.step(ZEROS[:2])[1].tolist() == [1, 1]
            own.close()
        except BaseException:
            good = False
        os._exit(0 if good else 1)
    assert os.waitpid(pid, 0)[1] == 0
    envs.step(ZEROS)
    envs.close()


def test_children_of_an_environment_hold_nothing_up():
    """A worker that ends leaves a process behind which has inherited its pipe."""
    envs = AsyncVectorEnv([lambda: Acts(_leave_a_child, "close")] * 2, num_workers=1)
    envs.reset()
    begun = time.monotonic()
    envs.close()
    assert time.monotonic() - begun < SOON
    assert wait_until(lambda: not alive(envs.processes[0].pid), 1)


def _leave_a_child(env, name):
    if os.fork() == 0:
        time.sleep(20)
        os._exit(0)


# --- children of environments -----------------------------------------------------------


def leave_in_a_fork(end):
    """An act: fork; the child leaves by a function, and is waited for."""

    def act(env, name):
        child = os.fork()
        if child == 0:
            end()
        os.waitpid(child, 0)

    return act


def fail():
    raise LookupError("in a fork")


@pytest.mark.parametrize("context", ["fork", "spawn"])
@pytest.mark.parametrize("end", [sys.exit, fail, lambda: None], ids=["exit", "raise", "return"])
def test_a_fork_of_a_worker_gives_no_answers(context, end):
    """Whatever it does there, the child ends, and the worker goes on."""
    places = "step close" if end is not sys.exit else "init reset step twice close"
    fns = [lambda: Acts(leave_in_a_fork(end), places), Acts]
    kwargs = {"observation_space": BOX, "action_space": BOX}
    envs = AsyncVectorEnv(fns, num_workers=1, context=context, **kwargs)
    pids = envs.call("pid")
    envs.reset()
    for step in range(1, 4):
        assert envs.step(np.zeros((2, 2)))[0].tolist() == [[step, step]] * 2
    assert envs.call("twice", 2) == (4, 4) and envs.call("pid") == pids
    envs.close(timeout=60)  # Each of its forks has to end first.
    assert [process.exitcode for process in envs.processes] == [0]
