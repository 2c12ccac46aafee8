"""AsyncVectorEnv with `on_worker_death="restart"`: workers that die are replaced."""

import os
import signal
import sys

import numpy as np
import pytest
from async_envs import Acts, alive, die, die_beside_a_child
from gymnasium.spaces import Box, Dict, Discrete, Text, Tuple
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
from scripted import Scripted
from spaces_zoo import discrete

from gymvec import WorkerDiedError

pytestmark = [
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform == "win32", reason="signals"),
]


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
    assert not any(process.is_alive() for process in envs.processes)


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


MIXED = Dict(
    text=Text(8),
    number=Discrete(100),
    pair=Tuple((Box(0, 100, (2,), np.int16), Text(8), discrete(50, np.int32))),
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
