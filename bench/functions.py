"""Each function of gymvec.utils beside Gymnasium's: ``python bench/functions.py --json FILE``.

A row is one statement, timed in the namespace of either package. The rows are gone through
several times, Gymnasium and gymvec in turn, so that a busy moment of the machine falls on
both; times and ratios are medians over these passes. pytest-benchmark measures; what else the
command line has goes to pytest, ``-k concatenate`` for one.
"""

import argparse
import ctypes
import json
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from timeit import Timer

import gymnasium.vector.utils
import measure
import numpy as np
import pytest
import table
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.wrappers import FrameStackObservation

import gymvec.utils
from gymvec.kernels.rows import RowWriter

PACKAGES = {"gymnasium": gymnasium.vector.utils, "gymvec": gymvec.utils}
PASSES = 7

SMALL = Box(-1.0, 1.0, (4,), np.float32)
HALF = Box(-1.0, 1.0, (24,), np.float16)
ROW = Box(-1.0, 1.0, (24,), np.float32)
IMAGE = Box(0, 255, (84, 84, 4), np.uint8)
TEXT = Text(10)
NESTED = Dict(
    position=SMALL,
    task=Tuple((Discrete(5), MultiBinary(6))),
    levels=MultiDiscrete([3, 4]),
)


@dataclass
class Row:
    """One row of the table.

    Attributes:
        call: What is called, on what.
        floor: The ratio that gymvec is meant to reach.
        make: Makes the names of ``statement`` from a package.
        statement: What is timed; ``u`` is the package.
        other: Another statement for one of the packages, or for a third contestant.
        installed: Whether Gymnasium is what is called, for gymvec after ``gymvec.install()``.
    """

    call: str
    floor: float
    make: object
    statement: str
    other: dict = field(default_factory=dict)
    installed: bool = False

    def contestants(self):
        return [*PACKAGES, *(name for name in self.other if name not in PACKAGES)]


def samples(space, n):
    space.seed(0)
    return [space.sample() for _ in range(n)]


def batch(space, n, items=None):
    """Names for ``concatenate`` of ``n`` samples."""
    items = samples(space, n) if items is None else items
    return lambda u: dict(space=space, items=items, out=u.create_empty_array(space, n))


def images(n):
    """Names for images, and for one copy of as many bytes as they have together."""
    items = samples(IMAGE, n)
    source = np.stack(items)
    target = np.empty_like(source)
    copy = dict(
        memmove=ctypes.memmove, to=target.ctypes.data, of=source.ctypes.data,
        size=source.nbytes, owners=(source, target),
    )  # fmt: skip
    return lambda u: batch(IMAGE, n, items)(u) | copy


def memory(space, n, value=None):
    """Names for writing one sample to shared memory, and for reading all."""
    items = samples(space, n)

    def make(u):
        shared = u.create_shared_memory(space, n)
        for i, item in enumerate(items):
            u.write_to_shared_memory(space, i, item, shared)
        names = dict(space=space, memory=shared, n=n, value=items[0] if value is None else value)
        if isinstance(space, Box):
            names["put"] = RowWriter(u.read_from_shared_memory(space, shared, n), 3)
        return names

    return make


def batched(space, n):
    """Names for ``iterate`` over ``n`` samples."""
    items = samples(space, n)
    return lambda u: dict(
        space=u.batch_space(space, n),
        items=u.concatenate(space, items, u.create_empty_array(space, n)),
    )


class Blank(gymnasium.Env):
    """Does nothing, so that only wrappers and vector environments take time."""

    action_space = Discrete(2)

    def __init__(self, space):
        self.observation_space = space
        self._observation = samples(space, 1)[0]

    def reset(self, *, seed=None, options=None):
        return self._observation, {}

    def step(self, action):
        return self._observation, 0.0, False, False, {}


def stacked(space):
    """Names for a step of Gymnasium's wrapper that stacks frames."""

    def make(u):
        env = FrameStackObservation(Blank(space), 4)
        env.reset()
        return dict(env=env, action=0)

    return make


def vectorized(space, n):
    """Names for a step of Gymnasium's SyncVectorEnv."""

    def make(u):
        env = gymnasium.vector.SyncVectorEnv([lambda: Blank(space)] * n)
        env.reset()
        return dict(env=env, action=np.zeros(n, np.int64))

    return make


CONCATENATE = "u.concatenate(space, items, out)"
WRITE = "u.write_to_shared_memory(space, 3, value, memory)"
READ = "u.read_from_shared_memory(space, memory, n=n)"
STEP = "env.step(action)"
ITERATE = "for item in u.iterate(space, items): pass"

ROWS = [
    Row("`concatenate` Box (4,) float32, n = 8", 10, batch(SMALL, 8), CONCATENATE),
    Row("`concatenate` Box (4,) float32, n = 64", 30, batch(SMALL, 64), CONCATENATE),
    Row("`concatenate` Box (4,) float32, n = 256", 35, batch(SMALL, 256), CONCATENATE),
    Row("`concatenate` Discrete, NumPy scalars, n = 64", 30, batch(Discrete(5), 64), CONCATENATE),
    Row(
        "`concatenate` Discrete, Python ints, n = 64", 30,
        batch(Discrete(5), 64, [i % 5 for i in range(64)]), CONCATENATE,
    ),
    Row(
        "`concatenate` Box (84, 84, 4) uint8, n = 64", 1.2, images(64), CONCATENATE,
        {"memcpy": "memmove(to, of, size)"},
    ),
    Row("`concatenate` Dict and Tuple of four leaves, n = 64", 8, batch(NESTED, 64), CONCATENATE),
    Row("`write_to_shared_memory` Box (4,) float32", 10, memory(SMALL, 8), WRITE),
    Row("`write_to_shared_memory` Box (24,) float16", 10, memory(HALF, 8), WRITE),
    Row(
        "`write_to_shared_memory` float64 into Box (24,) float32", 5,
        memory(ROW, 8, np.linspace(-1, 1, 24)), WRITE,
    ),
    Row("`write_to_shared_memory` Box (84, 84, 4) uint8", 4, memory(IMAGE, 8), WRITE),
    Row("`write_to_shared_memory` Dict and Tuple of four leaves", 8, memory(NESTED, 8), WRITE),
    Row(
        "`write_to_shared_memory` Box (4,) float32, a bound writer", 50,
        memory(SMALL, 8), WRITE, {"gymvec": "put(value)"},
    ),
    Row("`read_from_shared_memory` Box (4,) float32, n = 64", 2, memory(SMALL, 64), READ),
    Row(
        "`read_from_shared_memory` Dict and Tuple of four leaves, n = 64", 2.5,
        memory(NESTED, 64), READ,
    ),
    Row("`read_from_shared_memory` Text(10), n = 64", 5, memory(TEXT, 64), READ),
    Row("`iterate` Dict and Tuple of four leaves, n = 64", 3, batched(NESTED, 64), ITERATE),
    Row("`iterate` Box (4,) float32, n = 64", 1, batched(SMALL, 64), ITERATE),
    Row(
        "`batch_space` Box (84, 84, 4) uint8, n = 64", 10,
        lambda u: dict(space=IMAGE), "u.batch_space(space, 64)",
    ),
    Row(
        "installed: `FrameStackObservation` of Dict and Tuple of four leaves", 2,
        stacked(NESTED), STEP, installed=True,
    ),
    Row(
        "installed: Gymnasium's `SyncVectorEnv`, Box (4,) float32, n = 64", 1.2,
        vectorized(SMALL, 64), STEP, installed=True,
    ),
    Row(
        "installed: Gymnasium's `SyncVectorEnv`, Dict and Tuple of four leaves, n = 64", 2,
        vectorized(NESTED, 64), STEP, installed=True,
    ),
]  # fmt: skip


def contestants():
    return [
        pytest.param(row, name, number, id=f"{row.call} {name} {number}")
        for number in range(PASSES)
        for row in ROWS
        for name in row.contestants()
    ]


@pytest.mark.parametrize(("row", "name", "number"), contestants())
def test_call(benchmark, row, name, number):
    package = PACKAGES.get(name, PACKAGES["gymvec"])
    with gymvec.installation() if row.installed and name == "gymvec" else nullcontext():
        names = row.make(package)
        timer = Timer(row.other.get(name, row.statement), globals={"u": package, **names})
        calls = 1
        while timer.timeit(calls) < 5e-4:
            calls *= 2
        benchmark.group = row.call
        benchmark.extra_info.update(name=name, number=number, calls=calls, floor=row.floor)
        # timeit has the loop with the least time of its own: a call may take less than 0.1 us.
        benchmark.pedantic(timer.timeit, (calls,), rounds=60 if calls > 1 else 15, warmup_rounds=2)


IMPORT = """
import gymnasium.vector, time
start = time.perf_counter()
import gymvec
print(time.perf_counter() - start)
"""


@pytest.mark.parametrize("number", range(PASSES))
def test_import(benchmark, number):
    """``import gymvec`` in a fresh interpreter that has ``gymnasium.vector`` already."""
    runs = []

    def import_it():
        command = [sys.executable, "-c", IMPORT]
        runs.append(float(subprocess.run(command, capture_output=True, check=True).stdout))

    benchmark.group = "import"
    benchmark.pedantic(import_it, rounds=3)
    benchmark.extra_info.update(number=number, seconds=sorted(runs)[1])


IMPORT_FLOOR_MS = 30


def reduced(measured):
    """Medians over the passes; ratios are taken within a pass."""
    rows, imports = {}, []
    for entry in measured["benchmarks"]:
        info = entry["extra_info"]
        if entry["group"] == "import":
            imports.append(info["seconds"])
            continue
        row = rows.setdefault(entry["group"], {"floor": info["floor"], "passes": {}})
        microseconds = entry["stats"]["median"] / info["calls"] * 1e6
        row["passes"].setdefault(info["number"], {})[info["name"]] = microseconds
    return {
        "import_ms": median(imports) * 1e3 if imports else None,
        "rows": [
            reduced_row(call, row["floor"], list(row["passes"].values()))
            for call, row in rows.items()
        ],
    }


def reduced_row(call, floor, passes):
    row = {"call": call, "floor": floor}
    for name in passes[0]:
        row[name] = median(times[name] for times in passes)
    row["ratio"] = median(times["gymnasium"] / times["gymvec"] for times in passes)
    if "memcpy" in passes[0]:
        row["of_memcpy"] = median(times["gymvec"] / times["memcpy"] for times in passes)
    return row


def below(result):
    """The rows that do not reach their floor."""
    found = [
        f"{row['call']}: {row['ratio']:.2f}, floor {row['floor']}"
        for row in result["rows"]
        if row["ratio"] < row["floor"]
    ]
    found += [
        f"{row['call']}: {row['of_memcpy']:.2f} times one memcpy, floor 1.05"
        for row in result["rows"]
        if row.get("of_memcpy", 0) > 1.05
    ]
    if result["import_ms"] is not None and result["import_ms"] > IMPORT_FLOOR_MS:
        found.append(f"import: {result['import_ms']:.0f} ms, floor {IMPORT_FLOOR_MS}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE")
    arguments, of_pytest = parser.parse_known_args()
    load = measure.load()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "measured.json")
        options = ["-q", "-W", "default", "--benchmark-quiet", f"--benchmark-json={path}"]
        status = pytest.main([__file__, *options, *of_pytest])
        if status != 0:
            sys.exit(status)
        result = measure.about(load) | reduced(json.loads(path.read_text("utf-8")))
    print(table.functions(result))
    print(measure.load_text(*result["load before and after"]))
    for line in below(result):
        print(f"below its floor: {line}")
    if arguments.json is not None:
        measure.write(arguments.json, result)


if __name__ == "__main__":
    main()
