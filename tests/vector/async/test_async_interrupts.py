"""Ctrl-C at any moment of a call of AsyncVectorEnv."""

import contextlib
import gc
import os
import random
import signal
import sys
import threading
import time

import numpy as np
import pytest
from gymnasium.error import NoAsyncCallError
from gymnasium.spaces import Dict, Discrete, Text
from scripted import Scripted

import gymvec
from gymvec import AsyncVectorEnv

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform == "win32", reason="signals to a thread"),
]

SECONDS = 2.0


class Interrupts:
    """Interrupts the main thread once after a random time, in the next call that asks for it."""

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

    def one(self, call):
        # No `with` block: an interrupt within what leaves it could not be caught.
        try:
            self.asked.release()
            self.armed = True
            call()
            self.armed = False
        except KeyboardInterrupt:
            pass


@pytest.fixture
def interrupts():
    # What earlier tests left would be collected in the middle of this one, and an interrupt in a
    # finalizer cannot be raised.
    gc.collect()
    gc.disable()
    made = Interrupts()
    before = signal.signal(signal.SIGUSR1, made.handle)
    yield made
    gc.enable()
    made.done = True
    made.asked.release()
    made.thread.join()
    signal.signal(signal.SIGUSR1, before)


class Forgets(list):
    def append(self, item):
        pass


def _tell(steps):
    return {"n": steps, "text": str(steps)}


@pytest.mark.parametrize("messages", [False, True])
@pytest.mark.parametrize("shared_memory", [True, False])
def test_steps_that_are_interrupted(interrupts, messages, shared_memory):
    """No call hangs, no environment falls behind another, no answer is taken for a later one."""
    space = Dict({"n": Discrete(10**6), "text": Text(9)})
    actions = Dict({"a": Discrete(3), "b": Text(2)}) if messages else Discrete(3)
    envs = AsyncVectorEnv(
        [lambda: Scripted(space, actions, length=10**9, observe=_tell)] * 3,
        shared_memory,
        num_workers=2,
    )
    envs.set_attr("actions", [Forgets()] * 3)
    envs.reset()
    batch = {"a": [0, 1, 2], "b": ("a", "b", "c")} if messages else [0, 1, 2]

    def step():
        envs.step_async(batch)
        envs.step_wait()

    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        interrupts.one(step)
        if envs._state.value == "step":
            observations, rewards, *_ = envs.step_wait()
            assert rewards.tolist() == [1, 1, 1]
            assert len(set(observations["n"].tolist())) == 1
            assert set(observations["text"]) == {str(observations["n"][0])}
        interrupts.one(lambda: envs.get_attr("steps"))
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


def test_large_messages_that_are_interrupted(interrupts):
    envs = AsyncVectorEnv([lambda: Scripted()] * 2, num_workers=2)
    envs.reset()
    large = np.arange(300_000)

    def call():
        envs.call_async("twice", large)
        envs.call_wait()

    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        interrupts.one(call)
        if envs._state.value == "call":
            assert [result[-1] for result in envs.call_wait()] == [599_998] * 2
        assert envs.call("twice", 4) == (8, 8)
    envs.close()


def test_resets_and_late_calls_that_are_interrupted(interrupts):
    envs = AsyncVectorEnv([Scripted] * 3, num_workers=2)
    envs.reset()
    mask = np.array([True, False, True])
    seed = 0

    def reset_some():
        envs.reset(seed=seed, options={"reset_mask": mask})

    def step_too_early():
        envs.reset_async(seed=seed + 10)
        try:
            envs.reset_wait(timeout=0)
        except TimeoutError:
            envs.step_async(np.zeros((3, 2)))
            envs.step_wait()

    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        seed += 1
        interrupts.one(reset_some)
        if envs._state.value == "reset":
            envs.reset_wait()
        interrupts.one(step_too_early)
        for name in ("reset", "step"):
            if envs._state.value == name:
                getattr(envs, f"{name}_wait")()
        envs.reset(seed=seed)
        assert [resets[-1][0] for resets in envs.get_attr("resets")] == [seed, seed + 1, seed + 2]
        interrupts.one(lambda: envs.set_attr("resets", [[], [], []]))
        if envs._state.value == "call":
            assert envs.call_wait() == (None, None, None)
        assert envs.step(np.zeros((3, 2)))[0].tolist() == [[1, 1]] * 3
        envs.set_attr("actions", [[], [], []])
    envs.close()


class AfterCall:
    """Interrupts after the ``count``-th call that code of gymvec's makes or answers.

    It is after a call that the interpreter looks at signals.
    """

    FOLDER = os.path.dirname(gymvec.__file__)

    def __init__(self, count):
        self.left = count
        self.where = None

    def __call__(self, frame, event, arg):
        if event not in ("c_return", "return") or not frame.f_code.co_filename.startswith(
            self.FOLDER
        ):
            return
        if event == "return" and frame.f_back.f_code.co_filename == __file__:
            return  # What a call has returned to the test nobody can save.
        self.left -= 1
        if self.left == 0:
            self.where = frame.f_code.co_name
            raise KeyboardInterrupt


def _step(envs):
    return envs.step([0, 1, 2])


def _step_in_two(envs):
    envs.step_async([0, 1, 2])
    return envs.step_wait(timeout=60)


def _send_and_recv(envs):
    envs.send([0, 1, 2])
    return envs.recv()


def _reset(envs):
    envs.reset(options={"reset_mask": np.array([False, True, True])})


def _call(envs):
    envs.call("twice", 2)


_WAITS = {"step": "step_wait", "reset": "reset_wait", "call": "call_wait"}
# By then the call is over for all but who is handed its result.
_HANDING_OVER = (
    "_returned",
    "_finished",
    "_collected_step",
    "step_wait",
    "recv",
    "release",
    "guarded",
    "_within",
)


@pytest.mark.parametrize("call", [_step, _step_in_two, _send_and_recv, _reset, _call])
@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("messages", [False, True])
@pytest.mark.parametrize("on_worker_death", ["raise", "restart"])
def test_an_interrupt_after_every_call_within_a_call(call, copy, messages, on_worker_death):
    """Nothing is lost, and nothing old is taken for new."""
    space = Dict({"n": Discrete(10**6), "text": Text(9)}) if messages else Discrete(10**6)
    envs = AsyncVectorEnv(
        [
            lambda: Scripted(
                space, Discrete(3), length=10**9, observe=_tell if messages else np.int64
            )
        ]
        * 3,
        copy=copy,
        num_workers=2,
        on_worker_death=on_worker_death,
    )

    def check(observations):
        steps = list(envs.get_attr("steps"))
        counts = observations["n"] if messages else observations
        assert counts.tolist() == steps
        if messages:
            assert observations["text"] == tuple(map(str, steps))
        return steps

    before = check(envs.reset()[0])
    count, over = 0, False
    while not over:
        count += 1
        interrupt = AfterCall(count)
        sys.setprofile(interrupt)
        try:
            call(envs)
            over = True
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        if envs._state.value in _WAITS:
            result = getattr(envs, _WAITS[envs._state.value])(timeout=60)
            assert call is _call or check(result[0])
            assert call is not _step or before != list(envs.get_attr("steps"))
        elif envs._batches.any_busy:
            assert check(envs.recv()[0]) != before
        elif not over and interrupt.where not in _HANDING_OVER and call is not _reset:
            assert list(envs.get_attr("steps")) == before
        check(envs.reset(options={"reset_mask": np.array([True, False, False])})[0])
        before = check(_step(envs)[0])
    assert count > 5
    envs.close()


class Twice(AfterCall):
    """Interrupts once more: where the ``second``-th function of gymvec's after that begins.

    With a second of 1 this is within what the first interrupt has to undo, if that calls
    anything; else it is in the call that is made again.
    """

    def __init__(self, count, second):
        super().__init__(count)
        self.second = second
        self.before = sys.gettrace()

    def __call__(self, frame, event, arg):
        try:
            super().__call__(frame, event, arg)
        except KeyboardInterrupt:
            sys.settrace(self.begins)
            raise

    def begins(self, frame, event, arg):
        if frame.f_code.co_filename.startswith(self.FOLDER):
            self.second -= 1
            if self.second == 0:
                sys.settrace(self.before)
                raise KeyboardInterrupt

    def again(self, call):
        """Make a call again and again until it returns; whether the first came at all."""
        while True:
            if self.left > 0:
                sys.setprofile(self)
            try:
                call()
                return self.left <= 0
            except KeyboardInterrupt:
                pass
            except NoAsyncCallError:
                # It was over: the interrupt came while the result was handed over.
                return True
            finally:
                sys.setprofile(None)

    def once(self, call):
        """Make a call that may be interrupted; whether the first came at all."""
        sys.setprofile(self)
        try:
            call()
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
            sys.settrace(self.before)
        return self.left <= 0


def _slow(steps):
    time.sleep(0.001 if steps else 0)
    return np.int64(steps)


def _resets_while_others_are_at_work(envs, seed):
    envs.async_reset()
    envs.async_reset(seed=seed)
    envs.async_reset(seed=seed + 10)
    return envs.recv, [None, seed, seed + 10]


@contextlib.contextmanager
def _stopped(envs):
    """No worker answers within it."""
    for process in envs.processes:
        os.kill(process.pid, signal.SIGSTOP)
    yield
    for process in envs.processes:
        os.kill(process.pid, signal.SIGCONT)


def _reset_of_late_ones(envs, seed):
    with _stopped(envs):
        envs.step_async([0, 1, 2])
        with pytest.raises(TimeoutError):
            envs.step_wait(timeout=0)
    envs.reset_async(seed=seed)
    return envs.reset_wait, [seed]


def _late_reset(envs, seed):
    with _stopped(envs):
        envs.reset_async(seed=seed)
        with pytest.raises(TimeoutError):
            envs.reset_wait(timeout=-1)
    envs.reset_async(seed=seed + 10)
    return envs.reset_wait, [seed, seed + 10]


@pytest.mark.parametrize(
    "begin", [_resets_while_others_are_at_work, _reset_of_late_ones, _late_reset]
)
@pytest.mark.parametrize("on_worker_death", ["raise", "restart"])
@pytest.mark.parametrize("second", [1, 2, 3, 5, 8, 13, 21, 34])
def test_what_is_deferred_is_sent_once(begin, on_worker_death, second):
    """However often the call is interrupted that sends it."""
    envs = AsyncVectorEnv(
        [lambda: Scripted(Discrete(10**6), Discrete(3), length=10**9, observe=_slow)] * 3,
        # So none is warned that steps wait.
        max_concurrency=2,
        on_worker_death=on_worker_death,
    )
    envs.reset()
    count, over = 0, False
    while not over:
        count += 1
        wait, seeds = begin(envs, 100 * count)
        interrupts = Twice(count, second)
        over = not interrupts.again(wait)
        sys.settrace(interrupts.before)
        if envs._batches.any_busy:
            envs.recv()
        for env, resets in enumerate(envs.get_attr("resets")):
            wanted = [seed if seed is None else seed + env for seed in seeds]
            assert [seed for seed, _ in resets[-len(seeds) :]] == wanted, interrupts.where
            assert len(resets) == 1 + count * len(seeds), interrupts.where
        assert envs.step([0, 1, 2])[0].tolist() == [1, 1, 1]
    assert count > 10
    envs.close()


_BEGINS = {
    "step_async": lambda envs: envs.step_async([0, 1, 2]),
    "step_async by message": lambda envs: envs.step_async(iter([0, 1, 2])),
    "send": lambda envs: envs.send([0, 1, 2]),
    "send some": lambda envs: envs.send([0, 1], [2, 0]),
    "reset_async": lambda envs: envs.reset_async(seed=7),
    "async_reset": lambda envs: envs.async_reset(seed=7),
    "call_async": lambda envs: envs.call_async("twice", 2),
}


@pytest.mark.parametrize("begin", _BEGINS)
@pytest.mark.parametrize("on_worker_death", ["raise", "restart"])
@pytest.mark.parametrize("second", [1, 2, 3])
def test_a_call_that_is_interrupted_twice_is_begun_or_not(begin, on_worker_death, second):
    """Nothing is waited for that was not sent, and nothing old is taken for new."""
    envs = AsyncVectorEnv(
        [lambda: Scripted(Discrete(10**6), Discrete(3), length=10**9, observe=np.int64)] * 3,
        num_workers=2,
        on_worker_death=on_worker_death,
    )
    envs.reset()
    count, over = 0, False
    while not over:
        count += 1
        before = envs.step([0, 1, 2])[0].tolist()
        over = not Twice(count, second).once(lambda: _BEGINS[begin](envs))
        assert count == 1 or not over or envs._pool.busy
        if envs._state.value == "step":
            assert envs.step_wait(timeout=30)[0].tolist() == [steps + 1 for steps in before]
        elif envs._state.value == "reset":
            assert envs.reset_wait(timeout=30)[0].tolist() == [0, 0, 0]
        elif envs._state.value == "call":
            assert envs.call_wait(timeout=30) == (4, 4, 4)
        elif begin == "send some" and envs._batches.any_busy:
            envs.send([1], [1])
            assert envs.recv(timeout=30)[0].tolist() == [steps + 1 for steps in before]
        elif envs._batches.any_busy:
            after = [0, 0, 0] if begin == "async_reset" else [steps + 1 for steps in before]
            assert envs.recv(timeout=30)[0].tolist() == after
        else:
            assert list(envs.get_attr("steps")) == before
            assert not over
    assert count > 3
    envs.close()
