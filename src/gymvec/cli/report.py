"""What was measured, as data and as tables."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from gymvec.measuring.backends import LIMIT
from gymvec.measuring.facts import digits, median_ratio
from gymvec.measuring.rounds import Row

__all__ = ["FORMAT", "failed", "label", "markdown", "note_of_uneven_cores", "results", "rich_table"]

# From here on, unequal cores say more about the efficiency than what is measured does.
_UNEVEN = 1.1

FORMAT = "gymvec compare 1"


def results(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The rows as JSON has them: with rates, their quartiles and the efficiency.

    ``efficiency`` is the rate over that of bare loops, one a core and all at once, over the same
    number of environments; the median of the rounds' quotients. It is None without such loops.
    """
    limits = {row.num_envs: row for row in rows if row.backend == LIMIT.name and row.seconds}
    return [_result(row, limits.get(row.num_envs)) for row in rows]


def _result(row: Row, limit: Row | None) -> dict[str, Any]:
    rate, efficiency = None, None
    if row.seconds:
        rates = [1 / seconds for seconds in row.seconds]
        lower, middle, upper = (
            statistics.quantiles(rates, n=4, method="inclusive") if len(rates) > 1 else rates * 3
        )
        rate = {"median": middle, "lower quartile": lower, "upper quartile": upper}
        if limit is not None:
            efficiency = median_ratio(limit.seconds, row.seconds)
    return {**asdict(row), "env steps per second": rate, "efficiency": efficiency}


def failed(found: Iterable[dict[str, Any]]) -> bool:
    """Whether no vector environment was measured at all."""
    return not any(each["seconds"] for each in found if each["backend"] != LIMIT.name)


def note_of_uneven_cores(found: Iterable[dict[str, Any]]) -> str | None:
    """What to say where the cores did not run equally fast."""
    factors = [
        statistics.median(each["unevenness"])
        for each in found
        if each["unevenness"] and each["seconds"]
    ]
    most = max(factors, default=1.0)
    if most < _UNEVEN:
        return None
    return (
        f"The cores were uneven: the slowest bare loop took up to {most:.2f} times the mean, "
        "and who steps all environments in lock-step waits for the slowest."
    )


def label(result: dict[str, Any], found: Iterable[dict[str, Any]]) -> str:
    """The backend's name, with its workers where the results differ in them."""
    name: str = result["backend"]
    workers = {each["workers"] for each in found if each["workers"] is not None}
    if name == LIMIT.name:
        return f"{LIMIT.name} (the limit)"
    if result["workers"] is None or len(workers) < 2:
        return name
    return f"{name}, {result['workers']} worker{'s' * (result['workers'] > 1)}"


def rich_table(facts: dict[str, Any]) -> Any:
    """A :class:`rich.table.Table` of all results, and of why the others are none."""
    from rich.table import Table

    table = Table(title=facts["env"]["id"])
    for name in ("n", "backend", "env steps/s", "quartiles", "us per env step", "efficiency"):
        table.add_column(name, justify="left" if name == "backend" else "right", no_wrap=True)
    has_failures = any(result["reason"] for result in facts["results"])
    if has_failures:
        table.add_column("why not", overflow="fold")
    before = None
    for result in facts["results"]:
        if before not in (None, result["num_envs"]):
            table.add_section()
        before = result["num_envs"]
        cells = [str(before), label(result, facts["results"]), *_cells(result)]
        # Reasons come from elsewhere, and may have brackets that rich would take for markup.
        table.add_row(*cells, *([_plain(result["reason"])] if has_failures else []))
    return table


def _plain(text: str | None) -> Any:
    from rich.text import Text

    return Text(text or "")


def _cells(result: dict[str, Any]) -> list[str]:
    rate, efficiency = result["env steps per second"], result["efficiency"]
    if rate is None:
        return ["-"] * 4
    return [
        f"{rate['median']:,.0f}",
        f"{rate['lower quartile']:,.0f} to {rate['upper quartile']:,.0f}",
        digits(1e6 / rate["median"]),
        "-" if efficiency is None else f"{efficiency:.2f}",
    ]


def markdown(facts: dict[str, Any]) -> str:
    """The results with a column a number of environments, what was not measured, and how."""
    found = facts["results"]
    sizes = sorted({result["num_envs"] for result in found})
    cells: dict[str, dict[int, str]] = {}
    reasons: dict[str, str] = {}
    for result in found:
        name, rate = label(result, found), result["env steps per second"]
        cell = "-" if rate is None else f"{rate['median']:,.0f}"
        if rate is not None and result["efficiency"] is not None:
            cell += f" ({result['efficiency']:.2f})"
        cells.setdefault(name, {})[result["num_envs"]] = cell
        if result["reason"]:
            reasons[f"{name}, n = {result['num_envs']}"] = result["reason"]
    lines = [
        "| " + " | ".join(["env steps/s (efficiency)", *(f"n = {n}" for n in sizes)]) + " |",
        "|---" + "|---:" * len(sizes) + "|",
    ]
    for name, by_size in cells.items():
        lines.append("| " + " | ".join([name, *(by_size.get(n, "") for n in sizes)]) + " |")
    lines.append("")
    for where, reason in reasons.items():
        lines += [f"{where}: {reason}", ""]
    versions = ", ".join(f"{name} {found}" for name, found in facts["versions"].items())
    rounds = facts["plan"]["rounds"]
    lines.append(
        f"Medians of {rounds} rounds of `{facts['command']}` on {facts['machine']}; {versions}."
    )
    return "\n".join(lines)
