"""How many cores this process may use."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cpu_quota", "usable_cores"]

_CGROUPS = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Cores that the affinity mask and the cgroup quota leave to this process, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_quota() -> float | None:
    """Cores' worth of time that the cgroup allows; None without a limit."""
    limits = [limit for limit in map(_limit, _own_groups()) if limit is not None]
    return min(limits, default=None)


def _own_groups() -> list[Path]:
    """The folders of this process's cgroup and its ancestors, in either version."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root = _CGROUPS
        elif "cpu" in controllers.split(","):
            root = _CGROUPS / controllers
        else:
            continue
        folder = root / path.lstrip("/")
        folders += [folder, *(parent for parent in folder.parents if root in (parent, *parent.parents))]
    return folders


def _limit(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        cores = float(quota) / float(period)
    except (OSError, ValueError):
        return None  # No limit here ("max"), or none that can be read.
    return cores if cores > 0 else None
