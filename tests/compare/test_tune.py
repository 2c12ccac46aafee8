"""vectorization_mode="auto", and what it stands on."""

import logging
import math
import multiprocessing
import os
import subprocess
import sys
import time
import types

import compare_envs  # noqa: F401  registers environments
import gymnasium as gym
import pytest
from marks import gone, mark

import gymvec
from gymvec import tune
from gymvec.measuring import load

pytestmark = pytest.mark.not_sanitized

QUICK = "compare/Quick-v0"
# The bound is two seconds; a machine that others use too needs longer to end processes.
GENEROUS_SECONDS = 12.0
# Where the bound is not the point: measuring ends when it is done, not when its time is over.
PLENTY = 60.0


@pytest.fixture(autouse=True)
def four_cores(monkeypatch):
    monkeypatch.setattr(tune, "usable_cores", lambda: 4)
    monkeypatch.setattr(tune, "_tunings", {})
    monkeypatch.setattr(load, "load", lambda seconds: 0.0)


def make_env(**kwargs):
    return lambda: gym.make(QUICK, **kwargs)


def auto(caplog, *args, **kwargs):
    """The vector environment's class and number of workers, and what was logged."""
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="gymvec"):
        envs = gymvec.make_vec(*args, vectorization_mode="auto", **kwargs)
    envs.reset(seed=1)
    envs.step(envs.action_space.sample())
    envs.close()
    records = [record for record in caplog.records if record.name == "gymvec"]
    assert [record.levelno for record in records] == [logging.INFO]
    return envs, records[0].getMessage()


def told(best):
    return tune.Tuning(best, "it was told so", (best,), 0.0, 0.0, 0.25)


def test_what_sleeps_is_tried_with_more_workers_than_cores():
    tuning = gymvec.autotune(make_env(step=0.004), 8, seconds=PLENTY)
    sync, *parallel = tuning.rows
    assert (sync.mode, sync.num_workers, sync.wait) == ("sync", None, None)
    assert [row.mode for row in parallel] == ["async"] * len(parallel)
    assert (parallel[0].num_workers, parallel[0].wait) == (4, "auto")
    # Those who wait do so in as many processes as there are environments.
    assert (parallel[1].num_workers, parallel[1].wait) == (8, "auto")
    assert tuning.best in tuning.rows
    # All sleep four milliseconds, one after the other; a seventh of the steps are resets.
    assert sync.microseconds > 3000
    assert tuning.step_seconds > 0.003
    assert " us an environment step and " in tuning.reason
    with pytest.raises(AttributeError):
        tuning.best = None


class Computes(compare_envs.Quick):
    def step(self, action):
        until = time.process_time() + 0.002
        while time.process_time() < until:
            pass
        return super().step(action)


def test_what_computes_gets_no_more_workers_than_cores():
    tuning = gymvec.autotune(Computes, 8, seconds=PLENTY)
    tried = [row.num_workers for row in tuning.rows[1:]]
    assert tried[:2] == [4, 2]
    assert set(tried) == {2, 4}


def test_a_single_environment():
    tuning = gymvec.autotune(make_env(), 1, seconds=PLENTY)
    assert [(row.mode, row.num_workers) for row in tuning.rows[:2]] == [
        ("sync", None),
        ("async", 1),
    ]
    assert tuning.best in tuning.rows


SYNC = tune.Choice("sync", None, None, 100.0)


@pytest.mark.parametrize(
    ("parallel", "best"),
    [
        ([(4, "auto", 50.0), (2, "auto", 60.0)], 1),
        ([(4, "auto", 60.0), (2, "auto", 50.0)], 2),
        # Not worth the processes.
        ([(4, "auto", 91.0)], 0),
        ([(4, "auto", 89.0)], 1),
        # Not worth the wake-ups.
        ([(4, "auto", 50.0), (4, "block", 48.0)], 1),
        ([(4, "auto", 50.0), (4, "block", 47.0)], 2),
    ],
)
def test_the_best_of_what_was_measured(parallel, best):
    search = tune._Search(make_env(), 8, 2.0, {})
    search._rows = [SYNC, *(tune.Choice("async", *row) for row in parallel)]
    choice, reason = search._best(None)
    assert choice == search._rows[best]
    assert reason.startswith(f"it takes {choice.microseconds:.3g} us an environment step and ")


BUSY = "; the machine is busy (other processes take 1.5 of 4 cores)"


@pytest.mark.parametrize(
    ("microseconds", "best", "reason"),
    [
        (76.0, 0, "it takes 100 us an environment step and async with 4 workers, "
         f"wait='auto' takes 76{BUSY}, so async has to take less than 0.75 of the time of sync"),
        (74.0, 1, f"it takes 74 us an environment step and sync takes 100{BUSY}, "
         "so async has to take less than 0.75 of the time of sync"),
    ],
)  # fmt: skip
def test_on_a_busy_machine_async_has_to_win_more(microseconds, best, reason):
    search = tune._Search(make_env(), 8, 2.0, {})
    search._taken = 1.5
    search._rows = [SYNC, tune.Choice("async", 4, "auto", microseconds)]
    assert search._best(None) == (search._rows[best], reason)


@pytest.mark.parametrize(("step", "mode"), [(5e-4, "sync"), (1e-3, "async")])
def test_on_a_busy_machine_the_step_of_one_has_to_be_longer(step, mode):
    search = tune._Search(make_env(), 8, 2.0, {})
    search._taken, search._construct, search._step = 1.5, 0.5, step
    choice, reason = search._best(None)
    assert choice.mode == mode
    assert reason == (
        f"building one takes 0.5 s and a step of it {step:.3g} s, and building 8 environments "
        f"takes longer than the 2 s there are{BUSY}"
    )


@pytest.mark.parametrize(("taken", "says"), [(None, False), (0.3, False), (1.5, True)])
def test_the_load_is_read_before_there_is_a_host(caplog, monkeypatch, taken, says):
    seen = []

    def reading(seconds):
        seen.append((seconds, multiprocessing.active_children()))
        return taken

    monkeypatch.setattr(load, "load", reading)
    monkeypatch.setattr(load, "usable_cores", lambda: 4)
    _, message = auto(caplog, QUICK, 2)
    assert seen == [(0.1, [])]
    assert (BUSY in message) is says
    gymvec.autotune(make_env(), 2, seconds=0.5)
    assert seen[1:] == [(0.025, [])]


@pytest.mark.parametrize(
    ("num_envs", "step", "if_waiting", "mode", "workers"),
    [(8, 1e-6, 0, "sync", None), (8, 1e-3, 0, "async", 4), (1, 1.0, 0, "sync", None)]
    + [(8, 1e-3, 8, "async", 8)],
)
def test_the_step_of_one_decides_without_time(num_envs, step, if_waiting, mode, workers):
    search = tune._Search(make_env(), num_envs, 2.0, {})
    search._construct, search._step, search._if_waiting = 0.5, step, if_waiting
    choice, reason = search._best(None)
    assert (choice.mode, choice.num_workers) == (mode, workers)
    assert reason == (
        f"building one takes 0.5 s and a step of it {step:.3g} s, and building {num_envs} "
        "environments takes longer than the 2 s there are"
    )


def test_something_is_chosen(caplog):
    envs, message = auto(caplog, QUICK, 8)
    is_async = type(envs) is gymvec.AsyncVectorEnv
    chosen = f"async with {envs.num_workers} worker" if is_async else "sync, since "
    assert message.startswith(f"{QUICK}, 8 environments: {chosen}")
    again, message = auto(caplog, QUICK, 8)
    assert type(again) is type(envs)
    assert message.endswith("; measured earlier")


def test_the_choice_is_applied_logged_and_kept(caplog, monkeypatch):
    best = tune.Choice("async", 3, "block", 50.0)
    monkeypatch.setattr(tune, "autotune", lambda *args, **kwargs: told(best))
    envs, message = auto(caplog, QUICK, 8, step=0.004)
    assert type(envs) is gymvec.AsyncVectorEnv
    assert envs.num_workers == 3
    assert message == (
        f"{QUICK}, 8 environments: async with 3 workers, wait='block', since it was told so; "
        "measured in 0.25 s"
    )
    assert envs.spec.kwargs["vectorization_mode"] == "async"
    assert envs.spec.kwargs["vector_kwargs"] == {"num_workers": 3, "wait": "block"}
    again, message = auto(caplog, QUICK, 8, step=0.004)
    assert again.num_workers == envs.num_workers
    assert message.endswith("; measured earlier")
    # Neither the specification nor other modes measure.
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="gymvec"):
        same = gymvec.make_vec(envs.spec)
        same.close()
    assert (type(same), same.num_workers) == (gymvec.AsyncVectorEnv, envs.num_workers)
    assert caplog.records == []


def test_more_workers_than_environments_are_said(caplog, monkeypatch):
    best = tune.Choice("async", 2, "block", 1.0)
    monkeypatch.setattr(tune, "autotune", lambda *args, **kwargs: told(best))
    with pytest.warns(UserWarning, match="num_workers=5.*: 2 workers are started"):
        envs, _ = auto(caplog, QUICK, 2, vector_kwargs={"num_workers": 5})
    assert envs.num_workers == 2


@pytest.mark.parametrize(
    "change",
    [{"num_envs": 2}, {"at": 9}, {"vector_kwargs": {"copy": False}}, {"wrappers": (lambda e: e,)}],
)
def test_what_differs_is_measured_anew(caplog, monkeypatch, change):
    calls = []

    def autotune(env_fn, num_envs, **kwargs):
        calls.append(num_envs)
        return told(SYNC)

    monkeypatch.setattr(tune, "autotune", autotune)
    before = {"num_envs": 1, "at": 3}
    for arguments in (before, before, {**before, **change}, {**before, **change}):
        envs, message = auto(caplog, QUICK, **arguments)
        assert type(envs) is gymvec.SyncVectorEnv
    assert calls == [1, change.get("num_envs", 1)]
    plural = "s" if "num_envs" in change else ""
    assert message == (
        f"{QUICK}, {calls[1]} environment{plural}: sync, since it was told so; measured earlier"
    )


@pytest.mark.parametrize("what", [{}, {"num_workers": 2}, {"wait": "block"}])
def test_arguments_of_the_caller_stay(what):
    given = {**what, "autoreset_mode": gymvec.AutoresetMode.SAME_STEP, "shared_memory": False}
    tuning = gymvec.autotune(make_env(step=0.002), 4, vector_kwargs=given, seconds=PLENTY)
    assert len(tuning.rows) > 1
    for row in tuning.rows[1:]:
        assert row.num_workers == what.get("num_workers", row.num_workers)
        assert row.wait == what.get("wait", row.wait)


def test_arguments_of_async_are_left_out_of_sync(caplog, monkeypatch):
    monkeypatch.setattr(tune, "autotune", lambda *args, **kwargs: told(SYNC))
    kwargs = {"wait": "block", "shared_memory": False, "copy": False}
    envs, _ = auto(caplog, QUICK, 1, vector_kwargs=kwargs)
    assert type(envs) is gymvec.SyncVectorEnv
    assert envs.copy is False
    assert kwargs == {"wait": "block", "shared_memory": False, "copy": False}


@pytest.mark.skipif(sys.platform != "linux", reason="a spawned process may need all the time")
@pytest.mark.parametrize(
    ("kwargs", "mode", "reason"),
    [
        ({"step": 0.5}, "async", "takes longer than the 2 s there are"),
        ({"build": 0.5}, None, "takes longer than the 2 s there are"),
        ({"build": 0.5, "step": 0.5}, "async", "takes longer than the 2 s there are"),
        ({"build": 1000}, "async", "building one environment takes longer than the 2 s there are"),
        ({"step": 1000}, "async", "one step takes longer than the 2 s there are"),
        ({"what": "hang", "at": 20}, None, "takes longer than the 2 s there are"),
    ],
)
def test_the_time_is_bounded(monkeypatch, kwargs, mode, reason):
    value = mark(monkeypatch)
    begin = time.monotonic()
    tuning = gymvec.autotune(make_env(**kwargs), 8, vector_kwargs={"context": "fork"})
    seconds = time.monotonic() - begin
    assert seconds < GENEROUS_SECONDS
    assert tuning.seconds <= seconds
    assert reason in tuning.reason
    assert mode in (None, tuning.best.mode)
    if mode is not None:
        assert tuning.rows == ()
        assert math.isnan(tuning.best.microseconds)
    assert gone(value)


def test_nothing_is_left_behind(monkeypatch):
    value = mark(monkeypatch)
    gymvec.autotune(make_env(), 3)
    assert gone(value)


def test_an_environment_that_fails_fails_where_it_is_made(caplog):
    tuning = gymvec.autotune(make_env(nonsense=1), 2, seconds=PLENTY)
    assert tuning.best.mode == "sync"
    assert tuning.reason.startswith("measuring failed (TypeError: ")
    with pytest.raises(TypeError, match="nonsense"):
        gymvec.make_vec(QUICK, 2, vectorization_mode="auto", nonsense=1)


@pytest.mark.skipif(os.name != "posix", reason="other codes")
def test_an_environment_that_ends_its_process():
    tuning = gymvec.autotune(make_env(what="exit", at=2), 2, seconds=PLENTY)
    assert tuning.best.mode == "sync"
    assert tuning.reason == "measuring failed (the process exited with code 7)"


def test_what_only_sync_can():
    """Nothing of the observation can lie in shared memory, which async refuses."""

    class Odd(compare_envs.Quick):
        observation_space = compare_envs.Odd()

        def _observation(self):
            return "odd"

    tuning = gymvec.autotune(Odd, 2, seconds=PLENTY)
    assert tuning.best.mode == "sync"
    assert [row.mode for row in tuning.rows] == ["sync"]
    assert tuning.reason.startswith("measuring failed (")


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        ((0,), {}, ValueError, "expected `num_envs` of at least 1, got 0"),
        ((2.5,), {}, TypeError, "'float' object cannot be interpreted as an integer"),
        (("2",), {}, TypeError, "'str' object cannot be interpreted as an integer"),
        ((2,), {"seconds": 0}, ValueError, "expected `seconds` above 0, got 0"),
        ((2,), {"vector_kwargs": {"cpoy": 1}}, TypeError, "has no argument 'cpoy'"),
        ((2,), {"vector_kwargs": {"batch_size": 1}}, ValueError, 'vectorization_mode="async"'),
    ],
)
def test_wrong_arguments(args, kwargs, error, message):
    with pytest.raises(error, match=message):
        gymvec.autotune(make_env(), *args, **kwargs)


def test_an_id_in_place_of_a_function():
    with pytest.raises(TypeError, match="expected a function that makes an environment, got 'Ca"):
        gymvec.autotune("CartPole-v1", 2)


def test_an_id_without_an_entry_point():
    gym.register("compare/OnlyVector-v0", vector_entry_point=gymvec.SyncVectorEnv)
    try:
        with pytest.raises(gym.error.Error, match="doesn't have an entry point"):
            gymvec.make_vec("compare/OnlyVector-v0", 2, vectorization_mode="auto")
    finally:
        del gym.registry["compare/OnlyVector-v0"]


def _tune_in_a_daemon(pipe):
    tuning = gymvec.autotune(make_env(), 2)
    pipe.send((tuning.best.mode, tuning.reason))


def test_a_process_that_may_have_no_children():
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=_tune_in_a_daemon, args=(theirs,), daemon=True)
    process.start()
    assert ours.poll(60)
    mode, reason = ours.recv()
    process.join()
    assert mode == "sync"
    assert "daemonic processes are not allowed to have children" in reason


PROGRAM = """
import logging, sys
import gymnasium as gym
import gymvec
from compare_envs import Quick

if __name__ == "__main__":
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    gym.register("Guarded-v0", Quick, kwargs={"step": 0.5})
    envs = gymvec.make_vec(
        "Guarded-v0", 2, vectorization_mode="auto",
        vector_kwargs={"context": sys.argv[1], "num_workers": 2},
    )
    envs.reset()
    envs.close()
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_ids_under_the_guard_of_main(tmp_path, method):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join(
        [os.path.dirname(compare_envs.__file__), os.environ.get("PYTHONPATH", "")]
    )
    done = subprocess.run(
        [sys.executable, program, method],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()
    assert line.startswith("Guarded-v0, 2 environments: async with 2 workers")
    assert "measuring failed" not in line


def test_choices_as_text():
    assert isinstance(gymvec.autotune, types.FunctionType)
    assert str(tune.Choice("sync", None, None, 1.0)) == "sync"
    assert str(tune.Choice("async", 1, "auto", 1.0)) == "async with 1 worker, wait='auto'"
    assert str(tune.Choice("async", 2, "block", 1.0)) == "async with 2 workers, wait='block'"
