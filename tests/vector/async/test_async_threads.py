"""Threads that use one vector environment at the same time: one call is made, others are refused."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from functools import partial

import numpy as np
import pytest
from async_envs import Acts, alive, read_line, sleep, start_script, wait_until
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError

from gymvec import AsyncVectorEnv

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform == "win32", reason="processes that are looked at by number"),
]

ACTIONS = np.zeros((2, 2), np.float32)
FORK = multiprocessing.get_context("fork") if hasattr(os, "fork") else None


class Beside:
    """Calls a function in a thread, which is in the middle of it once this is made."""

    def __init__(self, envs, function, *args):
        self.outcome = None
        self.thread = threading.Thread(target=self.run, args=(function, *args))
        self.thread.start()
        assert wait_until(lambda: envs._user == self.thread.ident or envs._closing, 5)

    def run(self, function, *args):
        try:
            self.outcome = function(*args)
        except Exception as error:
            self.outcome = error

    def end(self):
        self.thread.join(30)
        assert not self.thread.is_alive()
        return self.outcome


@pytest.fixture
def gate():
    """What an environment of :func:`held` waits for."""
    return FORK.Event()


def held(gate, at):
    return lambda: Acts(lambda env, name: gate.wait(30), at)


def test_who_comes_second_is_refused(gate):
    fns = [held(gate, "step")] * 3
    envs = AsyncVectorEnv(fns, batch_size=2, context="fork")
    envs.async_reset()
    envs.send(ACTIONS, envs.recv()[4]["env_id"])
    other = Beside(envs, envs.recv)
    for refused in (
        lambda: envs.send(ACTIONS[:1], [0]),
        envs.recv,
        envs.async_reset,
        lambda: envs.step(ACTIONS),
        lambda: envs.call("pid"),
        lambda: envs.set_attr("steps", 5),
        envs.call_wait,
    ):
        with pytest.raises(RuntimeError, match="another thread is in a call"):
            refused()
    gate.set()
    assert other.end()[0].shape == (2, 2)
    envs.send(ACTIONS)
    assert envs.recv()[0].shape == (2, 2)
    envs.close()


def test_what_is_pending_is_named(gate):
    envs = AsyncVectorEnv([held(gate, "step")] * 2, context="fork")
    envs.reset()
    other = Beside(envs, envs.step, ACTIONS)
    assert wait_until(lambda: envs._state.value == "step", 5)
    for refused in (envs.reset, envs.step_wait, lambda: envs.call("pid")):
        with pytest.raises(AlreadyPendingCallError, match="pending call to `step`"):
            refused()
    gate.set()
    assert other.end()[0].tolist() == [[1, 1]] * 2
    envs.close()


@pytest.mark.parametrize("copy", [True, False])
def test_closed_while_another_thread_waits(copy):
    envs = AsyncVectorEnv([lambda: Acts(sleep(60), "step")] * 2, copy=copy, context="fork")
    envs.reset()
    other = Beside(envs, envs.step, ACTIONS)
    assert wait_until(lambda: envs._state.value == "step", 5)
    with pytest.warns(UserWarning, match="pending call to `step`"):
        envs.close()
    assert isinstance(other.end(), ClosedEnvironmentError)
    assert not any(process.is_alive() for process in envs.processes)


def test_closed_by_two_threads(gate, tmp_path):
    """The second does not cut short what the first gives the environments time for."""

    own = os.getpid()

    def late(env, name):
        # Also the environment that shows this process its spaces is closed.
        if os.getpid() != own:
            gate.wait(30)
            (tmp_path / "closed").touch()

    envs = AsyncVectorEnv([lambda: Acts(late, "close")] * 2, num_workers=2, context="fork")
    envs.reset()
    other = Beside(envs, partial(envs.close, timeout=30))
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.step(ACTIONS)
    gate.set()
    assert other.end() is None
    assert (tmp_path / "closed").exists() and envs.closed


def test_exit_while_a_thread_waits_for_one_of_two(tmp_path):
    program = start_script(
        tmp_path / "program.py",
        """
import threading, time
import gymvec
from async_envs import Acts

if __name__ == "__main__":
    made = [gymvec.AsyncVectorEnv([Acts] * 2, daemon=False) for _ in range(4)]
    print(*[process.pid for envs in made for process in envs.processes], flush=True)
    for envs in made[:3]:
        envs.call_async("nap", 60)
        threading.Thread(target=envs.call_wait, daemon=True).start()
    time.sleep(0.3)
""",
    )
    pids = [int(pid) for pid in read_line(program).split()]
    program.communicate(timeout=20)
    assert wait_until(lambda: not any(map(alive, pids)), 3)


@pytest.mark.parametrize(
    "call",
    [
        "envs.step(actions)",
        "envs.step_async(actions); envs.step_wait()",
        "envs.send(actions); envs.recv()",
        "envs.call('twice', 1)",
        "envs.call('nap', 60)",
        "envs.reset()",
    ],
)
def test_exit_while_a_thread_calls_and_calls(tmp_path, call):
    """It is told that all is closed, and nothing is logged; whether it is in a call or not."""
    programs = [
        start_script(
            tmp_path / f"program{i}.py",
            f"""
import atexit, threading, time

def end():
    # After what gymvec does at exit, which is registered later.
    thread.join(10)
    print(thread.is_alive(), outcome, flush=True)

atexit.register(end)
import numpy as np
import gymvec
from async_envs import Acts

outcome = []

def use():
    try:
        while True:
            {call}
    except BaseException as error:
        outcome.append(type(error).__name__)

if __name__ == "__main__":
    envs = gymvec.AsyncVectorEnv([Acts] * 3, num_workers=2)
    envs.reset()
    actions = np.zeros((3, 2), np.float32)
    thread = threading.Thread(target=use, daemon=True)
    thread.start()
    time.sleep(0.1 + {i} / 1000)
""",
        )
        for i in range(3)
    ]
    for program in programs:
        output, errors = program.communicate(timeout=40)
        assert output == "False ['ClosedEnvironmentError']\n"
        assert errors == ""
        assert program.returncode == 0
