"""Time to gather the infos of one step, gymvec's way beside Gymnasium's.

    python bench/bench_infos.py [--rounds 31]
    python bench/bench_infos.py --steps 200

Both are timed in turns in one process, which does all the work itself: the figures are medians
of CPU time over the rounds. With ``--steps`` whole vector environments step environments that
do nothing but return an info, and the figures are times of a step on the clock.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from measure import VECTOR_ENVS, Nothing, about, cores, load, median_ratio, microseconds, report

from gymvec.kernels.infos import gather_infos

KEYS = (1, 4, 10)
KINDS: dict[str, Callable[[int], Any]] = {
    "float": float,
    "np.float64": np.float64,
    "int": int,
    "array of 3": lambda i: np.full(3, float(i)),
    "str": str,
}


def gymnasiums(infos: list[dict[str, Any]]) -> dict[str, Any]:
    envs: Any = VectorEnv()
    envs.num_envs = len(infos)
    result: dict[str, Any] = {}
    for i, info in enumerate(infos):
        result = envs._add_info(result, info, i)
    return result


def gymvecs(infos: list[dict[str, Any]]) -> dict[str, Any]:
    return gather_infos(enumerate(infos), len(infos))


def seconds(function: Callable[[Any], Any], infos: list[dict[str, Any]]) -> float:
    start = time.process_time()
    function(infos)
    return time.process_time() - start


class Informed(Nothing):
    """Returns an info of so many numbers."""

    def __init__(self, keys: int) -> None:
        super().__init__()
        self._keys = [f"key_{k}" for k in range(keys)]

    def step(self, action: Any) -> Any:
        info = dict.fromkeys(self._keys, 0.5)
        return self._observation, 0.0, False, False, info


def whole_steps(steps: int, rounds: int, n: int) -> None:
    """A table of what infos cost in whole vector environments."""
    before = load()
    envs = {
        (name, keys): make([lambda keys=keys: Informed(keys)] * n, cores())
        for name, make in VECTOR_ENVS.items()
        for keys in (0, *KEYS)
    }
    times: dict[tuple[str, int], list[float]] = {which: [] for which in envs}
    actions = np.zeros(n, np.int64)
    for one in envs.values():
        one.reset(seed=0)
        one.step(actions)
    for _ in range(rounds):
        for which, one in envs.items():
            start = time.perf_counter()
            for _ in range(steps):
                one.step(actions)
            times[which].append((time.perf_counter() - start) / steps)
    for one in envs.values():
        one.close()
    rows = []
    for keys in (0, *KEYS):
        ratios = [
            f"{median_ratio(times[f'Gymnasium {kind}', keys], times[f'gymvec {kind}', keys]):.1f}"
            for kind in ("sync", "async")
        ]
        rows.append(
            (str(keys), *(microseconds(times[name, keys]) for name in VECTOR_ENVS), *ratios)
        )
    seconds = {f"{name}, {keys} keys": taken for (name, keys), taken in times.items()}
    report(
        f"A step of {n} environments that do nothing but return infos of numbers, us",
        ("keys", *VECTOR_ENVS, "ratio, sync", "ratio, async"),
        rows,
        {**about(before), "seconds per step": seconds},
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--steps", type=int, help="measure whole steps, so many in a round")
    parser.add_argument("--num-envs", type=int, default=32)
    options = parser.parse_args()
    if options.steps is not None:
        whole_steps(options.steps, options.rounds, options.num_envs)
        return
    print(
        f"gymvec, Gymnasium {gymnasium.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n"
    )
    print("| values | keys | n | Gymnasium, us | gymvec, us | ratio |\n|---|---|---|---|---|---|")
    for kind, make in KINDS.items():
        for keys in KEYS:
            for n in (1, 32, 256):
                names = [f"key_{k}" for k in range(keys)]
                infos = [{name: make(i) for name in names} for i in range(n)]
                times: list[list[float]] = [[], []]
                for _ in range(options.rounds):
                    for function, taken in zip((gymnasiums, gymvecs), times, strict=True):
                        taken.append(seconds(function, infos))
                theirs, ours = (1e6 * statistics.median(taken) for taken in times)
                print(
                    f"| {kind} | {keys} | {n} | {theirs:.1f} | {ours:.1f} | {theirs / ours:.1f} |"
                )


if __name__ == "__main__":
    main()
