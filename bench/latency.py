"""What a step costs besides the environments: ``python bench/latency.py``.

* ``round-trips``: one environment in one worker against a ping-pong over a pipe, and one process
  an environment against Gymnasium's AsyncVectorEnv.
* ``under-load``: a learner that computes between steps, or another Python thread that computes all
  the time: the time of a step without the learner's, and what the workers take of a core meanwhile.
* ``ready-first``: steps that take exponentially distributed times: a batch of those that are ready
  first against a step of all. Steps that sleep, as a wait for a simulator does, have a process
  each. Those that compute share as many workers as cores, and have less to win: a worker that is
  waited for has no work left only at the end of a step.

All subjects of a table take turns in one run; ratios are taken within a round.
"""

import argparse
import multiprocessing
import threading
import time

import gymnasium
import measure
import numpy as np
import table
from gymnasium.spaces import Box, Discrete

import gymvec

THINK_S = 0.001
NAME = "CartPole-v1"
# Ready-first batches: environments, how many make a batch, steps of each in a round, mean seconds.
NUM_ENVS, BATCH_SIZE, STEPS, MEAN_S = 16, 4, 40, 0.004


class PingPong:
    """A process that sends back what it receives."""

    def __init__(self):
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=self._echo, args=(theirs,))
        self._process.start()

    @staticmethod
    def _echo(pipe):
        while (message := pipe.recv()) is not None:
            pipe.send(message)

    def run(self, steps):
        begin = time.perf_counter()
        for _ in range(steps):
            self._pipe.send(1)
            self._pipe.recv()
        return (time.perf_counter() - begin) / steps

    def close(self):
        self._pipe.send(None)
        self._process.join()


class Stepping:
    """A vector environment and a learner that computes between its steps."""

    def __init__(self, kind, name, num_envs, workers=None, think_s=0.0):
        self._envs = measure.VECTOR_ENVS[kind]([measure.ENVIRONMENTS[name]] * num_envs, workers)
        self._envs.reset(seed=measure.SEED)
        self._batches = measure.action_batches(self._envs.action_space)
        self._think_s = think_s
        self._num_workers = len(self._envs.processes)
        self.used = self.passed = 0.0

    def run(self, steps):
        """Seconds of a step, without the learner's."""
        step, batches, think_s = self._envs.step, self._batches, self._think_s
        cpu, begin, thought = (measure.cpu_seconds(self._envs.processes), time.perf_counter(), 0.0)
        for i in range(steps):
            step(batches[i % len(batches)])
            if think_s:
                start = time.perf_counter()
                while time.perf_counter() < start + think_s:
                    pass
                thought += time.perf_counter() - start
        passed = time.perf_counter() - begin
        self.used += measure.cpu_seconds(self._envs.processes) - cpu
        self.passed += passed
        return (passed - thought) / steps

    @property
    def share(self):
        """Of a core, that each worker has taken: the system counts in ticks, so over all runs."""
        return self.used / self.passed / self._num_workers

    def close(self):
        self._envs.close()


class BusyThread:
    """Another thread of this process that computes in Python."""

    def __enter__(self):
        self._stop = False
        self._thread = threading.Thread(target=self._compute)
        self._thread.start()

    def _compute(self):
        while not self._stop:
            pass

    def __exit__(self, *error):
        self._stop = True
        self._thread.join()


def in_turn(subjects, rounds, seconds):
    """Seconds a step of each subject, one figure a round; closes them."""
    try:
        steps = {}
        for name, subject in subjects.items():
            steps[name] = max(20, int(seconds / subject.run(20)))
        times = {name: [] for name in subjects}
        for _ in range(rounds):
            for name, subject in subjects.items():
                subject.run(steps[name] // 10)
                times[name].append(subject.run(steps[name]))
    finally:
        for subject in subjects.values():
            subject.close()
    return times


def round_trips(rounds, seconds):
    """What is compared with what, the quartiles of both, their ratio and the one to reach."""
    times = in_turn(
        {
            "a pipe's ping-pong": PingPong(),
            "one": Stepping("gymvec async", "Nothing", 1, 1),
            "Gymnasium's one": Stepping("Gymnasium async", "Nothing", 1),
            "each": Stepping("gymvec async", "Nothing", 8, 8),
            "Gymnasium's each": Stepping("Gymnasium async", "Nothing", 8),
        },
        rounds,
        seconds,
    )
    return [
        {
            "what": what, "against": against,
            measure.STEP_QUARTILES: {
                "gymvec async": measure.quartiles(times[ours]),
                against: measure.quartiles(times[theirs]),
            },
            "ratio": measure.median_ratio(times[theirs], times[ours]), "target": target,
        }
        for what, ours, against, theirs, target in (
            ("1 environment, 1 worker", "one", "a pipe's ping-pong", "a pipe's ping-pong", 5),
            ("1 environment, 1 worker", "one", "Gymnasium async", "Gymnasium's one", None),
            ("8 environments, 8 workers", "each", "Gymnasium async", "Gymnasium's each", 6),
        )
    ]  # fmt: skip


def under_load(rounds, seconds):
    """Of both packages the quartiles of a step, and the share of a core that a worker takes."""
    found = []
    for num_envs in (1, 8, 32):
        found.append(beside("a learner of 1 ms", num_envs, THINK_S, rounds, seconds))
    for num_envs in (1, 8, 32):
        with BusyThread():
            # Each step may cost the interpreter's switch interval several times.
            found.append(beside("a busy thread", num_envs, 0.0, rounds, seconds))
    return found


def beside(what, num_envs, think_s, rounds, seconds):
    workers = {"Gymnasium async": num_envs, "gymvec async": min(measure.cores(), num_envs)}
    subjects = {
        kind: Stepping(kind, NAME, num_envs, count, think_s) for kind, count in workers.items()
    }
    times = in_turn(subjects, rounds, seconds)
    return {
        "what": what,
        "num_envs": num_envs,
        measure.STEP_QUARTILES: {kind: measure.quartiles(taken) for kind, taken in times.items()},
        "ratio": measure.median_ratio(times["Gymnasium async"], times["gymvec async"]),
        "target": 1,
        "shares": {kind: subject.share for kind, subject in subjects.items()},
        "workers": workers,
    }


class Exponential(gymnasium.Env):
    """Steps take exponentially distributed times."""

    observation_space = Box(-1.0, 1.0, (8,), np.float32)
    action_space = Discrete(2)

    def __init__(self, computes):
        self._computes = computes
        self._observation = np.zeros(8, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._observation, {}

    def step(self, action):
        seconds = self.np_random.exponential(MEAN_S)
        if self._computes:
            until = time.thread_time() + seconds
            while time.thread_time() < until:
                pass
        else:
            time.sleep(seconds)
        return self._observation, 0.0, False, False, {}


def seconds_of_all(envs):
    """Seconds per environment step when each step waits for all."""
    actions = np.zeros(NUM_ENVS, np.int64)
    begin = time.perf_counter()
    for _ in range(STEPS):
        envs.step(actions)
    return (time.perf_counter() - begin) / (STEPS * NUM_ENVS)


def seconds_of_first(envs):
    """Seconds per environment step when a batch is of those that are ready first."""
    actions = np.zeros(BATCH_SIZE, np.int64)
    batches = STEPS * NUM_ENVS // BATCH_SIZE
    begin = time.perf_counter()
    for _ in range(batches):
        infos = envs.recv()[-1]
        envs.send(actions, infos["env_id"])
    return (time.perf_counter() - begin) / (batches * BATCH_SIZE)


def ready_first(rounds):
    """The quartiles of each way to step, and its ratio to ready-first batches."""
    return of_exponential_steps(rounds, False) + of_exponential_steps(rounds, True)


def of_exponential_steps(rounds, computes):
    workers = min(measure.cores(), NUM_ENVS) if computes else NUM_ENVS
    fns = [lambda: Exponential(computes)] * NUM_ENVS
    first = f"gymvec async, batch_size={BATCH_SIZE}"
    subjects = {
        "Gymnasium async, all": (gymnasium.vector.AsyncVectorEnv(fns), seconds_of_all),
        "gymvec async, all": (gymvec.AsyncVectorEnv(fns, num_workers=workers), seconds_of_all),
        first: (
            gymvec.AsyncVectorEnv(fns, num_workers=workers, batch_size=BATCH_SIZE),
            seconds_of_first,
        ),
    }
    times = {name: [] for name in subjects}
    for name, (envs, _) in subjects.items():
        envs.async_reset(seed=measure.SEED) if name == first else envs.reset(seed=measure.SEED)
    for _ in range(rounds):
        for name, (envs, seconds) in subjects.items():
            times[name].append(seconds(envs))
    for envs, _ in subjects.values():
        envs.close()
    return [
        {
            "what": name,
            "steps": "compute" if computes else "sleep",
            "workers": workers,
            measure.QUARTILES: measure.quartiles(taken),
            "ratio": measure.median_ratio(taken, times[first]),
            "target": 1.8 if name == "gymvec async, all" and not computes else None,
        }
        for name, taken in times.items()
    ]


TABLES = {
    "round-trips": table.round_trips,
    "under-load": table.under_load,
    "ready-first": table.ready_first,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=TABLES, help="one of the questions; no JSON is written")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="stepping of a subject a round")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rounds, seconds, load = arguments.rounds, arguments.seconds, measure.load()
    measured = {
        "round-trips": lambda: round_trips(rounds, seconds),
        "under-load": lambda: under_load(rounds, seconds),
        "ready-first": lambda: ready_first(rounds),
    }
    found = {
        name.replace("-", " "): function()
        for name, function in measured.items()
        if arguments.only in (None, name)
    }
    facts = measure.about(load) | found
    for name, show in TABLES.items():
        if arguments.only in (None, name):
            print(show(facts), end="\n\n")
            for row in facts[name.replace("-", " ")]:
                if row["target"] is not None and row["ratio"] < row["target"]:
                    print(f"below its target of {row['target']}: {row['what']}, {row['ratio']:.2f}")
    print(measure.load_text(*facts["load before and after"]))
    if arguments.json is not None and arguments.only is None:
        measure.write(arguments.json, facts)


if __name__ == "__main__":
    main()
