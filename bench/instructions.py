"""The parent's instructions for a step whose answers are already there: ``python bench/instructions.py``.

With ``--builds FOLDER FOLDER``, each with a ``gymvec`` package, those of the functions of both builds.

Needs valgrind with its headers and a C compiler. A child process under callgrind holds the
parent's half and, in place of worker processes, their halves of the control words; only the
parent's half is counted, and it never waits. Counted are the control words alone, and a whole
``step_async`` and ``step_wait``, for one environment a worker and for 64 environments in all.
"""

import argparse
import ctypes
import itertools
import os
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
from gymvec.vector.transport.messages import MessageKind, MessagePipe, dumps, join_parts

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
            reports = [(env, MessageKind.ANSWER, dumps(description)) for env in envs]
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


FEW, MANY = 200, 1200

FUNCTION = """
import gc
import sys
import gymnasium.spaces as s
import numpy as np
from gymvec import utils
from gymvec.kernels.rows import RowWriter
case, times = sys.argv[1], int(sys.argv[2])
f32 = s.Box(-1, 1, (4,), np.float32)
nested = s.Dict(a=s.Tuple([f32, s.Discrete(3)]), b=s.Dict(c=f32, d=s.MultiBinary(3)))
space = {"nested": nested, "discrete": s.Discrete(5)}.get(case.split()[0], f32)
n = int(case.split()[-1])
items = [space.sample() for _ in range(n)]
out = utils.create_empty_array(space, n)
if "write" in case:
    memory = utils.create_shared_memory(space, n)
    call = lambda: utils.write_to_shared_memory(space, 0, items[0], memory)
elif "row" in case:
    writer = RowWriter(out, 0)
    call = lambda: writer(items[0])
else:
    call = lambda: utils.concatenate(space, items, out)
call()
gc.disable()
for _ in range(times):
    call()
"""

FUNCTIONS = (
    "box concatenate 64",
    "discrete concatenate 64",
    "nested concatenate 64",
    "box write 8",
    "box bound row 8",
)


def function_instructions(folder, case):
    """Instructions of a call: the difference of two runs, so that start-up does not count."""
    few, many = (instructions_of_run(folder, case, calls) for calls in (FEW, MANY))
    return (many - few) / (MANY - FEW)


def instructions_of_run(folder, case, calls):
    """All instructions of a run."""
    with tempfile.TemporaryDirectory() as scratch:
        ended = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch}/out"]
            + [sys.executable, "-c", FUNCTION, case, str(calls)],
            # Threads of OpenBLAS that wait for work would be counted, too.
            env={
                **os.environ,
                "PYTHONPATH": str(folder),
                "PYTHONHASHSEED": "0",
                "OPENBLAS_NUM_THREADS": "1",
            },
            capture_output=True,
            text=True,
            check=True,
        )
    return int(re.search(r"Collected : (\d+)", ended.stderr).group(1))


def compare_builds(folders):
    """Print a table of the functions in both builds."""
    print("| call | first build | second build | ratio |\n|---|---:|---:|---:|")
    for case in FUNCTIONS:
        first, second = (function_instructions(folder.resolve(), case) for folder in folders)
        print(f"| {case} | {first:,.0f} | {second:,.0f} | {second / first:.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", metavar="LIBRARY", help=argparse.SUPPRESS)
    parser.add_argument("--builds", nargs=2, type=Path, metavar="FOLDER")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    if arguments.count is not None:
        count_all(arguments.count)
        return
    if arguments.builds is not None:
        compare_builds(arguments.builds)
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
