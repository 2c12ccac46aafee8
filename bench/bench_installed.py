"""What programs that only know Gymnasium gain by ``gymvec.install()``, and what it costs.

    python bench/bench_installed.py [--rounds N] [--startup]

Rounds with gymvec installed and without alternate, so that whatever else the machine does
falls on both. The table has medians and their ratio, of CPU time where one process works
alone, which other programs disturb less than wall time.
"""

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import warnings

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Graph, Sequence, Tuple, flatten
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import FrameStackObservation
from gymnasium.wrappers import vector as vector_wrappers

import gymvec

NESTED = Dict(
    image=Box(0, 255, (8, 8), np.uint8), body=Tuple((Box(-1, 1, (6,)), Discrete(4))), on=Discrete(2)
)


class Blank(gymnasium.Env):
    """An environment that does nothing, to see the machinery around it."""

    action_space = Box(-1, 1, (6,))

    def __init__(self, space):
        self.observation_space = space
        self.sample = space.sample()

    def reset(self, *, seed=None, options=None):
        return self.sample, {}

    def step(self, action):
        return self.sample, 0.0, False, False, {}


def stack(space, size):
    env = FrameStackObservation(Blank(space), size)
    env.reset()
    action = env.action_space.sample()
    return lambda: env.step(action), env.close


def vector(num_envs, space, wrap=lambda env: env, kind=gymnasium.vector.SyncVectorEnv, **kwargs):
    env = wrap(kind([lambda: Blank(space)] * num_envs, **kwargs))
    env.reset()
    actions = env.action_space.sample()
    return lambda: env.step(actions), env.close


def make_vec(num_envs):
    def call():
        gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="sync").close()

    return call, lambda: None


def cartpole(num_envs):
    env = gymnasium.make_vec("CartPole-v1", num_envs, vectorization_mode="sync")
    env.reset(seed=0)
    actions = np.zeros(num_envs, np.int64)
    return lambda: env.step(actions), env.close


def sequence(action):
    space = Sequence(NESTED, stack=True, seed=0)
    sample = space.sample(mask=(np.array([16]), None))
    if action == "sample":
        return lambda: space.sample(mask=(np.array([16]), None)), lambda: None
    return lambda: flatten(space, sample), lambda: None


def graph(action):
    space = Graph(Box(-1, 1, (6,)), Discrete(4), seed=0)
    sample = space.sample(num_nodes=16, num_edges=32)
    if action == "sample":
        return lambda: space.sample(num_nodes=16, num_edges=32), lambda: None
    return lambda: flatten(space, sample), lambda: None


CASES = {
    "FrameStackObservation(4), Box (4,)": lambda: stack(Box(-1, 1, (4,)), 4),
    "FrameStackObservation(4), image (84, 84)": lambda: stack(Box(0, 255, (84, 84), np.uint8), 4),
    "FrameStackObservation(4), nested Dict": lambda: stack(NESTED, 4),
    "Sequence.sample, 16 nested Dicts": lambda: sequence("sample"),
    "flatten of Sequence, 16 nested Dicts": lambda: sequence("flatten"),
    "Graph.sample, 16 nodes, 32 edges": lambda: graph("sample"),
    "flatten of Graph, 16 nodes, 32 edges": lambda: graph("flatten"),
    "batch_space of nested Dict, 64": lambda: (lambda: batch_space(NESTED, 64), lambda: None),
    "vector FlattenObservation, 64 nested Dicts": lambda: vector(
        64, NESTED, vector_wrappers.FlattenObservation
    ),
    "vector RescaleAction, 64 of (6,)": lambda: vector(
        64, Box(-1, 1, (4,)), lambda env: vector_wrappers.RescaleAction(env, -2.0, 2.0)
    ),
    "SyncVectorEnv.step, 64 of Box (4,)": lambda: vector(64, Box(-1, 1, (4,))),
    "SyncVectorEnv.step, 64 nested Dicts": lambda: vector(64, NESTED),
    "SyncVectorEnv.step, 64 CartPole-v1": lambda: cartpole(64),
    "AsyncVectorEnv.step, 4 nested Dicts": lambda: vector(
        4, NESTED, kind=gymnasium.vector.AsyncVectorEnv
    ),
    "make_vec of 64 CartPole-v1": lambda: make_vec(64),
}


def seconds(call, calls, clock):
    call()
    start = clock()
    for _ in range(calls):
        call()
    return (clock() - start) / calls


def compare(make, rounds, clock):
    """The median seconds of a call without gymvec, and with it."""
    without, close_without = make()
    with gymvec.installation():
        # The children of a vector environment are as their parent was when they started.
        installed, close_installed = make()
    calls = max(1, int(0.01 / seconds(without, 3, time.perf_counter)))
    times = [], []
    for _ in range(rounds):
        times[0].append(seconds(without, calls, clock))
        with gymvec.installation():
            times[1].append(seconds(installed, calls, clock))
    close_without()
    close_installed()
    return statistics.median(times[0]), statistics.median(times[1])


def startup(rounds):
    """CPU milliseconds of ``import gymvec`` after Gymnasium, and of ``install()``."""
    program = (
        "import gymnasium; from time import process_time as now; a = now(); import gymvec\n"
        "b = now(); gymvec.install(); c = now(); print((b - a) * 1e3, (c - b) * 1e3)"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": cache}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        runs = [
            subprocess.check_output([sys.executable, "-c", program], env=environment, text=True)
            for _ in range(rounds + 1)
        ]
    # The first run compiled the modules.
    times = [tuple(map(float, run.split())) for run in runs[1:]]
    names = "import gymvec", "gymvec.install()"
    for what, column in zip(names, zip(*times, strict=True), strict=True):
        print(f"{what:20} median {statistics.median(column):.2f} ms of CPU")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--startup", action="store_true", help="measure only the start-up")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, Gymnasium "
        f"{gymnasium.__version__}, {os.cpu_count()} cores, {platform.platform()}"
    )
    if arguments.startup:
        startup(arguments.rounds)
        return
    print(f"{'median us a call':45} {'without':>9} {'with':>9} {'ratio':>6}")
    for name, make in CASES.items():
        if arguments.only in name:
            clock = time.perf_counter if "Async" in name else time.process_time
            without, installed = compare(make, arguments.rounds, clock)
            print(
                f"{name:45} {without * 1e6:9.1f} {installed * 1e6:9.1f} {without / installed:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
