"""Puts the tables of ``bench/results`` into the pages, and draws the picture: ``make table``.

    python bench/table.py

A table stands between ``<!-- table of NAME -->`` and ``<!-- end of table -->``. No figure stands in
two tables that were measured in two ways: a table that would repeat another one leaves it out.
"""

import json
from pathlib import Path

from measure import QUARTILES, STEP_QUARTILES, VECTOR_ENVS, digits

from gymvec.cli.report import label
from gymvec.measuring.backends import LIMIT

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PICTURE = ROOT / "docs" / "images" / "vector_envs.png"
END = "<!-- end of table -->"

# The number of environments of README's table.
MANY = 32
IDLE = "idle"


# --- the tables --------------------------------------------------------------------------


def step_times(figures):
    """README's: the microseconds of both packages' AsyncVectorEnv and their ratio."""
    theirs, ours = "Gymnasium async", "gymvec async"
    rows = []
    for result in figures["results"]:
        if result["num_envs"] == MANY:
            ratio = result["over gymvec async"].get(theirs)
            times = (microseconds(result, kind) for kind in (theirs, ours))
            rows.append([result["env"], *times, "-" if ratio is None else digits(ratio)])
    header = ["us per environment step", theirs, ours, "ratio"]
    measured = (
        f"{MANY} environments, {figures['workers']} workers of gymvec; medians of "
        f"{rounds(figures)} rounds"
    )
    return table(header, rows, [*refused(figures), note(measured, figures)])


VECTOR_ENVS_HEADER = [
    "environment", "n", "bare loop, us", *(f"{kind}, us" for kind in VECTOR_ENVS),
    "Gymnasium async / gymvec async", "slowest loop / mean", "rounds that count",
    "efficiency of Gymnasium async", "of gymvec async", "in all rounds",
]  # fmt: skip


def vector_env_cells(result):
    """The line of an environment in the table of vector environments."""
    efficiency, ratio = result["efficiency"], result["over gymvec async"].get("Gymnasium async")
    return [
        result["env"],
        str(result["num_envs"]),
        *(microseconds(result, kind) for kind in (LIMIT.name, *VECTOR_ENVS)),
        "-" if ratio is None else digits(ratio),
        f"{result['unevenness']:.2f}",
        str(result["rounds that count"]),
        *(
            f"{efficiency[kind]:.2f}" if kind in efficiency else "-"
            for kind in ("Gymnasium async", "gymvec async")
        ),
        f"{result['efficiency in all rounds']['gymvec async']:.2f}",
    ]


def vector_envs(figures):
    measured = (
        f"Microseconds per environment step; medians of {rounds(figures)} rounds with "
        f"{figures['workers']} workers"
    )
    rows = [vector_env_cells(result) for result in figures["results"]]
    return table(VECTOR_ENVS_HEADER, rows, [*refused(figures), note(measured, figures)])


def refused(figures):
    """Which vector environments fail on what, and why."""
    found = [
        f"{kind} fails on {result['env']}: {short(reason)}"
        for result in figures["results"]
        for kind, reason in result["refused"].items()
    ]
    return list(dict.fromkeys(found))


def functions(figures):
    rows = [
        [row["call"], *(digits(row[name]) for name in ("gymnasium", "gymvec", "ratio"))]
        for row in figures["rows"]
    ]
    notes = []
    if figures["import_ms"] is not None:
        notes.append(
            f"`import gymvec` after `import gymnasium.vector`: {figures['import_ms']:.0f} ms."
        )
    notes += [
        f"One `memcpy` of the bytes of 64 images: {digits(row['memcpy'])} us; gymvec takes "
        f"{row['of_memcpy']:.2f} times that."
        for row in figures["rows"]
        if "of_memcpy" in row
    ]
    header = ["call", "Gymnasium, us", "gymvec, us", "ratio"]
    return table(header, rows, [*notes, note("Medians", figures)])


def other_packages(figures):
    """Times of the other packages over gymvec async's, a column an environment."""
    notes = [
        f"{result['backend']} fails on {result['env']}: {short(result['reason'])}"
        for result in figures["results"]
        if result["reason"] and is_of_others(result)
    ]
    notes += [f"{name}: {why}" for name, why in figures["absent"].items()]
    measured = (
        f"{figures['num_envs']} environments, {figures['workers']} workers; medians of "
        f"{figures['plan']['rounds']} rounds"
    )
    header, rows = by_backend(figures["results"], lambda result: result["env"])
    return table(header, rows, [*notes, note(measured, figures)])


def numbers_of_envs(figures, peers):
    """The same for one environment, a column a number of environments."""
    name = figures["env"]["id"]
    there = {(result["env"], result["num_envs"]) for result in peers["results"]}
    found = [result for result in figures["results"] if (name, result["num_envs"]) not in there]
    header, rows = by_backend(found, lambda result: f"n = {result['num_envs']}")
    notes = [
        f"{result['backend']} fails with n = {result['num_envs']}: {short(result['reason'])}"
        for result in found
        if result["reason"] and is_of_others(result)
    ]
    measured = f"{name}; medians of {figures['plan']['rounds']} rounds"
    return table(header, rows, [*notes, note(measured, figures)])


def by_backend(results, column):
    """Header and rows of the other packages' times over gymvec async's."""
    columns, rows = list(dict.fromkeys(map(column, results))), {}
    for result in filter(is_of_others, results):
        over = result["over gymvec async"]
        cell = digits(over) if over is not None else "fails" if result["reason"] else "-"
        rows.setdefault(label(result, results), {})[column(result)] = cell
    return (
        ["times gymvec async", *columns],
        [[name, *(cells.get(each, "-") for each in columns)] for name, cells in rows.items()],
    )


def is_of_others(result):
    return result["backend"] not in (LIMIT.name, *VECTOR_ENVS)


def contended(figures):
    """Without what else an idle machine gives: the table of vector environments has that."""
    results = [result for result in figures["results"] if result["situation"] != IDLE]
    kinds = list(dict.fromkeys(kind for result in results for kind in result[QUARTILES]))
    rows = [
        [
            result["situation"],
            result["env"],
            str(result["num_envs"]),
            *(microseconds(result, kind) for kind in kinds),
            f"{result['ratio']:.2f}",
            result["best other"],
        ]
        for result in results
    ]
    header = [
        "beside", "environment", "n", *(f"{kind}, us" for kind in kinds),
        "gymvec async / best other", "best other",
    ]  # fmt: skip
    return table(header, rows, [note("Microseconds per environment step; medians", figures)])


def round_trips(figures):
    rows = [
        [
            row["what"],
            digits(row[STEP_QUARTILES]["gymvec async"][1]),
            row["against"],
            digits(row["ratio"]),
        ]
        for row in figures["round trips"]
    ]
    header = ["a step of", "gymvec async, us", "against", "its time / gymvec async's"]
    return table(header, rows, [note("Environments that do nothing; medians", figures)])


def under_load(figures):
    kinds = ("Gymnasium async", "gymvec async")
    rows = [
        [
            row["what"],
            str(row["num_envs"]),
            *(digits(row[STEP_QUARTILES][kind][1]) for kind in kinds),
            digits(row["ratio"]),
            *(f"{row['shares'][kind]:.1%}" for kind in kinds),
        ]
        for row in figures["under load"]
    ]
    header = [
        "beside", "n", *(f"{kind}, us a step" for kind in kinds), "ratio",
        "of a core, a worker of Gymnasium", "a worker of gymvec",
    ]  # fmt: skip
    return table(header, rows, [note("CartPole-v1; medians", figures)])


def ready_first(figures):
    if "ready first" not in figures:
        return unmeasured("latency")
    rows = [
        [row["what"], row["steps"], digits(row[QUARTILES][1]), digits(row["ratio"])]
        for row in figures["ready first"]
    ]
    header = ["vector environment", "steps", "us per env step", "times ready-first batches"]
    return table(header, rows, [note("Medians", figures)])


# --- their parts -------------------------------------------------------------------------


def table(header, rows, notes):
    lines = [
        "| " + " | ".join(header) + " |",
        "|---" + "|---:" * (len(header) - 1) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    return "\n\n".join(["\n".join(lines), *notes])


def microseconds(result, kind):
    """The median, as a table has it."""
    found = result[QUARTILES].get(kind)
    return "fails" if found is None else digits(found[1])


def note(measured, figures):
    """What the figures mean nothing without."""
    versions = ", ".join(f"{name} {found}" for name, found in figures["versions"].items())
    return f"{measured} of `{figures['command']}` on {figures['machine']}; {versions}."


def rounds(figures):
    return max(result["rounds"] for result in figures["results"])


def short(reason, length=100):
    return reason if len(reason) <= length else reason[: length - 3] + "..."


def unmeasured(name):
    return f"Not measured yet: `python bench/{name}.py --json bench/results/{name}.json`."


# --- the pages ---------------------------------------------------------------------------

# By page and name: the function, and the results that it takes.
PAGES = {
    "README.md": {"step times": (step_times, "vector_envs")},
    "docs/benchmarks.md": {
        "vector environments": (vector_envs, "vector_envs"),
        "other packages": (other_packages, "peers"),
        "numbers of environments": (numbers_of_envs, "compare", "peers"),
        "contended": (contended, "contended"),
        "round trips": (round_trips, "latency"),
        "under load": (under_load, "latency"),
        "ready first": (ready_first, "latency"),
        "functions": (functions, "functions"),
    },
}


def pasted(text, name, content):
    """A page with ``content`` between the marks of a table."""
    begin = f"<!-- table of {name} -->"
    if text.count(begin) != 1:
        raise ValueError(f"expected one {begin!r} in the page, got {text.count(begin)}: add it")
    before, rest = text.split(begin)
    after = rest.partition(END)[2]
    return f"{before}{begin}\n{content}\n{END}{after}"


def pages():
    """The text of each page with the tables of the results that are kept."""
    results = {path.stem: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("*.json")}
    found = {}
    for page, tables in PAGES.items():
        text = (ROOT / page).read_text("utf-8")
        for name, (function, *sources) in tables.items():
            missing = [source for source in sources if source not in results]
            content = (
                unmeasured(missing[0])
                if missing
                else function(*(results[source] for source in sources))
            )
            text = pasted(text, name, content)
        found[page] = text
    return found


def draw(figures, path):
    """The times of the vector environments, a group of bars an environment."""
    from matplotlib.figure import Figure

    results = [result for result in figures["results"] if result["num_envs"] == MANY]
    names = [result["env"] for result in results]
    figure = Figure(figsize=(9, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    width = 0.85 / len(VECTOR_ENVS)
    for i, kind in enumerate(VECTOR_ENVS):
        found = [(at, r[QUARTILES][kind]) for at, r in enumerate(results) if kind in r[QUARTILES]]
        places = [at + (i - (len(VECTOR_ENVS) - 1) / 2) * width for at, _ in found]
        heights = [middle for _, (_, middle, _) in found]
        bars = [[m - low for _, (low, m, _) in found], [high - m for _, (_, m, high) in found]]
        axes.bar(places, heights, width, yerr=bars, label=kind, error_kw={"linewidth": 0.8})
    axes.set_yscale("log")
    axes.set_xticks(range(len(names)), names, fontsize=8, rotation=12)
    axes.set_ylabel("us per environment step: median and quartiles")
    axes.set_title(f"{MANY} environments, {figures['machine']}; less is better", fontsize=10)
    axes.grid(True, axis="y", alpha=0.25)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(path)


def main():
    for page, text in pages().items():
        (ROOT / page).write_text(text, "utf-8")
    draw(json.loads((RESULTS / "vector_envs.json").read_text("utf-8")), PICTURE)


if __name__ == "__main__":
    main()
