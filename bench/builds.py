"""Instructions of calls in two builds: ``python bench/builds.py FOLDER FOLDER``.

Needs valgrind. Each folder holds a ``gymvec`` package. A call's instructions are the difference of
two runs under callgrind, one with more calls than the other, so that start-up does not count.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

FEW, MANY = 200, 1200

PROGRAM = """
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

CASES = (
    "box concatenate 64",
    "discrete concatenate 64",
    "nested concatenate 64",
    "box write 8",
    "box bound row 8",
)


def instructions(folder, case, times):
    """All instructions of a run."""
    with tempfile.TemporaryDirectory() as scratch:
        ended = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={scratch}/out"]
            + [sys.executable, "-c", PROGRAM, case, str(times)],
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


def main():
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs=2, type=Path)
    folders = parser.parse_args().folders
    print("| call | first build | second build | ratio |\n|---|---:|---:|---:|")
    for case in CASES:
        first, second = [
            (instructions(folder.resolve(), case, MANY) - instructions(folder.resolve(), case, FEW))
            / (MANY - FEW)
            for folder in folders
        ]
        print(f"| {case} | {first:,.0f} | {second:,.0f} | {second / first:.2f} |", flush=True)


if __name__ == "__main__":
    main()
