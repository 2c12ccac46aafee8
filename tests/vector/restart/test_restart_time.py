"""Workers that hang and are replaced, time-outs, and batches of those that are ready."""

import os
import signal
import sys
import time

import numpy as np
import pytest
from async_envs import Acts, alive, sleep
from gymnasium.spaces import Dict, Text
from restart_cases import (
    DISABLED,
    LOST,
    NEXT,
    SAME,
    WARNED,
    ZEROS,
    check_life_after,
    check_restart_at,
    kill,
    make,
    restarted,
    stepped,
)
from scripted import BOX

from gymvec import AsyncVectorEnv, WorkerDiedError
from gymvec.vector.errors import StepTimeoutError

pytestmark = [
    pytest.mark.not_sanitized,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]

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
