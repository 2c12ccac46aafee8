"""README's table of vector environments: ``python bench/vector_table.py RESULT.json README.md``.

RESULT.json is what ``bench/efficiency.py --json`` wrote.
"""

import json
import sys
from pathlib import Path

import measure
from readme import paste

COLUMNS = ("Gymnasium sync", "gymvec sync", "Gymnasium async", "gymvec async")


def table(facts):
    """The table, and what its figures mean nothing without."""
    results = facts["results"]
    lines = [
        " | ".join(["| environment | n | bare loop, us", *(f"{kind}, us" for kind in COLUMNS)])
        + " | slowest loop / mean | efficiency of Gymnasium async | of gymvec async |",
        "|---" + "|---:" * 9 + "|",
    ]
    for result in results:
        times, efficiency = result["times"], result["efficiency"]
        cells = [result["env"], str(result["num_envs"])]
        cells += [
            measure.microseconds(times[kind]) if kind in times else "refuses"
            for kind in ("bare loops", *COLUMNS)
        ]
        cells.append(f"{result['unevenness']:.2f}")
        cells += [
            f"{efficiency[kind]:.2f}" if kind in efficiency else "0"
            for kind in ("Gymnasium async", "gymvec async")
        ]
        lines.append("| " + " | ".join(cells) + " |")
    taken = sum(len(times) for result in results for times in result["times"].values())
    retaken, disturbed = (
        sum(sum(result[key].values()) for result in results) for key in ("retaken", "disturbed")
    )
    versions = ", ".join(f"{name} {found}" for name, found in facts["versions"].items())
    lines += [
        "",
        f"Microseconds an environment step, medians of `{facts['command']}` with "
        f"{facts['workers']} workers on {facts['machine']}; {versions}. Of {taken} figures, "
        f"{retaken} were taken anew because something else slowed a core down, and {disturbed} "
        "count although that may be.",
    ]
    return "\n".join(lines)


def main():
    source, target = map(Path, sys.argv[1:])
    paste(target, "bench/vector_table.py", table(json.loads(source.read_text())))


if __name__ == "__main__":
    main()
