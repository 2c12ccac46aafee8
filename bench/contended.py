"""What a step costs where other programs use the cores, too: ``python bench/contended.py``.

Every vector environment steps in every situation: alone; beside one or two processes that compute
without end; in two programs at once that both step; between the inferences of a learner in torch,
whose threads compute and spin on all cores. They take turns in one run. A figure is microseconds
per env step, of all programs together; the learner's time counts, since its threads compete.
"""

import argparse
import contextlib
import multiprocessing
import statistics
import time
from dataclasses import dataclass
from functools import partial

import gymnasium
import measure
import numpy as np

import gymvec

OURS = "gymvec async"
VECTOR_ENVS = {
    "Gymnasium sync": gymnasium.vector.SyncVectorEnv,
    "Gymnasium async": gymnasium.vector.AsyncVectorEnv,
    "gymvec sync": gymvec.SyncVectorEnv,
    OURS: gymvec.AsyncVectorEnv,
    "gymvec async, block": partial(gymvec.AsyncVectorEnv, wait="block"),
    "gymvec async, spin": partial(gymvec.AsyncVectorEnv, wait="spin"),
}
# Nobody is told to spin on a machine that others use.
OTHERS = [kind for kind in VECTOR_ENVS if kind not in (OURS, "gymvec async, spin")]
CASES = (("CartPole-v1", 8), ("CartPole-v1", 32), ("HalfCheetah-v5", 8))


@dataclass(frozen=True)
class Situation:
    """What the machine does besides the program that is measured."""

    name: str
    busy: int = 0
    programs: int = 1
    learner: bool = False
    most: float | None = None  # times the best of the others, to reach


SITUATIONS = (
    Situation("idle"),
    Situation("one busy process", busy=1, most=1.25),
    Situation("two busy processes", busy=2, most=1.25),
    Situation("two programs", programs=2, most=1 / 0.75),
    Situation("torch learner", learner=True, most=1.25),
)


def compute():
    while True:
        pass


class Learner:
    """A policy in torch with as many threads as torch chooses."""

    def __init__(self, space):
        import torch

        self._torch = torch
        size = int(np.prod(space.shape[1:]))
        self._net = torch.nn.Sequential(
            torch.nn.Linear(size, 512), torch.nn.Tanh(), torch.nn.Linear(512, 512)
        )

    def __call__(self, observations):
        with self._torch.inference_mode():
            self._net(self._torch.as_tensor(observations, dtype=self._torch.float32).repeat(16, 1))


def serve(pipe, name, num_envs, learner):
    """One program: steps the kind that it is told to, for so many seconds; answers steps a second.

    Each time with new vector environments: workers of another one that never sleep would count as
    busy processes.
    """
    infer = None
    pipe.send(None)
    while (order := pipe.recv()) is not None:
        kind, seconds = order
        with contextlib.closing(VECTOR_ENVS[kind]([measure.ENVIRONMENTS[name]] * num_envs)) as envs:
            if learner and infer is None:
                infer = Learner(envs.observation_space)
            batches = measure.action_batches(envs.action_space)
            envs.reset(seed=measure.SEED)
            pipe.send(None)
            pipe.recv()
            take_steps(envs, batches, infer, seconds / 2)
            pipe.send(take_steps(envs, batches, infer, seconds))
            pipe.recv()


def take_steps(envs, batches, infer, seconds):
    """Env steps a second."""
    step, count, begin = envs.step, 0, time.perf_counter()
    while time.perf_counter() < begin + seconds:
        observations = step(batches[count % len(batches)])[0]
        count += 1
        if infer is not None:
            infer(observations)
    return count * envs.num_envs / (time.perf_counter() - begin)


def together(pipes, message):
    """Tell all programs, and wait for their answers."""
    for pipe in pipes:
        pipe.send(message)
    return [pipe.recv() for pipe in pipes]


@contextlib.contextmanager
def running(target, *args):
    """A process; one that computes without end is killed."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=args)
    process.start()
    try:
        yield process
    finally:
        if target is compute:
            process.kill()
        process.join()


def measured(situation, name, num_envs, rounds, seconds):
    """Seconds an env step of each kind, one figure a round."""
    times = {kind: [] for kind in VECTOR_ENVS}
    with contextlib.ExitStack() as stack:
        pipes = []
        for _ in range(situation.programs):
            ours, theirs = multiprocessing.Pipe()
            stack.enter_context(running(serve, theirs, name, num_envs, situation.learner))
            theirs.close()
            pipes.append(ours)
            ours.recv()
        for _ in range(situation.busy):
            stack.enter_context(running(compute))
        for _ in range(rounds):
            for kind in VECTOR_ENVS:
                together(pipes, (kind, seconds))
                times[kind].append(1 / sum(together(pipes, "go")))
                for pipe in pipes:
                    pipe.send("close")
        for pipe in pipes:
            pipe.send(None)
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument(
        "--seconds",
        type=float,
        default=0.4,
        help="stepping of a kind a round, after half as long unmeasured",
    )
    parser.add_argument("--beside", default="", help="only situations with this in their name")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    load, cells, results = measure.load(), [], []
    for situation in (each for each in SITUATIONS if arguments.beside in each.name):
        for name, num_envs in CASES:
            try:
                times = measured(situation, name, num_envs, arguments.rounds, arguments.seconds)
            except EOFError:
                print(
                    f"{situation.name}, {name}: not measured, the program ended (is torch there?)"
                )
                continue
            best = min(OTHERS, key=lambda kind: statistics.median(times[kind]))
            ratio = measure.median_ratio(times[OURS], times[best])
            results.append({
                "situation": situation.name, "env": name, "num_envs": num_envs, "best other": best,
                "ratio": ratio, "at most": situation.most,
                measure.QUARTILES: {
                    kind: measure.quartiles(series) for kind, series in times.items()
                },
            })  # fmt: skip
            cells.append([
                situation.name, f"{name}, {num_envs}",
                *(measure.microseconds(times[kind]) for kind in VECTOR_ENVS),
                f"{ratio:.2f} of {best}",
                measure.verdict(None if situation.most is None else ratio <= situation.most),
            ])  # fmt: skip
    header = ["beside", "environment, n", *VECTOR_ENVS, f"{OURS}, of the best other", "reached"]
    facts = measure.about(load) | {"results": results}
    facts["load before and after"][1] = measure.load()
    measure.report("Microseconds per env step, medians", header, cells, facts, arguments.json)


if __name__ == "__main__":
    main()
