"""README's table of vector environments: ``python bench/vector_table.py RESULT.json README.md``.

RESULT.json is what ``bench/efficiency.py --json`` wrote.
"""

import json
import sys
from pathlib import Path

from efficiency import cells
from readme import paste

COLUMNS = ("Gymnasium sync", "gymvec sync", "Gymnasium async", "gymvec async")


def table(facts):
    """The table, and what its figures mean nothing without."""
    lines = [
        " | ".join(["| environment | n | bare loop, us", *(f"{kind}, us" for kind in COLUMNS)])
        + " | slowest loop / mean | rounds that count | efficiency of Gymnasium async "
        "| of gymvec async | in all rounds |",
        "|---" + "|---:" * 11 + "|",
    ]
    lines += ["| " + " | ".join(cells(result, COLUMNS)) + " |" for result in facts["results"]]
    versions = ", ".join(f"{name} {found}" for name, found in facts["versions"].items())
    lines += [
        "",
        f"Microseconds an environment step, medians of `{facts['command']}` with "
        f"{facts['workers']} workers on {facts['machine']}; {versions}.",
    ]
    return "\n".join(lines)


def main():
    source, target = map(Path, sys.argv[1:])
    paste(target, "bench/vector_table.py", table(json.loads(source.read_text())))


if __name__ == "__main__":
    main()
