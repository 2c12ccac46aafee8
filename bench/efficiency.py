"""How much of the cores vectorizing leaves: ``python bench/efficiency.py --json FILE``.

    efficiency = time per env step of bare Python loops, one a core and all at once
                 / cores / time per env step of the vector environment

All subjects take the same steps with the same seeds and actions, in turn, for several rounds;
ratios are taken within a round. In the bare loops a reset counts as the step that the autoreset
mode makes of it.
"""

import argparse
import itertools
import multiprocessing
import statistics
import time

import gymnasium.vector
import measure

TARGETS = {
    ("CartPole-v1", 8): 0.70,
    ("CartPole-v1", 32): 0.85,
    ("HalfCheetah-v5", 32): 0.90,
    ("Ant-v5", 32): 0.88,
    ("ALE/Pong-v5", 32): 0.90,
    ("MiniGrid-Empty-8x8-v0", 32): 0.90,
}
# An environment that does nothing: times of Gymnasium over the time of gymvec async.
NOTHING_TARGETS = {"Gymnasium sync": 2, "Gymnasium async": 60}


class BareLoops:
    """Plain Python loops over slices of the environments, a process a core."""

    def __init__(self, name, num_envs):
        self.num_envs = num_envs
        count = min(num_envs, measure.cores())
        bounds = [num_envs * i // count for i in range(count + 1)]
        context = multiprocessing.get_context("fork")
        self._pipes, self._processes = [], []
        # Kept, because its memory is given to others as soon as nobody here has it.
        self._barrier = context.Barrier(count)
        for start, stop in itertools.pairwise(bounds):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_loop, args=(name, num_envs, start, stop, theirs, self._barrier)
            )
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def run(self, warm_up, steps):
        """Seconds an env step of the loops, as if one core did all of it."""
        for pipe in self._pipes:
            pipe.send((warm_up, steps))
        seconds = [pipe.recv() for pipe in self._pipes]
        return statistics.mean(seconds) * len(seconds) / (steps * self.num_envs)

    def close(self):
        for pipe in self._pipes:
            pipe.send(None)
        for process in self._processes:
            process.join()


def _loop(name, num_envs, start, stop, pipe, barrier):
    envs = [measure.ENVIRONMENTS[name]() for _ in range(start, stop)]
    batched = gymnasium.vector.utils.batch_space(envs[0].action_space, num_envs)
    batches = [
        list(gymnasium.vector.utils.iterate(batched, actions))[start:stop]
        for actions in measure.action_batches(batched)
    ]
    for i, env in enumerate(envs):
        env.reset(seed=measure.SEED + start + i)
    over = [False] * len(envs)
    first = 0

    def take(steps):
        for step in range(first, first + steps):
            actions = batches[step % len(batches)]
            for i, env in enumerate(envs):
                if over[i]:
                    env.reset()
                    over[i] = False
                else:
                    _, _, terminated, truncated, _ = env.step(actions[i])
                    over[i] = terminated or truncated

    while (order := pipe.recv()) is not None:
        warm_up, steps = order
        take(warm_up)
        first += warm_up
        barrier.wait()
        begin = time.perf_counter()
        take(steps)
        pipe.send(time.perf_counter() - begin)
        first += steps


class Vector:
    """A vector environment that takes the steps of :class:`BareLoops`."""

    def __init__(self, kind, name, num_envs, workers):
        fns = [measure.ENVIRONMENTS[name]] * num_envs
        self._envs = measure.VECTOR_ENVS[kind](fns, workers)
        self._batches = measure.action_batches(self._envs.action_space)
        self._first = 0
        self._envs.reset(seed=measure.SEED)

    def run(self, warm_up, steps):
        """Seconds an env step."""
        self._take(warm_up)
        begin = time.perf_counter()
        self._take(steps)
        return (time.perf_counter() - begin) / (steps * self._envs.num_envs)

    def _take(self, steps):
        batches, step = self._batches, self._envs.step
        for i in range(self._first, self._first + steps):
            step(batches[i % len(batches)])
        self._first += steps

    def close(self):
        self._envs.close()


def subjects(name, num_envs, workers):
    """What is measured, and why the rest is not."""
    found, refused = {"bare loops": BareLoops(name, num_envs)}, {}
    # Those with processes first: later forks would copy the others' environments.
    for kind in sorted(measure.VECTOR_ENVS, key=lambda kind: "async" not in kind):
        try:
            found[kind] = Vector(kind, name, num_envs, workers)
        except ValueError as error:
            refused[kind] = str(error)
    return found, refused


def measured(name, num_envs, workers, rounds, seconds):
    """Seconds an env step of each subject, one figure a round; and what was refused."""
    found, refused = subjects(name, num_envs, workers)
    try:
        trial = 10
        begin = time.perf_counter()
        for subject in found.values():
            subject.run(trial, trial)
        step = (time.perf_counter() - begin) / len(found) / (2 * trial)
        steps = max(trial, int(seconds / step))
        times = {kind: [] for kind in found}
        for _ in range(rounds):
            for kind, subject in found.items():
                times[kind].append(subject.run(steps // 10 + 1, steps))
    finally:
        for subject in found.values():
            subject.close()
    return {"env": name, "num_envs": num_envs, "steps": steps, "times": times, "refused": refused}


def judged(result, cores):
    """The result with its ratios, its target and whether it is reached."""
    times, key = result["times"], (result["env"], result["num_envs"])
    bare = times["bare loops"]
    result["efficiency"] = {
        kind: measure.median_ratio(bare, taken) / cores
        for kind, taken in times.items()
        if kind != "bare loops"
    }
    result["over Gymnasium"] = {
        kind: measure.median_ratio(times[kind], times["gymvec async"])
        for kind in NOTHING_TARGETS
        if kind in times
    }
    if result["env"] == "Nothing":
        result["target"] = NOTHING_TARGETS if result["num_envs"] == 32 else None
        result["reached"] = result["target"] and all(
            result["over Gymnasium"][kind] >= factor for kind, factor in NOTHING_TARGETS.items()
        )
    else:
        result["target"] = TARGETS.get(key)
        result["reached"] = result["target"] and (
            result["efficiency"]["gymvec async"] >= result["target"]
        )
    return result


def row(result):
    """The cells of a result."""
    times, efficiency = result["times"], result["efficiency"]
    ratios, target = result["over Gymnasium"], result["target"]
    if isinstance(target, dict):
        target = " and ".join(f"{factor} times {kind[10:]}" for kind, factor in target.items())
    return [
        result["env"],
        str(result["num_envs"]),
        *(
            measure.microseconds(times[kind]) if kind in times else "refuses"
            for kind in ("bare loops", *measure.VECTOR_ENVS)
        ),
        *(
            f"{efficiency[kind]:.2f}" if kind in efficiency else "0"
            for kind in ("Gymnasium async", "gymvec async")
        ),
        " / ".join(
            measure.digits(ratios[kind]) if kind in ratios else "-" for kind in NOTHING_TARGETS
        ),
        str(target or ""),
        measure.verdict(result["reached"]),
    ]


HEADER = [
    "environment", "n", "bare loop, us", *(f"{kind}, us" for kind in measure.VECTOR_ENVS),
    "efficiency of Gymnasium async", "of gymvec async", "Gymnasium sync / async over it",
    "target", "reached",
]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", default=",".join(measure.ENVIRONMENTS))
    parser.add_argument("--num-envs", default="8,32")
    parser.add_argument("--workers", type=int, default=measure.cores())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0, help="a subject and round, average")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    load, results = measure.load(), []
    for name in arguments.envs.split(","):
        for num_envs in map(int, arguments.num_envs.split(",")):
            result = measured(
                name, num_envs, arguments.workers, arguments.rounds, arguments.seconds
            )
            results.append(judged(result, measure.cores()))
            print(" ".join(row(result)), flush=True)
    facts = measure.about(load) | {"workers": arguments.workers, "results": results}
    measure.report("Vector environments", HEADER, map(row, results), facts, arguments.json)


if __name__ == "__main__":
    main()
