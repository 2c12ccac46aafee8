"""What a figure means nothing without, and how figures are written."""

from __future__ import annotations

import platform
import shlex
import statistics
import sys
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gymvec.measuring.load import load
from gymvec.system.limits import usable_cores

__all__ = ["about", "digits", "median_ratio"]


def median_ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """Median of the quotients of two series taken in the same rounds."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def digits(number: float) -> str:
    """Three digits that count, as a person would write them."""
    if number == 0:
        return "0"
    return f"{number:,.{max(0, 2 - len(str(int(abs(number)))) + (abs(number) < 1))}f}"


def about(
    load_before: float | None, packages: Iterable[str], command: str | None = None
) -> dict[str, Any]:
    """Command, machine, system, load and versions.

    Args:
        load_before: :func:`gymvec.measuring.load.load` before the first figure was taken.
        packages: Distributions whose versions matter, those that are not installed too.
        command: What makes the figures again; None for the command of this process.
    """
    return {
        "command": command or " ".join(["python", *map(shlex.quote, sys.argv)]),
        "machine": f"{_processor()}, {usable_cores()} cores",
        "system": f"{platform.system()} {platform.release()}",
        # The figures' own processes would be part of an average.
        "load before and after": [load_before, load(average=False)],
        "versions": {"python": platform.python_version()}
        | {name: found for name in packages if (found := _version(name))},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.split(":")[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
