"""Environments that do what their action says, and a model of what must come of it."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import time
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Text
from gymnasium.vector import AutoresetMode

FINE, RAISE, NAP, EXIT, KILL, SEGV, HANG = range(7)
HARMS = (EXIT, KILL, SEGV)
NAP_SECONDS = 0.25
VALUES = Box(-np.inf, np.inf, (5,), np.float64)
SPACES = {"box": VALUES, "mixed": Dict(values=VALUES, text=Text(40, charset="0123456789.-"))}


def length_of(index: int, episode: int) -> int:
    return 2 + (index * 7 + episode * 5) % 6


class Values(NamedTuple):
    """What an observation says."""

    index: float
    pid: float
    episode: float
    steps: float
    said: float

    def observation(self, kind: str) -> Any:
        values = np.array(self, np.float64)
        if kind == "box":
            return values
        return {"values": values, "text": f"{self.index:.0f}.{self.episode:.0f}.{self.steps:.0f}"}


def info_of(values: Values) -> dict[str, Any]:
    """Infos of three shapes: none, numbers, and what goes by message."""
    steps = int(values.steps)
    if steps % 3 == 0:
        return {}
    if steps % 3 == 1:
        return {"steps": steps, "part": {"half": steps / 2}}
    return {"word": f"{values.index:.0f}-{steps}", "row": np.arange(3) + steps}


class Chaotic(gym.Env):
    """Says who it is, in which process and episode, and what it was told."""

    action_space = Box(-np.inf, np.inf, (2,), np.float64)

    def __init__(self, index: int, kind: str) -> None:
        if multiprocessing.parent_process() is not None:
            # The worker may be made to fail by a signal. The dump would look like a failure.
            faulthandler.disable()
        self.observation_space = SPACES[kind]
        self.index = index
        self.kind = kind
        self.episode = 0
        self.steps = 0
        self.tag = 0

    def values(self, said: float) -> Values:
        return Values(self.index, os.getpid(), self.episode, self.steps, said)

    def state(self) -> tuple[int, int, int]:
        return os.getpid(), self.episode, self.steps

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        act, once = (options or {}).get(self.index, (FINE, None))
        if once is None or _take(once):
            self.act(act, "reset")
        self.episode += 1
        self.steps = 0
        values = self.values(0)
        return values.observation(self.kind), {"seed": -1 if seed is None else seed}

    def step(self, action: np.ndarray) -> Any:
        said, act = action.tolist()
        self.act(int(act), "step")
        self.steps += 1
        values = self.values(said)
        over = self.steps >= length_of(self.index, self.episode)
        odd = self.episode % 2 == 1
        reward = self.index * 100.0 + self.steps
        observation = values.observation(self.kind)
        return observation, reward, over and odd, over and not odd, info_of(values)

    def act(self, act: int, where: str) -> None:
        if act == RAISE:
            raise LookupError(f"{where} of {self.index}")
        if act == NAP:
            time.sleep(NAP_SECONDS)
        elif act == HANG:
            time.sleep(600)
        elif act == EXIT:
            os._exit(3)
        elif act in (KILL, SEGV):
            os.kill(os.getpid(), signal.SIGKILL if act == KILL else signal.SIGSEGV)
            time.sleep(600)


def _take(path: str) -> bool:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    return True


class Row(NamedTuple):
    """What one environment returns, with its infos in the order in which they are added."""

    observation: Any
    reward: float
    terminated: bool
    truncated: bool
    infos: list[dict[str, Any]]


class Twin:
    """What one environment must do.

    Attributes:
        lost: Its process was replaced, and the caller has not been told.
        over: The worker will reset it instead of stepping it.
        unknown: Nobody can say what it was told; only a reset of all helps.
        latest: The observation it wrote last, also where the call was not returned.
        seen: The observation that was returned last.
    """

    def __init__(self, index: int, kind: str, mode: AutoresetMode) -> None:
        self.index = index
        self.kind = kind
        self.mode = mode
        self.pid = 0
        self.episode = 0
        self.steps = 0
        self.tag = 0
        self.lost = False
        self.over = False
        self.unknown = False
        self.latest: Any = None
        self.seen: Any = None

    def values(self, said: float) -> Values:
        return Values(self.index, self.pid, self.episode, self.steps, said)

    def replaced(self, pid: int) -> None:
        self.pid = pid
        self.episode = self.steps = self.tag = 0
        self.lost = True
        self.over = False
        self.latest = self.seen

    def acts(self, act: int) -> bool:
        """Whether a step does what its action says."""
        return (
            act != FINE
            and not self.lost
            and not (self.over and self.mode is not AutoresetMode.DISABLED)
        )

    def reset(self, seed: int | None = None) -> Row:
        self.episode += 1
        self.steps = 0
        self.lost = self.over = False
        self.latest = observation = self.values(0).observation(self.kind)
        return Row(observation, 0.0, False, False, [{"seed": -1 if seed is None else seed}])

    def step(self, said: float) -> Row:
        if self.lost:
            self.lost = False
            return self._ended(Row(self.seen, 0.0, False, True, [{"worker_restarted": True}]))
        if self.over:
            return self.reset()
        self.steps += 1
        values = self.values(said)
        over = self.steps >= length_of(self.index, self.episode)
        odd = self.episode % 2 == 1
        info = info_of(values)
        self.latest = values.observation(self.kind)
        row = Row(
            self.latest,
            self.index * 100.0 + self.steps,
            over and odd,
            over and not odd,
            [info] if info else [],
        )
        return self._ended(row) if over else row

    def _ended(self, row: Row) -> Row:
        if self.mode is not AutoresetMode.SAME_STEP:
            self.over = True
            return row
        final = row.infos[0] if row.infos else {}
        first = self.reset()
        infos = [{"final_obs": row.observation, "final_info": final}, *first.infos]
        if "worker_restarted" in final:
            infos[1] = {**infos[1], "worker_restarted": True}
        return row._replace(observation=first.observation, infos=infos)


def assert_batch(observations: Any, rows: list[Row], kind: str, what: str) -> None:
    """Check a batch of observations, which is in the order of the rows."""
    expected = [row.observation for row in rows]
    if kind == "box":
        assert observations.tolist() == [one.tolist() for one in expected], what
        return
    assert observations["values"].tolist() == [one["values"].tolist() for one in expected], what
    assert observations["text"] == tuple([one["text"] for one in expected]), what


def expected_infos(rows: list[tuple[int, Row]], count: int) -> dict[str, Any]:
    """What Gymnasium makes of the infos of some rows."""
    envs = gym.vector.VectorEnv()
    envs.num_envs = count
    infos: dict[str, Any] = {}
    for position, row in rows:
        for info in row.infos:
            infos = envs._add_info(infos, info, position)
    return infos


def assert_infos(actual: Any, expected: Any, what: str) -> None:
    """Check infos; the order of keys is not promised."""
    assert type(actual) is type(expected), what
    if isinstance(expected, dict):
        assert set(actual) == set(expected), f"{what}: {set(actual)} for {set(expected)}"
        for key, value in expected.items():
            assert_infos(actual[key], value, f"{what}[{key!r}]")
    elif isinstance(expected, np.ndarray) and expected.dtype == object:
        for one, other in zip(actual, expected, strict=True):
            assert_infos(one, other, what)
    elif isinstance(expected, np.ndarray):
        assert actual.dtype == expected.dtype and actual.shape == expected.shape, what
        assert actual.tolist() == expected.tolist(), f"{what}: {actual} for {expected}"
    else:
        assert actual == expected, f"{what}: {actual} for {expected}"
