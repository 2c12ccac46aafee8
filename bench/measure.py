"""What the benchmarks of vector environments share: environments, vector environments, tables."""

import json
import statistics
from functools import partial

import gymnasium
import gymnasium.vector
import numpy as np
import psutil
from gymnasium.spaces import Box, Discrete

import gymvec
from gymvec.measuring import facts
from gymvec.measuring.facts import digits, median_ratio
from gymvec.measuring.load import load, load_text
from gymvec.measuring.workloads import SEED, action_batches
from gymvec.system.limits import usable_cores as cores

__all__ = [
    "ENVIRONMENTS", "SEED", "VECTOR_ENVS", "Nothing", "about", "action_batches", "cores",
    "cpu_seconds", "digits", "load", "median_ratio", "microseconds", "report", "verdict",
]  # fmt: skip


class Nothing(gymnasium.Env):
    """Does nothing, so that only the vector environment takes time."""

    observation_space = Box(-1.0, 1.0, (8,), np.float32)
    action_space = Discrete(2)

    def __init__(self):
        self._observation = np.zeros(8, np.float32)

    def reset(self, *, seed=None, options=None):
        return self._observation, {}

    def step(self, action):
        return self._observation, 0.0, False, False, {}


def pong():
    import ale_py
    from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation

    # It prints its name at each start.
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gymnasium.register_envs(ale_py)
    env = gymnasium.make("ALE/Pong-v5", frameskip=1)
    return FrameStackObservation(AtariPreprocessing(env), 4)


def minigrid():
    import minigrid

    gymnasium.register_envs(minigrid)
    return gymnasium.make("MiniGrid-Empty-8x8-v0")


ENVIRONMENTS = {
    "Nothing": Nothing,
    "CartPole-v1": partial(gymnasium.make, "CartPole-v1"),
    "HalfCheetah-v5": partial(gymnasium.make, "HalfCheetah-v5"),
    "Ant-v5": partial(gymnasium.make, "Ant-v5"),
    "ALE/Pong-v5": pong,
    "MiniGrid-Empty-8x8-v0": minigrid,
}

VECTOR_ENVS = {
    "Gymnasium sync": lambda fns, workers: gymnasium.vector.SyncVectorEnv(fns),
    "Gymnasium async": lambda fns, workers: gymnasium.vector.AsyncVectorEnv(fns),
    "gymvec sync": lambda fns, workers: gymvec.SyncVectorEnv(fns),
    "gymvec async": lambda fns, workers: gymvec.AsyncVectorEnv(fns, num_workers=workers),
}


def cpu_seconds(processes):
    """Time on a core that processes have taken so far, in all."""
    times = [psutil.Process(process.pid).cpu_times() for process in processes]
    return sum(time.user + time.system for time in times)


def microseconds(seconds):
    """The median of a series, as a table has it."""
    return digits(statistics.median(seconds) * 1e6)


def verdict(reached):
    """How a table says whether a row reaches its target."""
    return {True: "yes", False: "**no**", None: ""}[reached]


def about(load_before):
    """What a figure means nothing without."""
    packages = ["numpy", "gymnasium", "gymvec", "mujoco", "ale-py", "minigrid"]
    return facts.about(load_before, packages)


def report(title, header, rows, figures, path=None):
    """Print a table with what it means nothing without, and write both as JSON.

    Args:
        title: One line.
        header: Names of the columns.
        rows: The cells, texts.
        figures: Of :func:`about`, with all the figures under further keys.
        path: Where the JSON goes; None for nowhere.
    """
    print(f"\n{title}\n")
    print("| " + " | ".join(header) + " |")
    print("|---" + "|---:" * (len(header) - 1) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    versions = ", ".join(f"{name} {found}" for name, found in figures["versions"].items())
    print(f"\n`{figures['command']}` on {figures['machine']}, {figures['system']}; {versions}.")
    print(load_text(*figures["load before and after"]), flush=True)
    if path is not None:
        with open(path, "w") as file:
            json.dump(figures, file, indent=1)
            file.write("\n")
