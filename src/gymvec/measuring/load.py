"""How much of the cores other processes take, without which a figure means little."""

from __future__ import annotations

import os
import time

from gymvec.system.limits import affinity, usable_cores

__all__ = ["is_busy", "load", "load_text"]

# The system counts in hundredths of a second, and a shorter wait sees too few of them.
_SHORTEST = 0.05
# Each system has something to do now and then. A process that computes takes a whole core.
_MOST_CORES = 0.5
_MOST_SHARE = 0.1


def load(seconds: float = 0.1, *, average: bool = True) -> float | None:
    """Cores that other processes take from this one: their time on the usable cores a second.

    This thread sleeps meanwhile, and what other threads of this process take is not counted.
    Its children are other processes: they should be stopped or gone.

    Args:
        seconds: How long to look.
        average: Whether to take the system's average of the last minute where looking says
            nothing (no ``/proc/stat``, or too short a time). What this process and its children
            did in that minute is part of it.

    Returns:
        Between 0 and the number of usable cores; None if the system does not say.
    """
    usable = usable_cores()
    found = _idle_cores(seconds)
    if found is None and average:
        found = _idle_on_average()
    # With a quota below the number of cores, others may take some without taking them from here.
    return None if found is None else min(max(usable - found, 0.0), float(usable))


def is_busy(load: float | None) -> bool:
    """Whether figures that are taken beside this :func:`load` say little."""
    return load is not None and load > max(_MOST_CORES, _MOST_SHARE * usable_cores())


def load_text(before: float | None, after: float | None) -> str:
    """What to say beside figures, with a warning where the machine was busy."""
    text = (
        f"Other processes took {_shown(before)} of {usable_cores()} cores before and "
        f"{_shown(after)} after."
    )
    if is_busy(before) or is_busy(after):
        text += " The machine is busy: figures that are taken now say little."
    return text


def _shown(load: float | None) -> str:
    return "an unknown number" if load is None else f"{load:.1f}"


def _idle_cores(seconds: float) -> float | None:
    """Cores that no other process uses, from what the system counts meanwhile."""
    if seconds < _SHORTEST:
        return None
    before, own, begin = _counted(), time.process_time(), time.perf_counter()
    if not before:
        return None
    time.sleep(seconds)
    after, end = _counted(), time.perf_counter()
    own = (time.process_time() - own) / (end - begin)
    idle = 0.0
    for core, (idle_before, all_before) in before.items():
        # A core that was taken offline meanwhile is missing, and a sandbox may count nothing.
        idle_after, all_after = after.get(core, (0, 0))
        if all_after <= all_before:
            return None
        idle += min(max((idle_after - idle_before) / (all_after - all_before), 0.0), 1.0)
    return idle + own


def _counted() -> dict[int, tuple[int, int]]:
    """For each core of the affinity mask its idle time and all of its time; empty if unknown."""
    found = {}
    mine = affinity()
    try:
        with open("/proc/stat") as file:
            for line in file:
                name, *fields = line.split()
                number = name.removeprefix("cpu")
                if name != number and number.isdigit() and (not mine or int(number) in mine):
                    # User, nice, system, idle, iowait, irq, softirq, steal. What follows is
                    # part of the first two.
                    times = [int(field) for field in fields[:8]]
                    found[int(number)] = (times[3] + times[4], sum(times))
    except (OSError, ValueError, IndexError):
        return {}
    # A container may number its cores otherwise than the affinity mask does.
    return found if found.keys() >= set(mine) else {}


def _idle_on_average() -> float | None:
    try:
        wanted = os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows; a sandbox
        return None
    return (os.cpu_count() or 1) - wanted
