"""Whether something outside of a benchmark slows the cores down."""

import os
import time

__all__ = ["Disturbance"]

# A core whose other hardware thread is busy, with another virtual machine's work for one, takes
# about 1.6 times as long.
MOST = 1.15
# Whoever was measured last may still spin for a moment.
SETTLE_SECONDS = 0.002
FIRST_PROBES = 50


class Disturbance:
    """Asks each core for the same short loop, and compares with the fastest that was ever seen.

    It knows nothing of what is measured, so it favours nobody. Where a process cannot choose its
    core, it asks whichever it is on.
    """

    def __init__(self):
        self._cores = os.sched_getaffinity(0) if hasattr(os, "sched_setaffinity") else None
        self._least = float("inf")
        for _ in range(FIRST_PROBES):
            self()

    def __call__(self):
        """Whether a core is slow now."""
        time.sleep(SETTLE_SECONDS)
        if self._cores is None:
            times = [probe()]
        else:
            try:
                times = [probe(core) for core in self._cores]
            finally:
                os.sched_setaffinity(0, self._cores)
        self._least = min(self._least, *times)
        return max(times) > MOST * self._least


def probe(core=None):
    """Seconds of about a millisecond's work."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    begin = time.perf_counter()
    total = 0
    for i in range(20_000):
        total += i * i
    return time.perf_counter() - begin
