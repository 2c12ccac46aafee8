"""How many cores and how much memory this process may use."""

from __future__ import annotations

import os

__all__ = ["affinity", "cpu_quota", "memory_limit", "usable_cores"]

_CGROUPS = "/sys/fs/cgroup"
_NO_LIMIT = 1 << 60


def usable_cores() -> int:
    """Cores that the affinity mask and the cgroup quota leave to this process, at least 1."""
    cores = len(affinity()) or os.cpu_count() or 1
    quota = cpu_quota()
    return cores if quota is None else max(1, min(cores, int(quota)))


def affinity() -> list[int]:
    """The cores of the affinity mask, in order; none where a process cannot choose (not Linux)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def cpu_quota() -> float | None:
    """Cores' worth of time that the cgroup allows; None without a limit."""
    limits = [limit for limit in map(_limit, _own_groups("cpu")) if limit is not None]
    return min(limits, default=None)


def memory_limit() -> int | None:
    """Bytes that the cgroup allows, shared memory included; None without a limit.

    Who takes more is ended by the system, without an error.
    """
    limits = []
    for folder in _own_groups("memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            try:
                limits.append(int(_read(f"{folder}/{name}")))
            except (OSError, ValueError):
                pass  # No limit here ("max"), or none that can be read.
    # Without a limit the first version of cgroups gives the largest number of pages.
    return min([limit for limit in limits if limit < _NO_LIMIT], default=None)


def _own_groups(controller: str) -> list[str]:
    """The folders of this process's cgroup and its ancestors, in either version of cgroups."""
    try:
        lines = _read("/proc/self/cgroup").splitlines()
    except OSError:
        return []
    folders = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            root = _CGROUPS
        elif controller in controllers.split(","):
            root = f"{_CGROUPS}/{controllers}"
        else:
            continue
        parts = [part for part in path.split("/") if part]
        folders += ["/".join([root, *parts[:depth]]) for depth in range(len(parts) + 1)]
    return folders


def _limit(folder: str) -> float | None:
    try:
        if os.path.exists(f"{folder}/cpu.max"):
            quota, period = _read(f"{folder}/cpu.max").split()
        else:
            quota = _read(f"{folder}/cpu.cfs_quota_us")
            period = _read(f"{folder}/cpu.cfs_period_us")
        cores = float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):
        return None  # No limit here ("max"), or none that can be read.
    return cores if cores > 0 else None


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
