"""The table and the picture of what ``bench/peers/run.py`` measured."""

from gymvec.cli.report import label
from gymvec.measuring.backends import LIMIT
from gymvec.measuring.facts import digits


def by_backend(figures):
    """The results, by backend and environment."""
    cells = {}
    for result in figures["results"]:
        cells.setdefault(label(result, figures["results"]), {})[result["env"]] = result
    return cells


def environments(figures):
    return list(dict.fromkeys(result["env"] for result in figures["results"]))


def cell(result):
    if result is None:
        return ""
    if not result["seconds"]:
        return "fails"
    microseconds = digits(1e6 / result["env steps per second"]["median"])
    if result["efficiency"] is None:
        return microseconds
    return f"{microseconds} ({result['efficiency']:.2f})"


def table(figures):
    """Microseconds an environment step and efficiency: a line a backend, a column an environment."""
    names = environments(figures)
    lines = [
        "| us per env step (efficiency) | " + " | ".join(names) + " |",
        "|---" + "|---:" * len(names) + "|",
    ]
    for name, results in by_backend(figures).items():
        cells = (cell(results.get(env)) for env in names)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    versions = ", ".join(f"{name} {found}" for name, found in figures["versions"].items())
    notes = [
        f"{result['backend']} fails on {result['env']}: {short(result['reason'])}"
        for result in figures["results"]
        if result["reason"]
    ]
    notes += [f"{name}: {why}" for name, why in figures["absent"].items()]
    notes.append(
        f"{figures['num_envs']} environments, {figures['workers']} workers; medians of "
        f"{figures['plan']['rounds']} rounds of `{figures['command']}` on {figures['machine']}; "
        f"{versions}."
    )
    return "\n\n".join(["\n".join(lines), *notes])


def short(reason, length=100):
    return reason if len(reason) <= length else reason[: length - 3] + "..."


def draw(figures, path):
    """The efficiencies, a group of bars an environment."""
    from matplotlib.figure import Figure

    names = environments(figures)
    drawn = {
        name: results for name, results in by_backend(figures).items() if LIMIT.name not in name
    }
    figure = Figure(figsize=(9, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    width = 0.85 / max(1, len(drawn))
    for i, (name, results) in enumerate(drawn.items()):
        places, heights = [], []
        for place, env in enumerate(names):
            result = results.get(env)
            if result is not None and result["efficiency"] is not None:
                places.append(place + (i - (len(drawn) - 1) / 2) * width)
                heights.append(result["efficiency"])
        ours = name.startswith("gymvec")
        axes.bar(places, heights, width, label=name, edgecolor="black" if ours else "none")
    axes.axhline(1.0, color="black", linestyle="--", linewidth=1, label="bare loops (the limit)")
    axes.set_yscale("log")
    axes.set_xticks(range(len(names)), names, fontsize=8, rotation=12)
    axes.set_ylabel("efficiency: rate over that of bare loops")
    title = f"{figures['num_envs']} environments, {figures['machine']}"
    axes.set_title(title, fontsize=10)
    axes.grid(True, axis="y", alpha=0.25)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(path)
