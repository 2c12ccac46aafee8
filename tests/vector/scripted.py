"""A sub-environment whose steps are written down in the test."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Space

BOX = Box(-10, 10, (2,), np.float32)


class Scripted(gym.Env):
    """Observations count the steps; the arguments say the rest.

    Args:
        observation_space: Its observation space.
        action_space: Its action space.
        length: Length of an episode.
        observe: Makes an observation from the number of steps.
        reward: What a step returns as reward.
        fail: Names of the methods that raise.
        error: What they raise.
    """

    def __init__(
        self,
        observation_space: Space = BOX,
        action_space: Space = BOX,
        length: int = 3,
        observe: Any = lambda steps: np.full(2, steps, np.float32),
        reward: Any = 1.0,
        fail: tuple[str, ...] = (),
        error: BaseException | None = None,
    ) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self.length = length
        self.observe = observe
        self.reward = reward
        self.fail = set(fail)
        self.error = error or LookupError("scripted")
        self.actions: list[Any] = []
        self.resets: list[Any] = []
        self.steps = 0
        self.closed = 0

    def maybe_fail(self, name: str) -> None:
        if name in self.fail:
            raise self.error

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.maybe_fail("reset")
        self.resets.append((seed, options))
        self.steps = 0
        return self.observe(0), {}

    def step(self, action: Any) -> Any:
        self.maybe_fail("step")
        self.actions.append(action)
        self.steps += 1
        return self.observe(self.steps), self.reward, self.steps >= self.length, False, {}

    def render(self) -> str:
        self.maybe_fail("render")
        return f"frame {self.steps}"

    def close(self) -> None:
        self.closed += 1
        self.maybe_fail("close")

    def twice(self, number: int, plus: int = 0) -> int:
        self.maybe_fail("twice")
        return 2 * number + plus
