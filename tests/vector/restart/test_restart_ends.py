"""Where restarts end, what they need, and that they leave nothing behind."""

import gc
import multiprocessing
import os
import pickle
import re
import sys
import threading
import time
import warnings

import pytest
from async_envs import Acts, alive, die
from gymnasium.spaces import Box
from restart_cases import (
    LOST,
    WARNED,
    ZEROS,
    check_life_after,
    check_restart_at,
    kill,
    make,
    stepped,
)
from scripted import BOX, Scripted

from gymvec import AsyncVectorEnv, WorkerDiedError
from gymvec.vector.errors import StepTimeoutError
from gymvec.vector.parent import death_policy as restarts

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]

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
    assert envs.processes[1].exitcode == -9
    assert not envs.processes[0].is_alive()


# --- what it needs ----------------------------------------------------------------------


def lose_a_worker():
    envs = stepped(make())
    kill(envs)
    with pytest.warns(UserWarning, match=WARNED):
        assert envs.step(ZEROS)[3].tolist() == LOST
    envs.close()


def test_a_fork_of_a_process_with_a_fork_server():
    lose_a_worker()
    fork = multiprocessing.get_context("fork").Process(target=lose_a_worker)
    fork.start()
    fork.join(60)
    assert fork.exitcode == 0


def test_what_cannot_be_pickled():
    held_by_forks: list = [threading.Lock()]
    if sys.version_info >= (3, 11):
        # Its lock is one for forks, which Python 3.10 does not notice.
        held_by_forks.append(multiprocessing.get_context("fork").SimpleQueue())
    for held in held_by_forks:
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
    workers = envs._pool.workers
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
def test_restarts_leave_nothing(context, monkeypatch, request):
    monkeypatch.setattr(restarts, "WINDOW_SECONDS", 0.0)

    gc.collect()
    gc.disable()
    request.addfinalizer(gc.enable)

    def usage():
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
    assert use(1) == use(3)
    assert usage() == before
