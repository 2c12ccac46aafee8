"""AsyncVectorEnv with `on_worker_death="restart"`: workers that die or hang are replaced."""

import gc
import multiprocessing
import os
import pickle
import re
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from async_envs import Acts, alive, die, die_beside_a_child, sleep
from gymnasium.spaces import Box, Dict, Discrete, Graph, Text, Tuple
from gymnasium.vector import AutoresetMode
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv, WorkerDiedError
from gymvec.vector import restarts
from gymvec.vector.errors import StepTimeoutError

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]

NEXT, SAME, DISABLED = (mode.value for mode in AutoresetMode)
ZEROS = np.zeros((4, 2), np.float32)
LOST = [False, False, True, True]
WARNED = r"the worker of environments \[2, 3\] \(process \d+\) "


def make(act=None, at="", kind=Acts, n=4, **kwargs):
    """Four environments of two workers; the act is the third's."""
    own = {"num_workers": 2, "on_worker_death": "restart", **kwargs}
    return AsyncVectorEnv([lambda i=i: kind(act if i == 2 else None, at) for i in range(n)], **own)


def stepped(envs, steps=3):
    envs.reset(seed=5)
    for _ in range(steps):
        envs.step(ZEROS)
    return envs


def kill(envs, worker=1, how=signal.SIGKILL):
    os.kill(envs.processes[worker].pid, how)


def restarted(infos):
    return infos["worker_restarted"].tolist(), infos["_worker_restarted"].tolist()


def check_restart_at(envs, step, observations, rewards, terminations, truncations, infos):
    """Rows of a step, the fourth, in which the second worker is found dead."""
    same = envs.autoreset_mode is AutoresetMode.SAME_STEP
    last = step - 1
    assert observations[:, 0].tolist() == [step, step] + ([0, 0] if same else [last, last])
    assert rewards.tolist() == [1, 1, 0, 0]
    assert terminations.tolist() == [False] * 4
    assert truncations.tolist() == LOST
    assert restarted(infos) == (LOST, LOST)
    keys = {"worker_restarted", "_worker_restarted"}
    if same:
        assert infos["_final_obs"].tolist() == LOST
        assert infos["final_obs"][2].tolist() == infos["final_obs"][3].tolist() == [last, last]
        assert restarted(infos["final_info"]) == (LOST, LOST)
        keys |= {"final_obs", "_final_obs", "final_info", "_final_info"}
    assert set(infos) == keys


def check_life_after(envs, step):
    """The other environments go on; the new ones are reset as the mode says, and go on."""
    old = [[step + i, step + i] for i in (1, 2, 3)]
    new = [[0, 0], [1, 1], [2, 2]]
    if envs.autoreset_mode is AutoresetMode.SAME_STEP:
        new = [[1, 1], [2, 2], [3, 3]]
    elif envs.autoreset_mode is AutoresetMode.DISABLED:
        with pytest.raises(AssertionError, match="episodes are over"):
            envs.step(ZEROS)
        mask = np.array(LOST)
        observations, infos = envs.reset(options={"reset_mask": mask})
        assert observations[:, 0].tolist() == [step, step, 0, 0]
        assert infos == {}
        new = [[1, 1], [2, 2], [3, 3]]
    for before, after in zip(old, new, strict=True):
        observations, rewards, terminations, truncations, infos = envs.step(ZEROS)
        assert observations[:, 0].tolist() == observations[:, 1].tolist() == before + after
        assert rewards.tolist() == [1, 1, *[float(after != [0, 0])] * 2]
        assert not terminations.any() and not truncations.any()
        assert infos == {}


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("mode", [NEXT, SAME, DISABLED])
def test_a_worker_killed_between_steps(context, mode):
    envs = stepped(make(context=context, autoreset_mode=mode))
    pids = envs.call("pid")
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED + "was ended by SIGKILL") as caught:
        result = envs.step(ZEROS)
    assert len(caught) == 1
    check_restart_at(envs, 4, *result)
    # Never by a fork, which other threads would not survive.
    kinds = ["ForkProcess" if context == "fork" else type(envs.processes[0]).__name__]
    kinds += ["SpawnProcess" if context == "spawn" else "ForkServerProcess"]
    assert [type(process).__name__ for process in envs.processes] == kinds
    check_life_after(envs, 4)
    after = envs.call("pid")
    assert after[:2] == pids[:2]
    assert after[2:] == (envs.processes[1].pid,) * 2 != pids[2:]
    assert not alive(pids[2])
    # Seeds are the caller's: the new environments were reset without one.
    assert [resets[0][0] for resets in envs.get_attr("resets")] == [5, 6, None, None]
    envs.close()
    assert [process.exitcode for process in envs.processes] == [0, 0]


@pytest.mark.parametrize(
    ("act", "match", "copy", "shared"),
    [
        (die(-signal.SIGSEGV), "was ended by SIGSEGV", True, True),
        (die(3), "exited with code 3", False, True),
        (die(0), "exited with code 0", True, False),
        (die_beside_a_child(5), "was ended by SIGKILL", False, True),
    ],
)
def test_a_worker_that_dies_in_a_step(act, match, copy, shared):
    envs = stepped(make(copy=copy, shared_memory=shared))
    for i in range(2):
        envs.call("__setattr__", "at", "step")
        # The third environment's neighbour has or has not answered.
        envs.set_attr("act", [None, None, *([act, None] if i else [None, act])])
        with pytest.warns(UserWarning, match=WARNED + match):
            result = envs.step(ZEROS)
        last = 3 if i == 0 else 2
        assert result[0][:, 0].tolist() == [4 + 4 * i, 4 + 4 * i, last, last]
        assert result[1].tolist() == [1, 1, 0, 0]
        assert result[2].tolist() == [False] * 4
        assert result[3].tolist() == LOST
        assert restarted(result[4]) == (LOST, LOST)
        check_life_after(envs, 4 + 4 * i)
    envs.close()


def test_all_workers_at_once():
    envs = stepped(make())
    kill(envs, 0)
    kill(envs, 1)
    with pytest.warns(UserWarning) as caught:
        observations, rewards, _, truncations, infos = envs.step(ZEROS)
    assert len(caught) == 2
    assert observations.tolist() == [[3, 3]] * 4
    assert rewards.tolist() == [0] * 4
    assert truncations.all() and infos["worker_restarted"].all()
    assert envs.step(ZEROS)[0].tolist() == [[0, 0]] * 4
    envs.close()


# --- resets -----------------------------------------------------------------------------


def test_a_reset_is_made_again():
    envs = stepped(make())
    envs.set_attr("at", "reset")
    envs.set_attr("act", [None, None, None, die(-9)])
    with pytest.warns(UserWarning, match=WARNED):
        observations, infos = envs.reset(seed=[1, 2, 3, 4], options={"a": 1})
    assert observations.tolist() == [[0, 0]] * 4
    assert infos == {}
    resets = [resets[-1] for resets in envs.get_attr("resets")]
    assert resets == [(seed, {"a": 1}) for seed in (1, 2, 3, 4)]
    # Nothing was lost but what the caller gave up.
    observations, rewards, _, truncations, infos = envs.step(ZEROS)
    assert observations.tolist() == [[1, 1]] * 4
    assert not truncations.any() and infos == {}
    envs.close()


def test_before_the_first_reset():
    envs = make()
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        assert envs.reset()[0].tolist() == [[0, 0]] * 4
    assert envs.step(ZEROS)[0].tolist() == [[1, 1]] * 4
    envs.close()


@pytest.mark.parametrize("copy", [True, False])
def test_a_reset_of_some(copy):
    """The dead worker's other environments hear of it with their next step."""
    envs = stepped(make(copy=copy, autoreset_mode=DISABLED))
    kill(envs)
    mask = np.array([True, False, True, False])
    with pytest.warns(UserWarning, match=WARNED):
        observations, infos = envs.reset(options={"reset_mask": mask})
    assert observations[:, 0].tolist() == [0, 3, 0, 3]
    assert infos == {}
    observations, rewards, terminations, truncations, infos = envs.step(ZEROS)
    assert observations[:, 0].tolist() == observations[:, 1].tolist() == [1, 4, 1, 3]
    assert rewards.tolist() == [1, 1, 1, 0]
    assert not terminations.any()
    assert truncations.tolist() == [False, False, False, True]
    assert restarted(infos) == ([False, False, False, True],) * 2
    envs.close()


# --- calls ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["call", "get_attr", "set_attr", "render"])
def test_a_call_is_lost(name):
    calls = {
        "call": lambda envs: envs.call("twice", 4),
        "get_attr": lambda envs: envs.get_attr("steps"),
        "set_attr": lambda envs: envs.set_attr("reward", 2.0),
        "render": lambda envs: envs.render(),
    }
    results = {
        "call": (8,) * 4,
        "get_attr": (3, 3, 0, 0),
        "set_attr": None,
        "render": ("frame 3", "frame 3", "frame 0", "frame 0"),
    }
    envs = stepped(make())
    kill(envs)
    with (
        pytest.warns(UserWarning, match=WARNED),
        pytest.raises(
            WorkerDiedError, match="SIGKILL .*A new worker has taken its place"
        ) as caught,
    ):
        calls[name](envs)
    assert caught.value.restarted
    assert caught.value.env_indices == [2, 3]
    assert caught.value.exitcode == -9
    assert calls[name](envs) == results[name]
    observations, rewards, _, truncations, infos = envs.step(ZEROS)
    assert observations[:, 0].tolist() == [4, 4, 3, 3]
    assert rewards.tolist() == ([2, 2, 0, 0] if name == "set_attr" else [1, 1, 0, 0])
    assert truncations.tolist() == LOST
    assert restarted(infos) == (LOST, LOST)
    envs.close()


class Strict(Acts):
    """Draws no frame before its first reset, like those that `gymnasium.make` makes."""

    def render(self):
        if not self.resets:
            raise LookupError("reset first")
        return super().render()


@pytest.mark.parametrize("mode", [NEXT, SAME, DISABLED])
def test_frames_after_every_step(mode):
    envs = stepped(make(kind=Strict, autoreset_mode=mode))
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        envs.step(ZEROS)
    assert envs.render() == ("frame 4", "frame 4", "frame 0", "frame 0")
    check_life_after(envs, 4)
    envs.close()


@pytest.mark.parametrize("mode", [NEXT, SAME, DISABLED])
def test_a_new_environment_that_fails_to_reset(mode):
    """The caller hears of the restart nevertheless."""
    envs = stepped(make(autoreset_mode=mode))
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED), pytest.raises(WorkerDiedError):
        envs.get_attr("steps")
    envs.call("__setattr__", "fail", {"reset"})
    if mode == DISABLED:
        with pytest.raises(LookupError, match="scripted"):
            envs.reset(options={"reset_mask": np.array(LOST)})
    elif mode == SAME:
        with pytest.raises(LookupError, match="scripted"):
            envs.step(ZEROS)
    envs.call("__setattr__", "fail", set())
    observations, rewards, terminations, truncations, infos = envs.step(ZEROS)
    assert rewards[2:].tolist() == [0, 0]
    assert observations[2:, 0].tolist() == ([0, 0] if mode == SAME else [3, 3])
    assert truncations.tolist() == ([False] * 4 if mode == SAME else LOST)
    assert restarted(infos) == (LOST, LOST)
    envs.close()


# --- those that hang --------------------------------------------------------------------


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_stopped_worker(context):
    envs = stepped(make(step_timeout=0.5, context=context))
    kill(envs, how=signal.SIGSTOP)
    pid = envs.processes[1].pid
    with pytest.warns(UserWarning, match=WARNED + "has not answered for `step_timeout=0.5`"):
        result = envs.step(ZEROS)
    check_restart_at(envs, 4, *result)
    assert not alive(pid)
    check_life_after(envs, 4)
    envs.close()


def test_a_stuck_environment():
    envs = stepped(make(step_timeout=0.5))
    envs.set_attr("at", "step reset")
    envs.set_attr("act", [None, None, None, sleep(30)])
    with pytest.warns(UserWarning, match=WARNED + "has not answered"):
        check_restart_at(envs, 4, *envs.step(ZEROS))
    envs.set_attr("at", "step reset")
    envs.set_attr("act", [None, None, sleep(30), None])
    with pytest.warns(UserWarning, match=WARNED + "has not answered"):
        assert envs.reset()[0].tolist() == [[0, 0]] * 4
    envs.close()


def test_the_time_is_that_of_one_environment():
    """Eight environments of one worker take longer than the time-out, and none of them does."""
    envs = AsyncVectorEnv(
        [lambda: Acts(sleep(0.3), "step")] * 8,
        num_workers=1,
        step_timeout=1.2,
        on_worker_death="restart",
    )
    envs.reset()
    for step in (1, 2):
        assert envs.step(np.zeros((8, 2), np.float32))[0][:, 0].tolist() == [step] * 8
    envs.close()


def test_a_call_may_take_its_time():
    envs = stepped(make(step_timeout=0.3))
    assert envs.call("nap", 0.9) == (0.9,) * 4
    envs.close()


def test_a_late_call_does_not_hold_a_step_up():
    envs = stepped(make(step_timeout=0.5))
    kill(envs, how=signal.SIGSTOP)
    envs.call_async("twice", 1)
    with pytest.raises(StepTimeoutError, match="call_wait"):
        envs.call_wait(timeout=0.1)
    with pytest.warns(UserWarning, match=WARNED + "has not answered"):
        check_restart_at(envs, 4, *envs.step(ZEROS))
    envs.close()


def test_an_error_instead_of_a_restart():
    envs = stepped(make(step_timeout=0.4, on_worker_death="raise"))
    kill(envs, how=signal.SIGSTOP)
    for call in (lambda: envs.step(ZEROS), envs.reset):
        begun = time.monotonic()
        with pytest.raises(
            TimeoutError, match=r"environments \[2, 3\] .*step_timeout=0.4"
        ) as caught:
            call()
        assert 0.4 <= time.monotonic() - begun < 5
        assert caught.value.env_indices == [2, 3]
    kill(envs, how=signal.SIGCONT)
    assert envs.reset()[0].tolist() == [[0, 0]] * 4
    assert envs.step(ZEROS)[0].tolist() == [[1, 1]] * 4
    # The call's own time-out is the other kind.
    kill(envs, how=signal.SIGSTOP)
    envs.step_async(ZEROS)
    with pytest.raises(StepTimeoutError, match="step_wait") as caught:
        envs.step_wait(timeout=0.1)
    assert caught.value.env_indices == []
    envs.close(timeout=0.1)


def test_an_error_instead_of_a_restart_in_batches():
    envs = make(step_timeout=0.4, on_worker_death="raise", batch_size=2)
    envs.async_reset()
    for _ in range(2):
        envs.recv()
    kill(envs, how=signal.SIGSTOP)
    envs.send(ZEROS[:2], [2, 3])
    with pytest.raises(StepTimeoutError, match=r"\[2, 3\] .*step_timeout"):
        envs.recv()
    with pytest.raises(StepTimeoutError, match=r"\[2, 3\] .*step_timeout"):
        envs.call("twice", 2)
    kill(envs, how=signal.SIGCONT)
    assert envs.recv()[0].tolist() == [[1, 1]] * 2
    envs.close()


# --- batches of those that are ready ----------------------------------------------------


@pytest.mark.parametrize("mode", [NEXT, SAME, DISABLED])
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_batches(context, mode):
    envs = make(batch_size=2, context=context, autoreset_mode=mode)
    envs.async_reset(seed=3)
    for _ in range(2):
        envs.recv()
    envs.send(ZEROS[:2], [0, 2])
    assert envs.recv()[4]["env_id"].tolist() == [0, 2]
    kill(envs)
    envs.send(ZEROS[:3], [0, 1, 2])
    # Those of the living worker do not wait.
    observations, _, _, truncations, infos = envs.recv()
    assert infos["env_id"].tolist() == [0, 1]
    assert observations[:, 0].tolist() == [2, 1]
    assert not truncations.any()
    envs.send(ZEROS[:1], [3])
    with pytest.warns(UserWarning, match=WARNED):
        observations, rewards, terminations, truncations, infos = envs.recv()
    assert infos["env_id"].tolist() == [2, 3]
    assert rewards.tolist() == [0, 0]
    assert not terminations.any() and truncations.all()
    assert restarted(infos) == ([True, True],) * 2
    if mode == SAME:
        assert observations[:, 0].tolist() == [0, 0]
        assert [row.tolist() for row in infos["final_obs"]] == [[1, 1], [0, 0]]
    else:
        assert observations[:, 0].tolist() == [1, 0]
    if mode == DISABLED:
        with pytest.raises(AssertionError, match="over"):
            envs.send(ZEROS[:2], [2, 3])
        envs.async_reset(options={"reset_mask": np.array(LOST)})
    else:
        envs.send(ZEROS[:2], [2, 3])
    observations, _, _, truncations, infos = envs.recv()
    assert infos["env_id"].tolist() == [2, 3]
    assert observations[:, 0].tolist() == ([1, 1] if mode == SAME else [0, 0])
    assert not truncations.any()
    envs.close()


@pytest.mark.parametrize("text", [False, True])
def test_answers_that_were_not_received_are_withdrawn(text):
    """An environment has answered, and its worker dies before the answer is returned."""

    def kind(act, at):
        space = Dict(n=BOX, t=Text(9)) if text else BOX
        own = (lambda n: {"n": np.full(2, n, np.float32), "t": str(n)}) if text else None
        env = Acts(act, at, observation_space=space)
        env.observe = own or env.observe
        return env

    envs = make(batch_size=2, num_workers=4, kind=kind)
    envs.async_reset()
    for _ in range(2):
        envs.recv()
    envs.call("__setattr__", "at", "step")
    envs.set_attr("act", [None, sleep(1.5), None, None])
    envs.send(ZEROS[:2], [1, 2])
    with pytest.raises(TimeoutError):
        envs.recv(timeout=0.5)
    # The third has answered, which was noticed or not; the call ends its process.
    kill(envs, 2)
    with pytest.warns(UserWarning, match=r"\[2\]"), pytest.raises(WorkerDiedError) as caught:
        envs.get_attr("steps")
    assert caught.value.restarted
    observations, rewards, _, truncations, infos = envs.recv()
    assert infos["env_id"].tolist() == [1, 2]
    assert (observations["n"] if text else observations)[:, 0].tolist() == [1, 0]
    if text:
        assert observations["t"] == ("1", "0")
    assert rewards.tolist() == [1, 0]
    assert truncations.tolist() == [False, True]
    assert restarted(infos) == ([False, True],) * 2
    envs.close()


def test_an_answer_that_was_taken_while_its_neighbour_died():
    def nap_and_die(env, name):
        time.sleep(0.7)
        os._exit(5)

    envs = make(batch_size=2)
    envs.async_reset()
    for _ in range(2):
        envs.recv()
    envs.call("__setattr__", "at", "step")
    envs.set_attr("act", [None, None, None, nap_and_die])
    envs.send(ZEROS[:2], [2, 3])
    with pytest.warns(UserWarning, match=WARNED + "exited with code 5"):
        observations, rewards, _, truncations, infos = envs.recv()
    assert infos["env_id"].tolist() == [2, 3]
    assert observations.tolist() == [[0, 0]] * 2
    assert rewards.tolist() == [0, 0] and truncations.all()
    envs.send(ZEROS[:2], [0, 2])
    observations, _, _, truncations, infos = envs.recv()
    assert infos["env_id"].tolist() == [0, 2]
    assert observations[:, 0].tolist() == [1, 0]
    assert not truncations.any()
    envs.close()


def test_a_call_between_batches():
    envs = make(batch_size=2)
    envs.async_reset(seed=3)
    first = envs.recv()[4]["env_id"].tolist()
    assert envs.call("twice", 1) == (2,) * 4
    # The other two are ready, and not received.
    kill(envs, 0)
    kill(envs, 1)
    with pytest.warns(UserWarning, match="was ended by SIGKILL"):
        with pytest.raises(WorkerDiedError) as caught:
            envs.call("twice", 1)
    assert caught.value.restarted
    assert envs.call("twice", 1) == (2,) * 4
    observations, _, _, truncations, infos = envs.recv()
    second = infos["env_id"].tolist()
    assert sorted(first + second) == [0, 1, 2, 3]
    assert observations.tolist() == [[0, 0]] * 2
    assert not truncations.any()
    # A reset that was made again is like the first; whose reset was received has lost it.
    for envs_, lost in ((second, False), (first, True)):
        envs.send(ZEROS[:2], envs_)
        observations, rewards, _, truncations, infos = envs.recv()
        assert infos["env_id"].tolist() == envs_
        assert truncations.tolist() == [lost] * 2
        assert observations[:, 0].tolist() == rewards.tolist() == [float(not lost)] * 2
    assert [resets[0][0] for resets in envs.get_attr("resets") if resets] == [3 + i for i in second]
    envs.close()


def test_a_new_reset_of_all_while_a_worker_is_dead():
    envs = make(batch_size=2)
    envs.async_reset()
    for _ in range(2):
        envs.recv()
    envs.send(ZEROS[:2], [0, 3])
    kill(envs)
    envs.async_reset(seed=7)
    with pytest.warns(UserWarning, match=WARNED):
        batches = [envs.recv() for _ in range(2)]
    assert sorted(sum((batch[4]["env_id"].tolist() for batch in batches), [])) == [0, 1, 2, 3]
    assert all(not batch[3].any() for batch in batches)
    assert [resets[-1][0] for resets in envs.get_attr("resets")] == [7, 8, 9, 10]
    envs.close()


# --- what the last observation is -------------------------------------------------------


class Torn(Scripted):
    """Its observations have two parts; asking the second for its numbers may be the end."""

    def __init__(self, act=None, at=""):
        space = Dict(a=Box(0, 9, (3,), np.float64), b=Box(0, 9, (3,), np.float64))
        super().__init__(space, length=1000)
        self.last = False
        self.observe = self.parts

    def parts(self, steps):
        b = np.full(3, steps, float)
        return {"a": np.full(3, steps, float), "b": Deadly() if self.last else b}


class Deadly:
    def __array__(self, dtype=None, copy=None):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_row_that_was_being_written(copy, batch_size):
    envs = make(kind=Torn, copy=copy, batch_size=batch_size)
    if batch_size is None:
        stepped(envs, 2)
        envs.set_attr("last", [False, False, True, False])
        with pytest.warns(UserWarning, match=WARNED):
            observations = envs.step(ZEROS)[0]
        assert observations["a"][:, 0].tolist() == [3, 3, 2, 2]
        assert observations["b"][:, 0].tolist() == [3, 3, 2, 2]
    else:
        envs.async_reset()
        for _ in range(2):
            envs.recv()
        envs.set_attr("last", [False, False, True, False])
        envs.send(ZEROS[:2], [2, 3])
        with pytest.warns(UserWarning, match=WARNED):
            observations = envs.recv()[0]
        assert observations["a"][:, 0].tolist() == observations["b"][:, 0].tolist() == [0, 0]
    envs.close()


def test_the_callers_own_batch_is_not_what_was_seen():
    """With `copy=True` the caller may change what it was given."""
    envs = stepped(make())
    envs.observations[:] = 7
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        assert envs.step(ZEROS)[0][:, 0].tolist() == [4, 4, 3, 3]
    envs.close()


GRAPH = Graph(Box(0, 1, (1,)), None)
MIXED = Dict(
    text=Text(8),
    number=Discrete(100),
    pair=Tuple((Box(0, 100, (2,), np.int16), Text(8), Discrete(50, dtype=np.int32))),
)


def observe_mixed(steps):
    return {
        "text": f"t{steps}",
        "number": steps,
        "pair": (np.full(2, steps, np.int16), f"p{steps}", steps),
    }


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("mode", [NEXT, SAME])
def test_leaves_of_every_kind(shared, mode):
    def kind(act, at):
        return Scripted(MIXED, length=1000, observe=observe_mixed)

    def rows(observations):
        pair = observations["pair"]
        return [
            {
                "text": observations["text"][i],
                "number": int(observations["number"][i]),
                "pair": (pair[0][i].tolist(), pair[1][i], int(pair[2][i])),
            }
            for i in range(4)
        ]

    def literal(steps):
        return {"text": f"t{steps}", "number": steps, "pair": ([steps] * 2, f"p{steps}", steps)}

    envs = stepped(make(kind=kind, shared_memory=shared, autoreset_mode=mode))
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        observations, _, _, truncations, infos = envs.step(ZEROS)
    assert truncations.tolist() == LOST
    new = 0 if mode == SAME else 3
    assert rows(observations) == [literal(steps) for steps in (4, 4, new, new)]
    if mode == SAME:
        final = infos["final_obs"][2]
        assert final["text"] == "t3" and final["number"] == 3
        assert final["pair"][0].tolist() == [3, 3] and final["pair"][1:] == ("p3", 3)
    new = 1 if mode == SAME else 0
    assert rows(envs.step(ZEROS)[0]) == [literal(steps) for steps in (5, 5, new, new)]
    envs.close()


def test_stepped_without_a_reset():
    """There is no last observation; the batch that is there before the first reset says as much."""
    envs = make()
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        observations, _, _, truncations, _ = envs.step(ZEROS)
    assert observations[:, 0].tolist() == [1, 1, 0, 0]
    assert truncations.tolist() == LOST
    envs.close()


# --- infos ------------------------------------------------------------------------------


class Informs(Acts):
    """Its infos have one of two shapes, which its worker numbers as they come."""

    shape = "ab"

    def step(self, action):
        *result, _ = super().step(action)
        keys = "ab" if self.steps % 2 == (self.shape == "ab") else "cde"
        return *result, {key: float(self.steps) for key in keys}


@pytest.mark.parametrize("batch_size", [None, 4])
def test_schemas_of_infos_are_numbered_anew(batch_size):
    envs = make(kind=Informs)

    def step(envs):
        if batch_size is None:
            return envs.step(ZEROS)[4]
        envs.send(ZEROS)
        infos = envs.recv()[4]
        del infos["env_id"], infos["_env_id"]
        return infos

    envs.reset()
    for steps in range(1, 5):
        infos = step(envs)
        assert set(infos) == {key + k for k in ("ab" if steps % 2 else "cde") for key in ("", "_")}
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        infos = step(envs)
    assert infos["a"].tolist() == [5, 5, 0, 0] and infos["_a"].tolist() == [
        True,
        True,
        False,
        False,
    ]
    assert restarted(infos) == (LOST, LOST)
    assert set(infos) == {"a", "_a", "b", "_b", "worker_restarted", "_worker_restarted"}
    # The new worker meets the shapes in another order.
    envs.set_attr("shape", ["ab", "ab", "cde", "cde"])
    assert set(step(envs)) == {"c", "d", "e", "_c", "_d", "_e"}
    for steps in range(7, 20):
        infos = step(envs)
        old, new = ("ab", "cde") if steps % 2 else ("cde", "ab")
        if (steps - 6) % 2 == 0:
            new = "ab"
        else:
            new = "cde"
        assert infos[old[0]][:2].tolist() == [steps, steps]
        assert infos[new[0]][2:].tolist() == [steps - 6] * 2
    envs.close()


# --- time-outs --------------------------------------------------------------------------


def test_a_death_behind_a_time_out():
    envs = stepped(make())
    envs.set_attr("at", "step")
    envs.set_attr("act", [sleep(1.0), None, None, None])
    envs.step_async(ZEROS)
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0.3)
    envs.set_attr("act", None)
    # The dropped step was the fourth. Who dies now dies in the fifth.
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        observations, _, _, truncations, _ = envs.step(ZEROS)
    assert observations[:, 0].tolist() == [5, 5, 3, 3]
    assert truncations.tolist() == LOST
    envs.close()


@pytest.mark.parametrize("copy", [True, False])
def test_rows_of_a_dropped_step_do_not_show_up(copy):
    """The third environment has written what nobody will see when its worker dies."""
    envs = stepped(make(copy=copy, autoreset_mode=DISABLED))
    envs.set_attr("at", "step")
    envs.set_attr("act", [None, None, None, sleep(30)])
    envs.step_async(ZEROS)
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0.5)
    kill(envs)
    mask = np.array([True, False, False, False])
    with pytest.warns(UserWarning, match=WARNED):
        observations, infos = envs.reset(options={"reset_mask": mask})
    assert observations[:, 0].tolist() == [0, 4, 3, 3]
    assert infos == {}
    envs.close()


def test_a_death_in_what_a_time_out_drops():
    """The lost episodes end with the next step."""
    envs = stepped(make())
    envs.set_attr("at", "step")
    envs.set_attr("act", [None, None, sleep(30), None])
    envs.step_async(ZEROS)
    with pytest.raises(TimeoutError):
        envs.step_wait(timeout=0.3)
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        observations, rewards, _, truncations, infos = envs.step(ZEROS)
    assert observations[:, 0].tolist() == [5, 5, 3, 3]
    assert rewards.tolist() == [1, 1, 0, 0]
    assert truncations.tolist() == LOST
    assert restarted(infos) == (LOST, LOST)
    envs.close()


# --- where it ends ----------------------------------------------------------------------


def test_too_many_restarts():
    envs = stepped(make())
    kill(envs, 0)
    with pytest.warns(UserWarning, match=r"\[0, 1\]"):
        envs.step(ZEROS)
    assert restarts.MAX_RESTARTS == 3
    for _ in range(3):
        kill(envs)
        with pytest.warns(UserWarning, match=WARNED):
            envs.step(ZEROS)
    kill(envs)
    message = (
        r"\[2, 3\] was ended by SIGKILL .*, after 3 restarts within 60 seconds. .*cannot go on"
    )
    with pytest.raises(WorkerDiedError, match=message) as caught:
        envs.step(ZEROS)
    assert not caught.value.restarted
    for call in (lambda: envs.step(ZEROS), envs.reset, lambda: envs.call("pid")):
        with pytest.raises(WorkerDiedError, match=message):
            call()
    envs.close()
    assert not any(process.is_alive() for process in envs.processes)


def test_restarts_are_forgotten_after_a_while(monkeypatch):
    monkeypatch.setattr(restarts, "WINDOW_SECONDS", 0.01)
    envs = stepped(make())
    for _ in range(5):
        kill(envs)
        with pytest.warns(UserWarning, match=WARNED):
            envs.step(ZEROS)
    envs.close()


def test_an_environment_that_always_dies():
    envs = make(die(4), "step")
    envs.reset()
    with pytest.warns(UserWarning) as caught:
        for _ in range(3):
            observations, _, _, truncations, _ = envs.step(ZEROS)
            assert truncations.tolist() == LOST
            envs.step(ZEROS)
        with pytest.raises(WorkerDiedError, match="exited with code 4, after 3 restarts"):
            envs.step(ZEROS)
    assert len(caught) == 3
    envs.close()


class Fragile(Acts):
    """Can be built as often as a file has lines; every building takes one."""

    path = ""

    def __init__(self, path):
        super().__init__()
        with open(path) as file:
            lines = file.readlines()
        if not lines:
            raise LookupError("used up")
        with open(path, "w") as file:
            file.writelines(lines[1:])


def test_environments_that_cannot_be_built_again(tmp_path):
    path = str(tmp_path / "lines")

    def fill(count):
        with open(path, "w") as file:
            file.write("line\n" * count)

    fill(2)
    envs = AsyncVectorEnv(
        [lambda: Fragile(path)], on_worker_death="restart", observation_space=BOX, action_space=BOX
    )
    envs.reset()
    kill(envs, 0)
    with pytest.warns(UserWarning):
        assert envs.step(ZEROS[:1])[3].tolist() == [True]
    kill(envs, 0)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(WorkerDiedError, match="LookupError: used up.*after 3 rest") as caught:
            envs.step(ZEROS[:1])
    assert type(caught.value.__cause__) is LookupError
    assert ["could not build" in str(warning.message) for warning in said] == [False, True]
    envs.close()


def slow_again(path, seconds):
    """A factory that takes its time once a file is there."""

    def factory():
        if os.path.exists(path):
            time.sleep(seconds)
        return Scripted(length=1000)

    return factory


@pytest.mark.parametrize("seconds", [1.5, 60.0])
def test_building_has_a_time_of_its_own(seconds, tmp_path):
    path = tmp_path / "slow"
    envs = AsyncVectorEnv(
        [slow_again(str(path), seconds)],
        on_worker_death="restart",
        step_timeout=0.5,
        start_timeout=2.0 if seconds > 10 else 30.0,
    )
    envs.reset()
    path.touch()
    kill(envs, 0)
    if seconds < 10:
        with pytest.warns(UserWarning, match="SIGKILL") as caught:
            assert envs.step(ZEROS[:1])[3].tolist() == [True]
        assert len(caught) == 1
        assert envs.step(ZEROS[:1])[0].tolist() == [[0, 0]]
    else:
        with (
            pytest.warns(UserWarning, match="has not built"),
            pytest.raises(WorkerDiedError, match="has not built its env.*after 3 restarts"),
        ):
            with pytest.warns(UserWarning, match="SIGKILL"):
                envs.step(ZEROS[:1])
    envs.close()


def test_the_errors_travel():
    for restarted_ in (False, True):
        error = WorkerDiedError([1, 2], -9, "has had enough", restarted_)
        copy = pickle.loads(pickle.dumps(error))
        assert str(copy) == str(error)
        assert "environments [1, 2] has had enough. " in str(copy)
        assert (copy.env_indices, copy.exitcode, copy.restarted) == ([1, 2], -9, restarted_)
    error = StepTimeoutError("late")
    error.env_indices = [3]
    assert pickle.loads(pickle.dumps(error)).env_indices == [3]


def test_at_construction_nobody_is_replaced():
    with pytest.raises(WorkerDiedError, match="exited with code 3. .*cannot go on") as caught:
        make(die(3), "init")
    assert not caught.value.restarted


def test_at_close_nobody_is_replaced():
    envs = stepped(make())
    kill(envs)
    envs.close()
    assert [process.exitcode for process in envs.processes] == [0, -9]


# --- what it needs ----------------------------------------------------------------------


def test_what_cannot_be_pickled():
    # What a fork inherits. Pickled, the pipe of a queue is a number that means nothing elsewhere.
    for held in (threading.Lock(), multiprocessing.SimpleQueue()):
        fns = [Scripted, Scripted, lambda held=held: Scripted() if held else None, Scripted]
        AsyncVectorEnv(fns, context="fork").close()
        with pytest.raises(TypeError, match="the function of environment 2 cannot be pickled"):
            AsyncVectorEnv(fns, context="fork", num_workers=2, on_worker_death="restart")
        if hasattr(held, "close"):
            held.close()

    class Local(Box):
        pass

    space = Local(-1, 1, (2,))
    with pytest.raises(TypeError, match="a space cannot be pickled.*Local"):
        AsyncVectorEnv([lambda: Scripted(action_space=space)], on_worker_death="restart")


def test_arguments():
    for kwargs, match in (
        ({"on_worker_death": "ignore"}, "'raise', 'restart'"),
        ({"step_timeout": 0}, "step_timeout"),
        ({"step_timeout": -1.0}, "step_timeout"),
        ({"step_timeout": float("nan")}, "step_timeout"),
    ):
        with pytest.raises(ValueError, match=match):
            AsyncVectorEnv([Scripted], **kwargs)


# --- interrupts, leaks ------------------------------------------------------------------


def test_a_warning_that_is_an_error_loses_nothing():
    envs = stepped(make())
    kill(envs)
    with pytest.raises(UserWarning, match=re.compile("WARN.*replaced", re.DOTALL)):
        envs.step(ZEROS)
    check_restart_at(envs, 4, *envs.step_wait())
    check_life_after(envs, 4)
    envs.close()


@pytest.mark.parametrize("place", ["reap", "replace", "exit_code"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_in_a_restart(place, when, monkeypatch):
    """The next wait finishes what was begun."""
    envs = stepped(make())
    kill(envs)
    workers = envs._engine.workers
    whole = getattr(workers, place)

    def interrupted(*args):
        monkeypatch.undo()
        if when == "after":
            whole(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(workers, place, interrupted)
    with pytest.raises(KeyboardInterrupt):
        envs.step(ZEROS)
    with pytest.warns(UserWarning, match=WARNED):
        result = envs.step_wait()
    check_restart_at(envs, 4, *result)
    check_life_after(envs, 4)
    envs.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_restarts_leave_nothing(context, monkeypatch):
    monkeypatch.setattr(restarts, "WINDOW_SECONDS", 0.0)

    def usage():
        gc.collect()
        names = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        files = sorted(os.readlink(name) for name in names if os.path.islink(name))
        with open("/proc/self/maps") as file:
            mapped = sum("pym-" in line for line in file)
        kinds = sorted(re.sub(r"pym-.*|\d+", "", name) for name in files)
        return kinds, mapped

    def use(count):
        envs = make(context=context)
        envs.reset()
        pids = []
        for _ in range(count):
            pids += envs.call("pid")
            kill(envs)
            with pytest.warns(UserWarning, match=WARNED):
                envs.step(ZEROS)
        within = usage()
        pids += envs.call("pid")
        envs.close()
        del envs
        assert not any(alive(pid) for pid in pids)
        return within

    use(1)  # The start method's own helpers stay.
    before = usage()
    assert use(1) == use(4)
    assert usage() == before
