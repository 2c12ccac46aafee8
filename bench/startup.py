"""How long many environments take to start, and what a worker needs: ``python bench/startup.py``.

The memory of a worker is what it shares with no other process, less what the same environments
add to a process of the same start method that only has them.
"""

import argparse
import multiprocessing
import statistics
import time

import measure
import psutil

import gymvec

MOST_SECONDS = 5.0
MOST_BYTES = 60e6
NAME = "CartPole-v1"


def private_bytes(pid=None):
    """Memory that would be free if the process ended."""
    return psutil.Process(pid).memory_full_info().uss


def _hold(pipe, count):
    """Tell what the environments take in a process that did everything else before."""
    envs = [measure.ENVIRONMENTS[NAME]()]
    envs[0].reset()
    before = private_bytes()
    envs += [measure.ENVIRONMENTS[NAME]() for _ in range(count)]
    for env in envs:
        env.reset()
    pipe.send(private_bytes() - before)


def of_environments(method, count):
    """Bytes that environments take in a process of their own."""
    context = multiprocessing.get_context(method)
    ours, theirs = context.Pipe()
    process = context.Process(target=_hold, args=(theirs, count))
    process.start()
    taken = ours.recv()
    process.join()
    return taken


def start(method, num_envs, workers, steps=50):
    """Seconds to the first observations, and the bytes of the largest worker after some steps."""
    begin = time.perf_counter()
    envs = gymvec.AsyncVectorEnv(
        [measure.ENVIRONMENTS[NAME]] * num_envs, context=method, num_workers=workers
    )
    envs.reset(seed=measure.SEED)
    seconds = time.perf_counter() - begin
    for _ in range(steps):
        envs.step(envs.action_space.sample())
    largest = max(private_bytes(process.pid) for process in envs.processes)
    envs.close()
    return seconds, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num-envs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=measure.cores())
    parser.add_argument("--methods", default="fork,forkserver,spawn")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    load, results, cells = measure.load(), [], []
    for method in arguments.methods.split(","):
        each = -(-arguments.num_envs // arguments.workers)
        runs = [
            start(method, arguments.num_envs, arguments.workers) for _ in range(arguments.rounds)
        ]
        seconds = statistics.median(run[0] for run in runs)
        largest = statistics.median(run[1] for run in runs)
        environments = of_environments(method, each)
        beyond = largest - environments
        results.append({
            "method": method, "seconds": seconds, "worker": largest, "environments": environments,
        })  # fmt: skip
        cells.append([
            method, f"{seconds:.2f}", measure.verdict(seconds < MOST_SECONDS),
            f"{largest / 1e6:.1f}", f"{environments / 1e6:.1f}", f"{beyond / 1e6:.1f}",
            measure.verdict(beyond < MOST_BYTES),
        ])  # fmt: skip
    header = [
        "start method", "seconds to the first observations", f"< {MOST_SECONDS:.0f}",
        "private MB of a worker", "of its environments", "beyond them", f"< {MOST_BYTES / 1e6:.0f}",
    ]  # fmt: skip
    facts = measure.about(load) | {"starts": results}
    title = f"{arguments.num_envs} {NAME}, {arguments.workers} workers"
    measure.report(title, header, cells, facts, arguments.json)


if __name__ == "__main__":
    main()
