"""Sending to and receiving from some environments: errors, deaths, time-outs, who may be sent to."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode

import gymvec

pytestmark = pytest.mark.not_sanitized

LONG = 30.0


class Timed(gym.Env):
    """Does what the action says: sleeps as long (up to 90 s), raises (-1) or ends its process (-2).

    The observation is its number, and how many steps it has made since the last reset.
    """

    observation_space = Box(0, np.inf, (2,), np.float64)
    action_space = Box(-np.inf, 90, (), np.float64)

    def __init__(self, number, length=1000):
        self.number = number
        self.length = length
        self.steps = 0
        self.mood = "fine"

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        for _ in range((options or {}).get("fail", 0)):
            raise LookupError(f"reset of {self.number}")
        return np.array([self.number, 0.0]), {"seed": repr(seed)}

    def nap(self, seconds):
        time.sleep(seconds)

    def bad(self):
        raise LookupError("bad")

    def step(self, action):
        if action == -1:
            raise LookupError(f"step of {self.number}")
        if action == -2:
            os._exit(7)
        time.sleep(max(0.0, float(action)))
        self.steps += 1
        observation = np.array([self.number, self.steps], float)
        return observation, self.number, self.steps >= self.length, False, {"steps": self.steps}


def timed(count=4, batch_size=2, length=1000, **arguments):
    fns = [lambda i=i: Timed(i, length) for i in range(count)]
    return gymvec.AsyncVectorEnv(
        fns, batch_size=batch_size, **{"num_workers": count, "context": "fork", **arguments}
    )


@pytest.fixture
def envs():
    made = timed()
    yield made
    made.close(terminate=True)


def ids_of(batch):
    assert batch[0][:, 0].tolist() == batch[4]["env_id"].tolist()
    return batch[4]["env_id"].tolist()


def everyone(envs):
    """Receive until nobody is at work."""
    batches = [envs.recv(LONG) for _ in range(envs.num_envs // envs.batch_size)]
    return sorted(sum(map(ids_of, batches), []))


def test_the_slow_are_not_waited_for(envs):
    envs.async_reset()
    assert everyone(envs) == [0, 1, 2, 3]
    envs.send([60.0, 60.0, 0.0, 0.0], [0, 2, 1, 3])
    for step in range(1, 20):
        batch = envs.recv(LONG)
        assert ids_of(batch) == [1, 3] and batch[0][:, 1].tolist() == [step, step]
        assert batch[1].tolist() == [1.0, 3.0]
        assert batch[4]["steps"].tolist() == [step, step]
        envs.send([0.0, 0.0])
    start = time.monotonic()
    envs.close(timeout=0.2)
    assert time.monotonic() - start < 10


def test_a_slow_environment_does_not_hold_its_neighbours_messages():
    envs = timed(2, 1, num_workers=1)
    envs.async_reset(seed=5)
    for env in range(2):
        batch = envs.recv(LONG)
        assert ids_of(batch) == [env] and batch[4]["seed"].tolist() == [repr(5 + env)]
    # In one pass of the worker.
    envs.send([-1.0, 3.0], [0, 1])
    start = time.monotonic()
    with pytest.raises(LookupError, match="step of 0"):
        envs.recv(LONG)
    assert time.monotonic() - start < 2
    envs.close(terminate=True)


@pytest.mark.parametrize("num_workers", [1, 2, 3, 12])
@pytest.mark.parametrize("batch_size", [1, 3, 5])
def test_nobody_starves(num_workers, batch_size):
    """Who is always ready, as everyone is here, gets at least half as many steps as on average."""
    envs = timed(12, batch_size, num_workers=num_workers)
    steps = np.zeros(12, int)
    doorbell = envs._pool.doorbell
    envs.async_reset()
    for _ in range(360 // batch_size):
        assert doorbell.wait(doorbell.num_pending, LONG) == 12
        ids = envs.recv(LONG)[4]["env_id"]
        steps[ids] += 1
        envs.send(np.zeros(batch_size), ids)
    envs.close()
    assert steps.min() >= 15, steps


@pytest.mark.parametrize(
    ("ids", "error", "text"),
    [
        ([0, 4], ValueError, "from 0 to 3, got \\[4\\]"),
        ([0, -1], ValueError, "got \\[-1\\]"),
        (np.array([2**63], np.uint64), ValueError, "got \\[9223372036854775808\\]"),
        ([0, 0], ValueError, "twice: \\[0\\]"),
        ([0, 2], ValueError, "environments \\[2\\] were sent to"),
        ([], ValueError, "at least one"),
        ([[0, 1]], ValueError, "one dimension"),
        ([0.0, 1.0], TypeError, "integers"),
        ([True, False], TypeError, "integers"),
        (["0", "1"], TypeError, "integers"),
    ],
)
def test_wrong_env_ids_send_nothing(envs, ids, error, text):
    envs.async_reset()
    everyone(envs)
    envs.send([0.0], [2])
    for call in (envs.send, envs.step):
        with pytest.raises(error, match=text):
            call(np.zeros(2), ids)
    envs.send([0.0, 0.0, 0.0], [0, 1, 3])
    assert [envs.recv(LONG)[0][:, 1].tolist() for _ in range(2)] == [[1, 1], [1, 1]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", ">i4", "uint64", "int64"])
def test_env_ids_of_any_integer_type(envs, dtype):
    envs.async_reset()
    everyone(envs)
    envs.send(np.zeros(4), np.array([3, 1, 0, 2], dtype))
    assert everyone(envs) == [0, 1, 2, 3]
    envs.send((0.0, 0.0), (np.int16(3), np.uint8(1)))
    envs.send(np.zeros(2), range(0, 3, 2))
    assert everyone(envs) == [0, 1, 2, 3]


@pytest.mark.parametrize("actions", [np.zeros(1), np.zeros(3), [0.0], [0.0, 0.0, 0.0], []])
def test_wrong_numbers_of_actions_send_nothing(envs, actions):
    envs.async_reset()
    everyone(envs)
    with pytest.raises(ValueError, match="expected 2 actions"):
        envs.send(actions, [0, 1])
    envs.send([0.0, 0.0], [0, 1])
    assert envs.recv(LONG)[0][:, 1].tolist() == [1, 1]


def test_too_few_at_work(envs):
    with pytest.raises(NoAsyncCallError, match="waits for 2 environments, when 0"):
        envs.recv()
    envs.async_reset()
    everyone(envs)
    with pytest.raises(ValueError, match="2 are at work, got 1"):
        envs.step([0.0], [3])
    envs.send([0.0], [3])
    with pytest.raises(NoAsyncCallError, match="when 1 were sent to"):
        envs.recv()
    batch = envs.step([0.0], [1])
    assert ids_of(batch) == [1, 3] and batch[0][:, 1].tolist() == [1, 1]


def test_an_error_costs_nobody_else_a_step():
    envs = timed(num_workers=1)  # so that they answer in order
    envs.async_reset()
    everyone(envs)
    envs.send([0.0, -1.0, 0.0, 0.0], [0, 1, 2, 3])
    with pytest.raises(LookupError, match="step of 1") as caught:
        envs.recv(LONG)
    assert caught.value.__cause__.env_ids == [1]
    assert "in step" in str(caught.value.__cause__)
    assert ids_of(envs.recv(LONG)) == [0, 2]
    # It goes on, after a reset or without one.
    envs.async_reset(options={"reset_mask": np.array([False, True, False, False])})
    batch = envs.recv(LONG)
    assert ids_of(batch) == [1, 3] and batch[0][:, 1].tolist() == [0, 1]
    # The worker may still be on its way from 1 to 3, and would take the commands of 2 and 3 first.
    envs.call("nap", 0.0)
    envs.send([-1.0, -1.0, 0.0, 0.0], [0, 1, 2, 3])
    with pytest.raises(LookupError, match="step of 0") as caught:
        envs.recv(LONG)
    assert caught.value.__cause__.env_ids == [0, 1]
    assert "Environments [1] failed in the same call" in str(caught.value.__cause__)
    envs.send([0.0, 0.0], [1, 0])
    assert everyone(envs) == [0, 1, 2, 3]
    envs.close()


def test_a_reset_that_fails(envs):
    envs.async_reset(options={"fail": 1})
    failed = []
    for _ in range(2):
        with pytest.raises(LookupError, match="reset of") as caught:
            envs.recv(LONG)
        failed += caught.value.__cause__.env_ids
    assert sorted(failed) == [0, 1, 2, 3]
    envs.async_reset()
    assert everyone(envs) == [0, 1, 2, 3]


def test_time_out_loses_nothing(envs):
    envs.async_reset()
    everyone(envs)
    envs.send([0.0, 0.6], [0, 1])
    for kind in (TimeoutError, multiprocessing.TimeoutError):
        with pytest.raises(kind, match="`recv` has timed out after 0.05"):
            envs.recv(timeout=0.05)
    with pytest.raises(ValueError, match="environments \\[0\\] were sent to"):
        envs.send([0.0], [0])
    batch = envs.recv(LONG)
    assert ids_of(batch) == [0, 1] and batch[0][:, 1].tolist() == [1, 1]


def test_async_reset_drops_what_is_under_way(envs):
    envs.async_reset()
    everyone(envs)
    envs.send([0.0, 0.3, 0.3, 0.0], [0, 1, 2, 3])
    envs.recv(LONG)
    envs.async_reset(seed=9)
    with pytest.raises(ValueError, match="were sent to"):
        envs.send([0.0, 0.0])
    with pytest.raises(TimeoutError):
        envs.recv(timeout=0.01)
    batches = [envs.recv(LONG) for _ in range(2)]
    assert all(batch[0][:, 1].tolist() == [0, 0] for batch in batches)
    seeds = {
        env: seed
        for batch in batches
        for env, seed in zip(ids_of(batch), batch[4]["seed"].tolist(), strict=True)
    }
    assert seeds == {env: repr(9 + env) for env in range(4)}


def test_masks(envs):
    mask = np.array([True, False, False, True])
    envs.async_reset(options={"reset_mask": mask})
    assert ids_of(envs.recv(LONG)) == [0, 3]
    envs.send([0.3], [0])
    with pytest.raises(ValueError, match="environments \\[0\\] were sent to"):
        envs.async_reset(options={"reset_mask": mask})
    envs.async_reset(options={"reset_mask": ~mask})
    assert ids_of(envs.recv(LONG)) == [1, 2]
    with pytest.raises(ValueError, match="number of|length must match"):
        envs.async_reset(seed=[1, 2])


def test_disabled_autoreset():
    envs = timed(3, 1, length=1, num_workers=1, autoreset_mode=AutoresetMode.DISABLED)
    envs.async_reset()
    assert [ids_of(envs.recv(LONG)) for _ in range(3)] == [[0], [1], [2]]
    envs.send([0.0], [1])
    assert envs.recv(LONG)[2].tolist() == [True]
    with pytest.raises(AssertionError, match="environments \\[1\\]"):
        envs.send([0.0, 0.0], [1, 0])
    envs.send([0.0], [0])
    assert envs.recv(LONG)[4]["env_id"].tolist() == [0]
    envs.async_reset(options={"reset_mask": np.array([False, True, False])})
    assert envs.recv(LONG)[0].tolist() == [[1, 0]]
    envs.send([0.0], [1])
    envs.close()


def test_other_calls_wait_for_the_workers_and_lose_nothing():
    envs = timed(num_workers=1)
    envs.async_reset(seed=3)
    assert envs.get_attr("number") == (0, 1, 2, 3)
    batches = [envs.recv(LONG) for _ in range(2)]
    assert [batch[4]["seed"].tolist() for batch in batches] == [["3", "4"], ["5", "6"]]
    envs.send([0.2, -1.0, 0.0], [0, 1, 2])
    envs.set_attr("mood", ["a", "b", "c", "d"])
    assert envs.get_attr("mood") == ("a", "b", "c", "d")
    with pytest.raises(LookupError, match="step of 1"):
        envs.recv(LONG)
    batch = envs.recv(LONG)
    assert ids_of(batch) == [0, 2] and batch[4]["steps"].tolist() == [1, 1]
    envs.send([0.0, 0.0], [1, 3])
    with pytest.raises(LookupError, match="bad"):
        envs.call("bad")
    assert ids_of(envs.recv(LONG)) == [1, 3]
    envs.close()


def test_calls_that_wait_for_all(envs):
    envs.async_reset()
    everyone(envs)
    envs.call_async("nap", 0.3)
    for call in (envs.recv, envs.async_reset, lambda: envs.send([0.0, 0.0], [0, 1])):
        with pytest.raises(AlreadyPendingCallError, match="`call`"):
            call()
    with pytest.raises(TimeoutError):
        envs.call_wait(timeout=0.01)
    envs.send([0.0, 0.0], [0, 1])
    assert ids_of(envs.recv(LONG)) == [0, 1]
    envs.call_async("nap", 0.3)
    with pytest.raises(TimeoutError):
        envs.call_wait(timeout=0.01)
    assert envs.get_attr("number") == (0, 1, 2, 3)


def test_ordinary_calls_among_send_and_recv():
    envs = timed(2, None)
    envs.async_reset()
    for call in (envs.reset, lambda: envs.step([0.0, 0.0]), lambda: envs.call("render")):
        with pytest.raises(AlreadyPendingCallError, match="`send`"):
            call()
    envs.recv(LONG)
    envs.step_async([0.3, 0.0])
    with pytest.raises(AlreadyPendingCallError, match="`step`"):
        envs.send([0.0, 0.0])
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0.01)
    # Who is late with a step is waited for, and that answer is dropped.
    envs.send([0.0, 0.0], [1, 0])
    assert envs.recv(LONG)[0][:, 1].tolist() == [2, 2]
    envs.step_async([0.3, 0.0])
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0.01)
    envs.async_reset()
    assert envs.recv(LONG)[0][:, 1].tolist() == [0, 0]
    assert envs.step([0.0, 0.0])[0][:, 1].tolist() == [1, 1]
    envs.close()


@pytest.mark.parametrize("how", ["exits", "is killed"])
def test_a_worker_that_dies(envs, how):
    envs.async_reset()
    everyone(envs)
    envs.send([0.0, 0.0, 0.0, -2.0 if how == "exits" else 60.0], [0, 1, 2, 3])
    if how == "is killed":
        os.kill(envs.processes[3].pid, signal.SIGKILL)
    start = time.monotonic()
    # The others are always fast enough, and yet it is reported.
    with pytest.raises(gymvec.WorkerDiedError) as caught:
        while time.monotonic() - start < 10:
            ids = envs.recv(LONG)[4]["env_id"]
            envs.send(np.zeros(2), ids)
    assert time.monotonic() - start < 3
    assert caught.value.env_indices == [3]
    assert caught.value.exitcode == (7 if how == "exits" else -signal.SIGKILL)
    for call in (envs.recv, lambda: envs.send([0.0], [0]), envs.async_reset):
        with pytest.raises(gymvec.WorkerDiedError):
            call()
    envs.close()


def test_interrupt_loses_nothing(envs):
    envs.async_reset()
    everyone(envs)
    envs.send([0.0, 1.0], [0, 1])
    with pytest.raises(KeyboardInterrupt):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        envs.recv()
    batch = envs.recv(LONG)
    assert ids_of(batch) == [0, 1] and batch[0][:, 1].tolist() == [1, 1]


def test_close_with_environments_at_work():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        envs = timed(4, 1, num_workers=2)
        envs.async_reset(seed=1)
        envs.recv(LONG)
        envs.close()
    assert not any(process.is_alive() for process in envs.processes)
    for call in (envs.recv, envs.async_reset, lambda: envs.send([0.0], [0])):
        with pytest.raises(ClosedEnvironmentError):
            call()
