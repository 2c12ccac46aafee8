"""Ctrl-C at any moment of a call of AsyncVectorEnv."""

import random
import signal
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from gymnasium.spaces import Dict, Discrete, Text
from scripted import Scripted

from gymvec import AsyncVectorEnv

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform == "win32", reason="signals to a thread"),
]

SECONDS = 2.0


class Interrupts:
    """Interrupts the main thread once after a random time, in the next block that asks for it."""

    def __init__(self):
        self.armed = False
        self.done = False
        self.count = 0
        self.main = threading.get_ident()
        self.asked = threading.Semaphore(0)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        rng = random.Random(1)
        while True:
            self.asked.acquire()
            if self.done:
                return
            time.sleep(rng.random() ** 3 * 0.002)
            signal.pthread_kill(self.main, signal.SIGUSR1)

    def handle(self, number, frame):
        if self.armed:
            self.armed = False
            self.count += 1
            raise KeyboardInterrupt

    @contextmanager
    def one(self):
        try:
            self.asked.release()
            self.armed = True
            yield
            self.armed = False
        except KeyboardInterrupt:
            pass


@pytest.fixture
def interrupts():
    made = Interrupts()
    before = signal.signal(signal.SIGUSR1, made.handle)
    yield made
    made.done = True
    made.asked.release()
    made.thread.join()
    signal.signal(signal.SIGUSR1, before)


class Forgets(list):
    def append(self, item):
        pass


def _tell(steps):
    return {"n": steps, "text": str(steps)}


@pytest.mark.parametrize("letters", [False, True])
@pytest.mark.parametrize("shared_memory", [True, False])
def test_steps_that_are_interrupted(interrupts, letters, shared_memory):
    """No call hangs, no environment falls behind another, no answer is taken for a later one."""
    space = Dict({"n": Discrete(10**6), "text": Text(9)})
    actions = Dict({"a": Discrete(3), "b": Text(2)}) if letters else Discrete(3)
    envs = AsyncVectorEnv(
        [lambda: Scripted(space, actions, length=10**9, observe=_tell)] * 3,
        shared_memory,
        num_workers=2,
    )
    envs.set_attr("actions", [Forgets()] * 3)
    envs.reset()
    batch = {"a": [0, 1, 2], "b": ("a", "b", "c")} if letters else [0, 1, 2]
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with interrupts.one():
            envs.step_async(batch)
            envs.step_wait()
        if envs._state.value == "step":
            observations, rewards, *_ = envs.step_wait()
            assert rewards.tolist() == [1, 1, 1]
            assert len(set(observations["n"].tolist())) == 1
            assert set(observations["text"]) == {str(observations["n"][0])}
        with interrupts.one():
            envs.get_attr("steps")
        if envs._state.value == "call":
            envs.call_wait()
        steps = envs.get_attr("steps")
        assert len(set(steps)) == 1
        observations, *_ = envs.step(batch)
        assert observations["n"].tolist() == [steps[0] + 1] * 3
        assert observations["text"] == (str(steps[0] + 1),) * 3
    assert interrupts.count > 10
    envs.close()
    assert [process.exitcode for process in envs.processes] == [0, 0]


def test_large_letters_that_are_interrupted(interrupts):
    envs = AsyncVectorEnv([lambda: Scripted()] * 2, num_workers=2)
    envs.reset()
    large = np.arange(300_000)
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        with interrupts.one():
            envs.call_async("twice", large)
            envs.call_wait()
        if envs._state.value == "call":
            assert [result[-1] for result in envs.call_wait()] == [599_998] * 2
        assert envs.call("twice", 4) == (8, 8)
    envs.close()


def test_resets_and_late_calls_that_are_interrupted(interrupts):
    envs = AsyncVectorEnv([Scripted] * 3, num_workers=2)
    envs.reset()
    mask = np.array([True, False, True])
    seed = 0
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        seed += 1
        with interrupts.one():
            envs.reset(seed=seed, options={"reset_mask": mask})
        if envs._state.value == "reset":
            envs.reset_wait()
        with interrupts.one():
            envs.reset_async(seed=seed + 10)
            try:
                envs.reset_wait(timeout=0)
            except TimeoutError:
                envs.step_async(np.zeros((3, 2)))
                envs.step_wait()
        for name in ("reset", "step"):
            if envs._state.value == name:
                getattr(envs, f"{name}_wait")()
        envs.reset(seed=seed)
        assert [resets[-1][0] for resets in envs.get_attr("resets")] == [seed, seed + 1, seed + 2]
        with interrupts.one():
            envs.set_attr("resets", [[], [], []])
        if envs._state.value == "call":
            assert envs.call_wait() == (None, None, None)
        assert envs.step(np.zeros((3, 2)))[0].tolist() == [[1, 1]] * 3
        envs.set_attr("actions", [[], [], []])
    envs.close()
