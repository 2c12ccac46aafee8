"""The picture: env steps per second over the number of environments, a line a backend."""

from __future__ import annotations

from typing import Any

from gymvec.cli.report import label
from gymvec.measuring.backends import LIMIT
from gymvec.measuring.load import load_text

__all__ = ["plot"]


def plot(facts: dict[str, Any], path: str) -> None:
    """Write the results as a picture, with the limit drawn in.

    Args:
        facts: What ``--json`` writes.
        path: Where the picture goes; its suffix says of which kind it is.
    """
    # Without pyplot, which looks for a screen.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), dpi=150, layout="constrained")
    axes = figure.add_subplot()
    for name, results in _lines(facts["results"]).items():
        sizes = [result["num_envs"] for result in results]
        rates = [result["env steps per second"] for result in results]
        is_limit, is_ours = results[0]["backend"] == LIMIT.name, name.startswith("gymvec")
        drawn = axes.plot(
            sizes,
            [rate["median"] for rate in rates],
            linestyle="--" if is_limit else "-",
            color="black" if is_limit else None,
            linewidth=2.5 if is_ours else 1.3,
            marker=None if is_limit else "o",
            markersize=5 if is_ours else 3.5,
            label=name,
        )
        axes.fill_between(
            sizes,
            [rate["lower quartile"] for rate in rates],
            [rate["upper quartile"] for rate in rates],
            color=drawn[0].get_color(),
            alpha=0.15,
            linewidth=0,
        )
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    sizes = sorted({result["num_envs"] for result in facts["results"]})
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_xlabel("environments")
    axes.set_ylabel("env steps per second")
    axes.set_title(f"{facts['env']['id']}, {facts['machine']}", fontsize=10)
    axes.grid(True, which="both", alpha=0.25)
    footer = load_text(*facts["load before and after"])
    figure.supxlabel(footer, x=0.01, horizontalalignment="left", fontsize=7)
    figure.legend(loc="outside right upper", fontsize=8, frameon=False)
    figure.savefig(path)


def _lines(found: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The results that have figures, by line, from few environments to many."""
    lines: dict[str, list[dict[str, Any]]] = {}
    for result in sorted(found, key=lambda result: result["num_envs"]):
        if result["seconds"]:
            lines.setdefault(label(result, found), []).append(result)
    return lines
