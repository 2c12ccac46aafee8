"""How long a worker may go without an answer to a step or a reset."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable

__all__ = ["StallTimer"]


class StallTimer:
    """Says which worker makes no progress.

    The time of a worker begins anew with every command that it gets and every answer that it
    gives, so that it is the time of one environment and not of a whole slice.

    Args:
        seconds: How long a worker may take for an answer.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[int, tuple[Hashable, float]] = {}

    def begin(self, workers: Iterable[int] | None = None) -> None:
        """Commands were sent to some workers; None for all."""
        if workers is None:
            self._since.clear()
            return
        for worker in workers:
            self._since.pop(worker, None)

    def over(self, worker: int, progress: Hashable) -> bool:
        """Whether a worker that owes an answer has been at the same point for too long.

        Args:
            worker: Its number.
            progress: Changes with every answer.
        """
        now = time.monotonic()
        before, since = self._since.setdefault(worker, (progress, now))
        if before != progress:
            self._since[worker] = progress, now
            return False
        if now - since < self.seconds:
            return False
        # Told once; then it is given its time again.
        del self._since[worker]
        return True
