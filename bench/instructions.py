"""The parent's instructions for a step whose answers are already there: ``python bench/instructions.py``.

Needs valgrind with its headers and a C compiler. A child process under callgrind holds the
parent's half and, in place of worker processes, their halves of the control words; only the
parent's half is counted, and it never waits. Counted are the control words alone, and a whole
``step_async`` and ``step_wait``, for one environment a worker and for 64 environments in all.
"""

import argparse
import ctypes
import itertools
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import measure

import gymvec
from gymvec.vector.parent import worker_pool as pool
from gymvec.vector.parent.processes import Workers
from gymvec.vector.transport.control_worker import Worker
from gymvec.vector.transport.messages import MessagePipe, Subject, dumps, join_parts

WORKERS = (1, 2, 4, 8, 16, 32, 64)
MOST_A_WORKER = 2000
STEPS = 20

REQUESTS = """
#include <valgrind/callgrind.h>
void toggle(void) { CALLGRIND_TOGGLE_COLLECT; }
void dump(const char *name) { CALLGRIND_DUMP_STATS_AT(name); }
"""


class Absent(Workers):
    """Worker processes that are not there; their halves of the control words lie in this one."""

    def start(self, env_fns, layout, segment, context, **others):
        self.halves = []
        description = {
            "same_observation_space": True,
            "same_action_space": True,
            "observation_space": None,
            "metadata": {},
            "render_mode": None,
        }
        for part in layout.slices:
            ours, theirs = context.Pipe()
            envs = range(part.start, part.stop)
            reports = [(env, Subject.ANSWER, dumps(description)) for env in envs]
            MessagePipe(theirs).post(join_parts(reports))
            self.processes.append(None)
            self.pipes.append(MessagePipe(ours))
            half = Worker(segment.buffer, layout.header, part.queue, len(envs))
            self.halves.append(half)

    def has_ended(self, worker):
        return False

    def end(self, seconds):
        for half in self.halves:
            half.close()
        for pipe in self.pipes:
            pipe.close()


def answer(halves):
    """Answer every command, as workers do."""
    for half in halves:
        half.wait(0)
        while (env := half.take()) >= 0:
            half.answer(env)
        half.flush()


def count_all(library):
    """Count everything, a dump for each; runs under callgrind."""
    requests = ctypes.PyDLL(library)
    pool.Workers = Absent

    def count(name, begin, end, halves):
        for step in range(2 * STEPS):
            if step == STEPS:
                requests.dump(b"warm-up")
            requests.toggle()
            begin()
            requests.toggle()
            answer(halves)
            requests.toggle()
            end()
            requests.toggle()
        requests.dump(name.encode())

    count("nothing 1 1", int, int, [])
    for workers in WORKERS:
        for kind, num_envs in ("one", workers), ("all", max(WORKERS)):
            envs = gymvec.AsyncVectorEnv([measure.Nothing] * num_envs, num_workers=workers)
            doorbell, actions = envs._pool.doorbell, envs.action_space.sample()
            halves = envs._pool.workers.halves

            def send(envs=envs, actions=actions):
                envs.step_async(actions)

            def ring(doorbell=doorbell):
                doorbell.send_all(0)

            def take(doorbell=doorbell, num_envs=num_envs):
                doorbell.wait(num_envs)
                doorbell.drain_all()

            count(f"step {kind} {workers}", send, envs.step_wait, halves)
            count(f"doorbell {kind} {workers}", ring, take, halves)
            envs.close(terminate=True)


def counted():
    """Instructions a step by series and number of workers."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "requests.c"), Path(folder, "requests.so")
        source.write_text(REQUESTS)
        subprocess.run(["cc", "-shared", "-fPIC", "-O2", source, "-o", library], check=True)
        subprocess.run(
            ["valgrind", "--tool=callgrind", "--collect-atstart=no", "--quiet",
             f"--callgrind-out-file={folder}/out", sys.executable, __file__, "--count", library],
            check=True,
        )  # fmt: skip
        found = {}
        for path in Path(folder).glob("out.*"):
            text = path.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (\w+) ?(\w+)? ?(\d+)?", text, re.M)
            total = int(re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)[1])
            if name and name[3]:
                found.setdefault(f"{name[1]} {name[2]}", {})[int(name[3])] = total / STEPS
    (overhead,) = found.pop("nothing 1").values()
    return {
        series: {workers: counts[workers] - overhead for workers in sorted(counts)}
        for series, counts in sorted(found.items())
    }


SERIES = {
    "doorbell one": "control words, one environment a worker",
    "doorbell all": "control words, 64 environments",
    "step one": "step_async and step_wait, one environment a worker",
    "step all": "step_async and step_wait, 64 environments",
}


def slopes(counts):
    """Instructions that each further worker costs, from one number of workers to the next."""
    points = sorted(counts.items())
    return [
        (above - below) / (more - less)
        for (less, below), (more, above) in itertools.pairwise(points)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.count is not None:
        count_all(arguments.count)
        return
    load, series, cells = measure.load(), counted(), []
    for key, title in SERIES.items():
        counts = series[key]
        steepest = max(slopes(counts))
        cells.append([
            title, *(measure.digits(counts[workers]) for workers in WORKERS),
            measure.digits((counts[64] - counts[1]) / 63), measure.digits(steepest),
            measure.verdict(steepest <= MOST_A_WORKER),
        ])  # fmt: skip
    header = [
        "the parent's instructions a step", *(f"W = {workers}" for workers in WORKERS),
        "a worker", "at most", f"<= {MOST_A_WORKER}",
    ]  # fmt: skip
    facts = measure.about(load) | {"instructions": series}
    measure.report("Replies that are already there", header, cells, facts, arguments.json)


if __name__ == "__main__":
    main()
