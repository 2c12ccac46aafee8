"""Time per env step of gymvec's SyncVectorEnv beside Gymnasium's.

    python bench/bench_sync.py [--steps 2000] [--rounds 9]

Both are timed in turns in one process, which does all the work itself: the figures are medians
of CPU time over the rounds.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete

import gymvec

BOX = Box(-1, 1, (8,), np.float32)


class Nothing(gymnasium.Env):
    """An environment whose step costs nothing."""

    observation_space = BOX
    action_space = Box(-1, 1, (2,), np.float32)

    def __init__(self, observation: Any = None, info: dict[str, Any] | None = None) -> None:
        self.observation = np.zeros(8, np.float32) if observation is None else observation
        self.info = {} if info is None else info

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return self.observation, self.info

    def step(self, action: Any) -> Any:
        return self.observation, 0.0, False, False, self.info


class Nested(Nothing):
    """Four array leaves in a Dict."""

    observation_space = Dict(a=BOX, b=Dict(c=BOX, d=Discrete(4)), e=Box(0, 255, (64,), np.uint8))

    def __init__(self) -> None:
        super().__init__(self.observation_space.sample())


def frame() -> gymnasium.Env:
    env = Nothing(np.zeros((84, 84, 4), np.uint8))
    env.observation_space = Box(0, 255, (84, 84, 4), np.uint8)
    return env


ENVIRONMENTS = {
    "does nothing": Nothing,
    "does nothing, nested": Nested,
    "does nothing, (84, 84, 4)": frame,
    "does nothing, four info numbers": lambda: Nothing(info=dict.fromkeys("abcd", 1.5)),
    "does nothing, ten info numbers": lambda: Nothing(info=dict.fromkeys("abcdefghij", 1.5)),
    "CartPole-v1": lambda: gymnasium.make("CartPole-v1"),
}


def seconds_per_env_step(envs: gymnasium.vector.VectorEnv, actions: Any, steps: int) -> float:
    start = time.process_time()
    for _ in range(steps):
        envs.step(actions)
    return (time.process_time() - start) / steps / envs.num_envs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=2000, help="env steps in one timing")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 8, 32, 128])
    options = parser.parse_args()
    print(
        f"gymvec, Gymnasium {gymnasium.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n"
    )
    print("| environment | n | Gymnasium, us | gymvec, us | ratio |\n|---|---|---|---|---|")
    for name, factory in ENVIRONMENTS.items():
        for n in options.sizes:
            pair = [
                kind([factory] * n)
                for kind in (gymnasium.vector.SyncVectorEnv, gymvec.SyncVectorEnv)
            ]
            actions = pair[0].action_space.sample()
            times: list[list[float]] = [[], []]
            for envs in pair:
                envs.reset(seed=0)
            for _ in range(options.rounds):
                for envs, taken in zip(pair, times, strict=True):
                    taken.append(seconds_per_env_step(envs, actions, max(1, options.steps // n)))
            theirs, ours = (1e6 * statistics.median(taken) for taken in times)
            print(f"| {name} | {n} | {theirs:.2f} | {ours:.2f} | {theirs / ours:.1f} |")


if __name__ == "__main__":
    main()
