"""What a step costs besides the environments: ``python bench/roundtrip.py``.

* One environment in one worker: the round trip against a ping-pong over a pipe.
* One process an environment against Gymnasium's AsyncVectorEnv.
* A learner that computes between steps, or another Python thread that computes all the time:
  the time of a step without the learner's, and what the workers take of a core meanwhile.

All subjects of a table take turns in one run; ratios are taken within a round.
"""

import argparse
import multiprocessing
import threading
import time

import measure

THINK_S = 0.001


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
    """Rows of what is compared, seconds of both, factor to reach."""
    times = in_turn(
        {
            "pipe": PingPong(),
            "one": Stepping("gymvec async", "Nothing", 1, 1),
            "Gymnasium's one": Stepping("Gymnasium async", "Nothing", 1),
            "each": Stepping("gymvec async", "Nothing", 8, 8),
            "Gymnasium's each": Stepping("Gymnasium async", "Nothing", 8),
        },
        rounds,
        seconds,
    )
    return [
        ("1 environment, 1 worker; pipe's ping-pong", times["one"], times["pipe"], 5),
        ("1 environment, 1 worker; Gymnasium async", times["one"], times["Gymnasium's one"], None),
        ("8 environments, 8 workers; Gymnasium async", times["each"], times["Gymnasium's each"], 6),
    ]


def under_load(name, num_envs, workers, think_s, rounds, seconds):
    """Seconds a step, and the share of a core that each worker takes, of both packages."""
    kinds = {"Gymnasium async": None, "gymvec async": min(workers, num_envs)}
    subjects = {
        kind: Stepping(kind, name, num_envs, count, think_s) for kind, count in kinds.items()
    }
    times = in_turn(subjects, rounds, seconds)
    shares = {kind: subject.share for kind, subject in subjects.items()}
    return {"times": times, "shares": shares, "workers": kinds}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="CartPole-v1", help="for the second table")
    parser.add_argument("--num-envs", default="1,8,32", help="for the second table")
    parser.add_argument("--workers", type=int, default=measure.cores())
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.5, help="stepping of a subject a round")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    rounds, seconds, load = arguments.rounds, arguments.seconds, measure.load()

    trips, cells = round_trips(rounds, seconds), []
    for what, ours, theirs, target in trips:
        ratio = measure.median_ratio(theirs, ours)
        reached = None if target is None else ratio >= target
        cells.append([
            what, measure.microseconds(ours), measure.microseconds(theirs), f"{ratio:.1f}",
            str(target or ""), measure.verdict(reached),
        ])  # fmt: skip
    header = ["round trip, against", "gymvec, us", "other, us", "ratio", "target", "reached"]
    facts = measure.about(load) | {"round trips": trips}
    measure.report("Environments that do nothing", header, cells, facts)

    facts["under load"], cells = [], []
    for what in ("a learner of 1 ms", "a busy thread"):
        for num_envs in map(int, arguments.num_envs.split(",")):
            args = arguments.env, num_envs, arguments.workers
            if what == "a busy thread":
                with BusyThread():
                    # Each step may cost the interpreter's switch interval several times.
                    result = under_load(*args, 0.0, rounds, seconds)
            else:
                result = under_load(*args, THINK_S, rounds, seconds)
            facts["under load"].append({"what": what, "num_envs": num_envs} | result)
            times, shares = result["times"], result["shares"]
            ratio = measure.median_ratio(times["Gymnasium async"], times["gymvec async"])
            cells.append([
                what, str(num_envs),
                *(measure.microseconds(times[kind]) for kind in times),
                f"{ratio:.2f}", measure.verdict(ratio >= 1),
                *(f"{shares[kind]:.1%} of {result['workers'][kind] or num_envs}" for kind in times),
            ])  # fmt: skip
    header = [
        "beside", "n", "Gymnasium async, us a step", "gymvec async, us a step", "ratio",
        "no worse", "a core's share that Gymnasium's workers take", "that gymvec's take",
    ]  # fmt: skip
    facts["load before and after"][1] = measure.load(average=False)
    title = f"{arguments.env}, the learner's time not counted"
    measure.report(title, header, cells, facts, arguments.json)


if __name__ == "__main__":
    main()
