"""Whether the steps of a worker mostly wait: sleep, or wait for sockets, other processes, a GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

__all__ = ["WaitMeter"]

# So many of a worker's first steps are measured; a clock costs more than some steps.
_STEPS = 32
# Shorter steps gain little from more workers.
_LEAST_SECONDS = 0.0005
_MOSTLY = 0.5


class WaitMeter:
    """Measures a worker's first steps.

    On a loaded machine a step takes longer than it computes without waiting for anything. What
    tells the two apart: the time that the thread stood in line for a core (Linux), and that who
    waits gives its core up of its own accord.
    """

    def __init__(self) -> None:
        self._left = _STEPS
        self._wall = self._busy = 0.0
        self._switches = 0

    @property
    def done(self) -> bool:
        """Whether all was measured."""
        return self._left <= 0

    def measure(self, step: Callable[[int, Any], Any], env: int, action: Any) -> None:
        """Step an environment. What it raises is raised, and its time is left out."""
        wall, busy, switches = time.perf_counter(), _busy(), _switches()
        step(env, action)
        self._wall += time.perf_counter() - wall
        self._busy += _busy() - busy
        self._switches += _switches() - switches
        self._left -= 1

    def share(self) -> float | None:
        """The share of the time that was waited, or None where that is less than most of it."""
        steps = _STEPS - self._left
        if steps == 0 or self._wall < steps * _LEAST_SECONDS:
            return None
        share = 1.0 - self._busy / self._wall
        waits = resource is None or self._switches * 2 >= steps
        return share if share > _MOSTLY and waits else None


def _busy() -> float:
    """Seconds that this process has computed, and that this thread stood in line to compute."""
    try:
        with open("/proc/thread-self/schedstat") as file:
            in_line = int(file.read().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        in_line = 0.0
    return time.process_time() + in_line


def _switches() -> int:
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
