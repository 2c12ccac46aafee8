"""Environments whose steps take different times: a batch of those that are ready first, beside all.

    python bench/recv.py [--rounds 5] [--num-envs 16] [--mean 0.004]

Each step sleeps for an exponentially distributed time, as a wait for a simulator does, in one
process an environment. A figure is the time per environment step; `batch_size` is a quarter of
the environments. With `--compute` a step computes instead, on as many workers as cores: there is
less to win, since a worker that is waited for has no work left only at the end of a step.
"""

from __future__ import annotations

import argparse
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from measure import about, cores, load, median_ratio, microseconds, report, verdict

import gymvec

TARGET = 1.8


class Exponential(gymnasium.Env):
    """Steps take exponentially distributed times."""

    observation_space = Box(-1.0, 1.0, (8,), np.float32)
    action_space = Discrete(2)

    def __init__(self, mean, compute):
        self._mean = mean
        self._compute = compute
        self._observation = np.zeros(8, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation, {}

    def step(self, action):
        seconds = self.np_random.exponential(self._mean)
        if self._compute:
            until = time.thread_time() + seconds
            while time.thread_time() < until:
                pass
        else:
            time.sleep(seconds)
        return self._observation, 0.0, False, False, {}


def seconds_of_all(envs, count):
    """Seconds per environment step when each step waits for all."""
    n = envs.num_envs
    actions = np.zeros(n, np.int64)
    start = time.perf_counter()
    for _ in range(count // n):
        envs.step(actions)
    return (time.perf_counter() - start) / (count // n * n)


def seconds_of_first(envs, count):
    """Seconds per environment step when batches are of whoever is ready first."""
    actions = np.zeros(envs.batch_size, np.int64)
    batches = count // envs.batch_size
    start = time.perf_counter()
    for _ in range(batches):
        infos = envs.recv()[-1]
        envs.send(actions, infos["env_id"])
    return (time.perf_counter() - start) / (batches * envs.batch_size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--num-envs", type=int, default=16)
    parser.add_argument("--steps", type=int, default=40, help="of each environment in a round")
    parser.add_argument("--mean", type=float, default=0.004, help="seconds of a step")
    parser.add_argument("--compute", action="store_true")
    parser.add_argument("--json", help="where the figures go")
    options = parser.parse_args()
    before = load()
    n = options.num_envs
    workers = cores() if options.compute else n
    fns = [lambda: Exponential(options.mean, options.compute)] * n
    vector_envs = {
        "Gymnasium async, all": (gymnasium.vector.AsyncVectorEnv(fns), seconds_of_all),
        "gymvec async, all": (
            gymvec.AsyncVectorEnv(fns, num_workers=workers),
            seconds_of_all,
        ),
        f"gymvec async, batch_size={n // 4}": (
            gymvec.AsyncVectorEnv(fns, num_workers=workers, batch_size=n // 4),
            seconds_of_first,
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in vector_envs}
    for name, (envs, _) in vector_envs.items():
        envs.async_reset(seed=0) if "batch_size" in name else envs.reset(seed=0)
    for _ in range(options.rounds):
        for name, (envs, measure) in vector_envs.items():
            times[name].append(measure(envs, options.steps * n))
    for envs, _ in vector_envs.values():
        envs.close()
    first = list(times)[-1]
    rows = []
    for name, taken in times.items():
        ratio = median_ratio(taken, times[first])
        wanted = name == "gymvec async, all" and not options.compute
        rows.append(
            (
                name,
                microseconds(taken),
                f"{ratio:.2f}",
                f"{TARGET}" if wanted else "",
                verdict(ratio >= TARGET) if wanted else "",
            )
        )
    kind = "computing" if options.compute else "sleeping"
    report(
        f"Steps of exponentially distributed length ({kind}), mean {options.mean * 1e3:g} ms, "
        f"{n} environments, {workers} workers",
        ("vector environment", "us per env step", f"times {first}", "to reach", "reached"),
        rows,
        {**about(before), "seconds per env step": times},
        options.json,
    )


if __name__ == "__main__":
    main()
