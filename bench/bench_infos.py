"""Time to gather the infos of one step, gymvec's way beside Gymnasium's.

    python bench/bench_infos.py [--rounds 31]

Both are timed in turns in one process, which does all the work itself: the figures are medians
of CPU time over the rounds.
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

from gymvec.vector.infos import gather_infos

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=31)
    options = parser.parse_args()
    print(
        f"gymvec, Gymnasium {gymnasium.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores\n"
    )
    print("| values | keys | n | Gymnasium, us | gymvec, us | ratio |\n|---|---|---|---|---|---|")
    for kind, make in KINDS.items():
        for keys in (1, 4, 10):
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
