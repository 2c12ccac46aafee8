"""The table of ratios from what pytest-benchmark measured.

    python bench/table.py reduce MEASURED.json RESULT.json
    python bench/table.py show RESULT.json
    python bench/table.py paste RESULT.json README.md

``reduce`` keeps what the table needs; ``show`` also names the rows below their floor.
"""

import argparse
import json
import platform
from importlib.metadata import version
from pathlib import Path
from statistics import median

from readme import paste

IMPORT_FLOOR_MS = 30


def reduce(measured):
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
    cpu = measured["machine_info"]["cpu"]
    return {
        "command": "make bench",
        "machine": f"{cpu.get('brand_raw', platform.machine())}, {cpu['count']} cores",
        "system": platform.system(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "gymnasium", "gymvec")},
        },
        "import_ms": median(imports) * 1e3,
        "rows": [
            reduced(call, row["floor"], list(row["passes"].values())) for call, row in rows.items()
        ],
    }


def reduced(call, floor, passes):
    row = {"call": call, "floor": floor}
    for name in passes[0]:
        row[name] = median(times[name] for times in passes)
    row["ratio"] = median(times["gymnasium"] / times["gymvec"] for times in passes)
    if "memcpy" in passes[0]:
        row["of_memcpy"] = median(times["gymvec"] / times["memcpy"] for times in passes)
    return row


def table(result):
    lines = ["| call | Gymnasium, us | gymvec, us | ratio |", "|---|---:|---:|---:|"]
    for row in result["rows"]:
        times = f"{digits(row['gymnasium'])} | {digits(row['gymvec'])}"
        lines.append(f"| {row['call']} | {times} | {digits(row['ratio'])} |")
    notes = [f"`import gymvec` after `import gymnasium.vector`: {result['import_ms']:.0f} ms."]
    for row in result["rows"]:
        if "of_memcpy" in row:
            notes.append(
                f"One `memcpy` of the bytes of 64 images: {digits(row['memcpy'])} us; gymvec takes "
                f"{row['of_memcpy']:.2f} times that."
            )
    versions = result["versions"]
    notes.append(
        f"Medians of `{result['command']}` on {result['machine']}, {result['system']}, "
        f"Python {versions['python']}, NumPy {versions['numpy']}, "
        f"Gymnasium {versions['gymnasium']}, gymvec {versions['gymvec']}."
    )
    return "\n".join([*lines, "", *notes])


def digits(number):
    """Three digits that count, as a person would write them."""
    return f"{number:,.{max(0, 2 - len(str(int(number))) + (number < 1))}f}"


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
    if result["import_ms"] > IMPORT_FLOOR_MS:
        found.append(f"import: {result['import_ms']:.0f} ms, floor {IMPORT_FLOOR_MS}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("reduce", "show", "paste"))
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, nargs="?")
    arguments = parser.parse_args()
    content = json.loads(arguments.source.read_text())
    if arguments.action == "reduce":
        arguments.target.write_text(json.dumps(reduce(content), indent=1) + "\n")
    elif arguments.action == "show":
        print(table(content))
        for line in below(content):
            print(f"below its floor: {line}")
    else:
        paste(arguments.target, "bench/table.py", table(content))


if __name__ == "__main__":
    main()
