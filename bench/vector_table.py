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
    lines = [
        " | ".join(["| environment | n | bare loop, us", *(f"{kind}, us" for kind in COLUMNS)])
        + " | slowest loop / mean | rounds that count | efficiency of Gymnasium async "
        "| of gymvec async | in all rounds |",
        "|---" + "|---:" * 11 + "|",
    ]
    for result in facts["results"]:
        medians, efficiency = result["medians"], result["efficiency"]
        cells = [result["env"], str(result["num_envs"])]
        cells += [
            measure.digits(medians[kind] * 1e6) if kind in medians else "refuses"
            for kind in ("bare loops", *COLUMNS)
        ]
        cells.append(f"{result['unevenness']:.2f}")
        cells.append(f"{result['rounds that count']} of {result['rounds']}")
        cells += [
            f"{efficiency[kind]:.2f}" if kind in efficiency else "-" if kind in medians else "0"
            for kind in ("Gymnasium async", "gymvec async")
        ]
        cells.append(f"{result['efficiency in all rounds']['gymvec async']:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
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
