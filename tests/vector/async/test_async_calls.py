"""Calls of AsyncVectorEnv: their order, time-outs, attributes, the end."""

import multiprocessing
import time
import warnings

import gymnasium as gym
import numpy as np
import pytest
from async_envs import Acts, alive, sleep, wait_until
from gymnasium.error import AlreadyPendingCallError, ClosedEnvironmentError, NoAsyncCallError
from gymnasium.spaces import Dict, Discrete, Text
from lockstep import assert_same
from scripted import Scripted

from gymvec import AsyncVectorEnv

pytestmark = pytest.mark.timeout(60)

ZEROS = np.zeros((3, 2), np.float32)
THEIRS = gym.vector.AsyncVectorEnv
CALLS = {
    "reset": lambda envs: envs.reset(),
    "reset_async": lambda envs: envs.reset_async(),
    "step": lambda envs: envs.step(ZEROS),
    "step_async": lambda envs: envs.step_async(ZEROS),
    "call": lambda envs: envs.call("twice", 1),
    "call_async": lambda envs: envs.call_async("twice", 1),
    "render": lambda envs: envs.render(),
    "get_attr": lambda envs: envs.get_attr("steps"),
    "set_attr": lambda envs: envs.set_attr("steps", 1),
    "np_random": lambda envs: envs.np_random,
    "np_random_seed": lambda envs: envs.np_random_seed,
}
WAITS = ("reset_wait", "step_wait", "call_wait")
BEGINS = ("reset_async", "step_async", "call_async")


def make(n=3, **kwargs):
    own = {name: kwargs.pop(name) for name in ("shared_memory",) if name in kwargs}
    return AsyncVectorEnv([lambda: Acts(**kwargs)] * n, num_workers=2, **own)


@pytest.fixture
def envs():
    envs = make()
    envs.reset()
    yield envs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        envs.close()


def test_attributes(envs):
    theirs = THEIRS([Acts] * 3)
    try:
        hidden = {"processes", "parent_pipes", "env_fns", "error_queue", "dummy_env_fn"}
        hidden |= {"observations", "observation_space", "action_space"}
        for name, value in vars(theirs).items():
            if not name.startswith("_") and name not in hidden:
                assert getattr(envs, name) == value, name
        assert envs.observation_space == theirs.observation_space
        assert envs.action_space == theirs.action_space
        assert repr(envs) == repr(theirs)
        assert len(envs.processes) == envs.num_workers == 2
        assert Scripted.metadata == gym.Env.metadata
    finally:
        theirs.close()


# --- order ------------------------------------------------------------------------------


@pytest.mark.parametrize("begin", BEGINS)
def test_calls_while_another_is_pending(envs, begin):
    CALLS[begin](envs)
    for call in CALLS.values():
        with pytest.raises(AlreadyPendingCallError, match=f"pending call to `{begin[:-6]}`"):
            call(envs)
    for wait in WAITS:
        if wait[:-5] != begin[:-6]:
            with pytest.raises(NoAsyncCallError, match=f"`{wait}` without any prior"):
                getattr(envs, wait)()
    getattr(envs, f"{begin[:-6]}_wait")()
    envs.reset()


@pytest.mark.parametrize("wait", WAITS)
def test_waits_without_a_call(envs, wait):
    with pytest.raises(NoAsyncCallError):
        getattr(envs, wait)()
    with pytest.raises(NoAsyncCallError):
        getattr(envs, wait)(timeout=0.1)
    envs.step(ZEROS)


@pytest.mark.parametrize(
    "call", [*CALLS.values(), *(lambda e, w=w: getattr(e, w)() for w in WAITS)]
)
def test_after_close(envs, call):
    envs.close()
    assert envs.closed
    with pytest.raises(ClosedEnvironmentError):
        call(envs)
    envs.close()
    envs.close(terminate=True)


# --- the end ----------------------------------------------------------------------------


@pytest.mark.parametrize("terminate", [True, False])
@pytest.mark.parametrize("begin", BEGINS)
def test_close_with_a_pending_call(begin, terminate):
    envs = make()
    envs.reset()
    CALLS[begin](envs)
    with pytest.warns(UserWarning, match=f"waiting for a pending call to `{begin[:-6]}`"):
        envs.close(terminate=terminate)
    assert not any(process.is_alive() for process in envs.processes)


@pytest.mark.parametrize("kwargs", [{}, {"timeout": 0}, {"timeout": 0.2}, {"terminate": True}])
def test_close_ends_every_process_and_environment(kwargs, tmp_path):
    def note(env, name):
        (tmp_path / f"{id(env)}-{name}").touch()

    envs = make(act=note, at="close")
    envs.reset()
    envs.close(**kwargs)
    assert [process.exitcode is not None for process in envs.processes] == [True, True]
    if kwargs == {}:
        assert [process.exitcode for process in envs.processes] == [0, 0]
        assert len(list(tmp_path.iterdir())) >= 3


def test_close_of_an_environment_that_never_returns():
    envs = make(act=sleep(100), at="step")
    envs.reset()
    envs.step_async(ZEROS)
    begun = time.monotonic()
    with pytest.warns(UserWarning, match="pending call"):
        envs.close(timeout=0.3)
    assert time.monotonic() - begun < 5
    assert not any(process.is_alive() for process in envs.processes)


def test_deletion_without_close():
    envs = make()
    envs.reset()
    pids = [process.pid for process in envs.processes]
    envs.step_async(ZEROS)
    del envs
    assert wait_until(lambda: not any(map(alive, pids)), 5)


# --- time-outs --------------------------------------------------------------------------


@pytest.mark.parametrize("shared_memory", [True, False])
@pytest.mark.parametrize("then", ["step", "reset", "reset some", "get_attr", "set_attr", "render"])
def test_late_answers_never_show_up(then, shared_memory):
    """The first environment sleeps in its second step."""
    space = Dict({"n": Discrete(9), "text": Text(5)})
    envs = make(
        shared_memory=shared_memory,
        observation_space=space,
        observe=lambda steps: {"n": steps, "text": str(steps)},
        act=lambda env, name: time.sleep(0.5 if env.steps == 1 and env.reward == 7.0 else 0),
        at="step",
    )
    envs.set_attr("reward", [7.0, 1.0, 2.0])
    envs.reset()
    envs.step(ZEROS)
    envs.step_async(ZEROS)
    for kind in (TimeoutError, multiprocessing.TimeoutError):
        assert issubclass(_late(envs, lambda: envs.step_wait(timeout=0.05)), kind)
        CALLS["step_async"](envs)
    assert issubclass(_late(envs, lambda: envs.step_wait(timeout=0)), TimeoutError)
    if then == "step":
        observations, rewards, *_ = envs.step(ZEROS)
        assert rewards.tolist() == [7, 1, 2]
        assert observations["n"].tolist() == [3, 3, 3]
        assert observations["text"] == ("3", "3", "3")
    elif then == "reset":
        assert envs.reset()[0]["n"].tolist() == [0, 0, 0]
    elif then == "reset some":
        observations, _ = envs.reset(options={"reset_mask": np.array([False, True, True])})
        assert observations["n"].tolist() == [2, 0, 0]
        assert observations["text"] == ("2", "0", "0")
    elif then == "get_attr":
        assert envs.get_attr("steps") == (2, 2, 2)
    elif then == "set_attr":
        envs.set_attr("steps", [4, 5, 6])
        assert envs.get_attr("steps") == (4, 5, 6)
    else:
        assert envs.render() == ("frame 2",) * 3
    observations, *_ = envs.reset()
    assert observations["text"] == ("0", "0", "0")
    assert envs.step(ZEROS)[0]["n"].tolist() == [1, 1, 1]
    envs.close()


def _late(envs, call):
    with pytest.raises(TimeoutError, match="has timed out after") as caught:
        call()
    return type(caught.value)


@pytest.mark.parametrize("then", ["reset", "step", "call"])
def test_what_a_call_that_timed_out_has_done_is_said(envs, then):
    """It was made, unless the environments still had another one to answer."""
    envs.call_async("nap", 0.4)
    begin = getattr(envs, f"{then}_async")
    wait = getattr(envs, f"{then}_wait")
    arguments = {"reset": (5,), "step": (ZEROS,), "call": ("__setattr__", "reward", 5.0)}[then]
    with pytest.raises(TimeoutError, match=r"after 0.05 second\(s\)\.$"):
        envs.call_wait(timeout=0.05)
    for _ in range(2):
        begin(*arguments)
        with pytest.raises(TimeoutError, match=f"`{then}_wait` has timed out .* was not sent: "):
            wait(timeout=0.05)
    assert envs.get_attr("reward") == (1.0,) * 3
    assert envs.get_attr("steps") == (0,) * 3
    assert [len(resets) for resets in envs.get_attr("resets")] == [1] * 3
    envs.set_attr("act", sleep(0.2))
    envs.set_attr("at", "step reset")
    if then != "call":
        begin(*arguments)
        with pytest.raises(TimeoutError, match=r"after 0.05 second\(s\)\.$"):
            wait(timeout=0.05)
        assert envs.get_attr("steps") == (int(then == "step"),) * 3
        assert [len(resets) for resets in envs.get_attr("resets")] == [1 + (then == "reset")] * 3


def test_late_calls_and_resets(envs):
    envs.call_async("nap", 0.3)
    _late(envs, lambda: envs.call_wait(timeout=0.05))
    assert envs.call("twice", 4) == (8, 8, 8)
    envs.set_attr("observe", lambda steps: time.sleep(0.3) or np.ones(2))
    envs.reset_async(seed=3)
    _late(envs, lambda: envs.reset_wait(timeout=0.05))
    envs.reset_async(seed=5)
    envs.reset_wait(timeout=20)
    assert [[seed for seed, _ in one] for one in envs.get_attr("resets")] == [
        [None, 3, 5], [None, 4, 6], [None, 5, 7],
    ]  # fmt: skip


def test_the_failure_of_a_late_environment_is_not_raised_later(envs):
    envs.set_attr("act", lambda env, name: time.sleep(0.3) or 1 / 0)
    envs.set_attr("at", "step")
    envs.step_async(ZEROS)
    _late(envs, lambda: envs.step_wait(timeout=0.05))
    assert envs.get_attr("steps") == (0, 0, 0)
    envs.step_async(ZEROS)
    _late(envs, lambda: envs.step_wait(timeout=0.05))
    envs.close()


def test_close_after_a_time_out():
    envs = make(act=sleep(0.4), at="step")
    envs.reset()
    envs.step_async(ZEROS)
    _late(envs, lambda: envs.step_wait(timeout=0.05))
    envs.close()
    assert [process.exitcode for process in envs.processes] == [0, 0]


# --- calls and attributes ---------------------------------------------------------------


def test_call_and_attributes():
    envs = AsyncVectorEnv([lambda: gym.wrappers.TimeLimit(Scripted(), 5)] * 3, num_workers=2)
    assert envs.call("twice", 2, plus=1) == (5, 5, 5)
    assert envs.get_attr("steps") == (0, 0, 0)
    envs.set_attr("steps", [1, 2, 3])
    assert envs.render() == ("frame 1", "frame 2", "frame 3")
    envs.set_attr("steps", 7)
    assert envs.call("steps") == (7, 7, 7)
    envs.reset(seed=[0, 1, 2])
    assert len(envs.np_random) == 3
    with pytest.raises(AttributeError, match="nothing"):
        envs.get_attr("nothing")
    with pytest.raises(TypeError):
        envs.call("twice")
    with pytest.raises(TypeError):
        envs.call("twice", (i for i in ()))
    with pytest.raises(ValueError, match="Got `2` values for 3 environments"):
        envs.set_attr("steps", [1, 2])
    assert envs.get_attr("steps") == (0, 0, 0)
    envs.close()


@pytest.mark.parametrize("name", ["reset", "step", "close", "_setattr", "_check_spaces"])
def test_names_that_call_forbids(envs, name):
    # Gymnasium's text; there the workers die of it.
    text = f"Trying to call function `{name}` with `call`, use `{name}` directly instead."
    with pytest.raises(ValueError, match=text):
        envs.call(name)
    assert envs.call("twice", 1) == (2, 2, 2)


def test_random_state():
    seeds = []
    for kind in (AsyncVectorEnv, gym.vector.SyncVectorEnv):
        envs = kind([lambda: gym.make("CartPole-v1")] * 2)
        envs.reset(seed=11)
        seeds.append((envs.np_random_seed, [g.bit_generator.state for g in envs.np_random]))
        envs.close()
    assert seeds[0][0] == seeds[1][0] == (11, 12)
    assert_same(seeds[0][1], seeds[1][1])
