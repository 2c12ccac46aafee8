"""Whether the cores ran at full speed while a benchmark took its figures."""

import os
import statistics
import time

from gymvec.system.limits import affinity

__all__ = ["Probes"]

# A core whose other hardware thread has work, of another virtual machine for one, takes about 1.6
# times as long.
MOST = 1.15
# So that the processes that were measured last have stopped, or sleep where nothing stops them.
SETTLE_SECONDS = 0.002


class Probes:
    """Asks each core for the same short loop after each figure.

    All figures are kept. At the end those are told apart before and after which each core was
    about as fast as in its fastest moments: a clock that slows down and a busy hardware thread
    beside it show, and who was measured does not matter. What comes and goes within a figure, and
    load that the system would run after the probe, do not show.
    """

    def __init__(self):
        self._cores = affinity()
        self._taken = []

    def __call__(self, name):
        """Note that ``name`` is through with a figure, or with building its environments."""
        time.sleep(SETTLE_SECONDS)
        self._taken.append((name, self._times()))

    def at_full_speed(self):
        """For each name whether each of its figures was taken at full speed, in order."""
        return at_full_speed(self._taken)

    def _times(self):
        if not self._cores:
            return [probe()]
        try:
            return [probe(core) for core in self._cores]
        finally:
            os.sched_setaffinity(0, self._cores)


def at_full_speed(taken):
    """See :class:`Probes`.

    Args:
        taken: Names and times of all cores; the first of a name is of no figure.
    """
    least = [
        statistics.quantiles(times, n=20, method="inclusive")[0]
        for times in zip(*(times for _, times in taken), strict=True)
    ]
    fast = [
        all(time <= MOST * fastest for time, fastest in zip(times, least, strict=True))
        for _, times in taken
    ]
    found = {}
    for index, (name, _) in enumerate(taken):
        if name not in found:
            found[name] = []
        else:
            found[name].append(fast[index - 1] and fast[index])
    return found


def probe(core=None):
    """Seconds of about a millisecond's work."""
    if core is not None:
        os.sched_setaffinity(0, {core})
    begin = time.perf_counter()
    total = 0
    for i in range(20_000):
        total += i * i
    return time.perf_counter() - begin
