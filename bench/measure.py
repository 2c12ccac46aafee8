"""What the benchmarks of vector environments share: environments, vector environments, tables."""

import json
import re
import statistics
from functools import partial
from pathlib import Path

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
    "ENVIRONMENTS", "QUARTILES", "SEED", "STEP_QUARTILES", "VECTOR_ENVS", "Nothing", "about",
    "action_batches", "cores", "cpu_seconds", "digits", "load", "load_text", "median_ratio",
    "microseconds", "quartiles", "reduced", "report", "verdict", "write",
]  # fmt: skip

# Where results have the lower quartile, the median and the upper quartile.
QUARTILES = "us per env step, quartiles"
STEP_QUARTILES = "us per step, quartiles"


class Nothing(gymnasium.Env):
    """Does nothing, so that only the vector environment takes time.

    Args:
        infos: How many numbers the info of a step has.
    """

    observation_space = Box(-1.0, 1.0, (8,), np.float32)
    action_space = Discrete(2)

    def __init__(self, infos=0):
        self._observation = np.zeros(8, np.float32)
        self._keys = [f"number {i}" for i in range(infos)]

    def reset(self, *, seed=None, options=None):
        return self._observation, {}

    def step(self, action):
        return self._observation, 0.0, False, False, dict.fromkeys(self._keys, 0.5)


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
    "Nothing with 10 infos": partial(Nothing, 10),
    "CartPole-v1": partial(gymnasium.make, "CartPole-v1"),
    "HalfCheetah-v5": partial(gymnasium.make, "HalfCheetah-v5"),
    "Ant-v5": partial(gymnasium.make, "Ant-v5"),
    "ALE/Pong-v5": pong,
    "MiniGrid-Empty-8x8-v0": minigrid,
}

VECTOR_ENVS = {
    "Gymnasium sync": lambda fns, workers: gymnasium.vector.SyncVectorEnv(fns),
    "gymvec sync": lambda fns, workers: gymvec.SyncVectorEnv(fns),
    "Gymnasium async": lambda fns, workers: gymnasium.vector.AsyncVectorEnv(fns),
    "gymvec async": lambda fns, workers: gymvec.AsyncVectorEnv(fns, num_workers=workers),
}


def cpu_seconds(processes):
    """Time on a core that processes have taken so far, in all."""
    times = [psutil.Process(process.pid).cpu_times() for process in processes]
    return sum(time.user + time.system for time in times)


def microseconds(seconds):
    """The median of a series, as a table has it."""
    return digits(statistics.median(seconds) * 1e6)


def quartiles(seconds):
    """The lower quartile, the median and the upper quartile in microseconds, of six digits."""
    return [float(f"{value * 1e6:.6g}") for value in np.percentile(seconds, (25, 50, 75))]


def reduced(found):
    """The results of backends with quartiles in place of what each round gave.

    Args:
        found: Of :func:`gymvec.cli.report.results`, with one environment.
    """
    ours = {
        result["num_envs"]: result["seconds"]
        for result in found
        if result["backend"] == "gymvec async"
    }
    return [_reduced(result, ours.get(result["num_envs"])) for result in found]


def _reduced(result, ours):
    seconds = result["seconds"]
    return {
        "backend": result["backend"],
        "num_envs": result["num_envs"],
        "workers": result["workers"],
        "steps": result["steps"],
        "reason": result["reason"],
        "unevenness": statistics.median(result["unevenness"]) if result["unevenness"] else None,
        QUARTILES: quartiles(seconds) if seconds else None,
        "efficiency": result["efficiency"],
        "over gymvec async": median_ratio(seconds, ours) if seconds and ours else None,
    }


def write(path, figures):
    """Write results as JSON, with a series of numbers in one line."""
    text = json.dumps(figures, indent=1)
    text = re.sub(r"\[\n([^\[\]{}\"]+)\]", lambda series: f"[{' '.join(series[1].split())}]", text)
    Path(path).write_text(text + "\n")


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
        write(path, figures)
