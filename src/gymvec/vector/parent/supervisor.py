"""Which workers are dead, stopped, stalled or slow."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable

from gymnasium import logger

from gymvec.vector.parent.processes import Workers
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.exceptions import unpack_error
from gymvec.vector.transport.memory import Layout

__all__ = ["STOPPED_SECONDS", "StallTimer", "Supervisor"]

# After what time of waiting stopped workers are warned of, and after what time slow ones.
STOPPED_SECONDS = 1.0
_SLOW_SECONDS = 60.0


class Supervisor:
    """Looks after the workers; the pool and its death policy decide what is done.

    Args:
        layout: What lies where in the segment.
        doorbell: The control words.
        workers: The processes.
        step_timeout: Seconds that a worker may take for an answer, or None.

    Attributes:
        worker_of: The worker of each environment.
        gone: Workers that died and that nothing is expected of.
        stall_timer: Measures ``step_timeout``; None where there is none.
        build_failures: What new workers raised that could not build their environments.
    """

    def __init__(
        self, layout: Layout, doorbell: Parent, workers: Workers, step_timeout: float | None
    ) -> None:
        self._layout = layout
        self._doorbell = doorbell
        self._workers = workers
        self.worker_of = [
            worker for worker, part in enumerate(layout.slices) for _ in range(part.size)
        ]
        self.gone: set[int] = set()
        self.stall_timer = None if step_timeout is None else StallTimer(step_timeout)
        self.build_failures: dict[int, BaseException] = {}
        # New workers that have not built their environments yet, and until when they should.
        self._building: dict[int, float] = {}
        self._warned: set[int] = set()

    def envs_of(self, worker: int) -> list[int]:
        """The environments of a worker."""
        part = self._layout.slices[worker]
        return list(range(part.start, part.stop))

    def dead(self) -> list[int]:
        """Workers that have ended and that were not given up yet."""
        return [
            worker
            for worker in range(len(self._workers.processes))
            if worker not in self.gone and self._workers.has_ended(worker)
        ]

    def owing(self) -> list[int]:
        """Workers that have not answered a command; what they have answered was drained."""
        return [
            worker
            for worker in range(len(self._layout.slices))
            if self._doorbell.queue_pending(worker)
        ]

    def begin(self, envs: Iterable[int] | None) -> None:
        """Environments were sent a command; None for all."""
        if self.stall_timer is not None:
            self.stall_timer.begin(None if envs is None else {self.worker_of[env] for env in envs})

    def is_building(self, worker: int) -> bool:
        """Whether a new worker has not built its environments yet."""
        return worker in self._building

    def is_stalled(self, worker: int) -> bool:
        """Whether a worker has given no answer for ``step_timeout`` seconds, or builds too long."""
        if worker in self._building:
            return time.monotonic() > self._building[worker]
        if self.stall_timer is None:
            return False
        received = self._workers.pipes[worker].received
        return self.stall_timer.over(worker, (self._doorbell.queue_pending(worker), received))

    def begin_building(self, worker: int, seconds: float) -> None:
        """A new worker has so many seconds to build its environments."""
        self.build_failures.pop(worker, None)
        if self.stall_timer is not None:
            self._building[worker] = time.monotonic() + max(seconds, self.stall_timer.seconds)

    def built(self, env: int, failure: memoryview) -> None:
        """A new worker has built its environments; or why not, packed."""
        worker = self.worker_of[env]
        if len(failure) > 0:
            self.build_failures[worker] = unpack_error(failure, [env])
        elif self._building.pop(worker, None) is not None and self.stall_timer is not None:
            self.stall_timer.begin([worker])

    def reset_worker(self, worker: int) -> None:
        """Another process takes the place of a worker."""
        self._building.pop(worker, None)
        self._warned.discard(worker)

    def warn_of_delays(self, workers: Iterable[int], waited: float) -> None:
        """Warn once of each worker that is stopped or slow, after so many seconds of waiting."""
        for worker in workers:
            if worker in self._warned:
                continue
            if self._workers.is_stopped(worker):
                how = "is stopped (by a debugger or a signal)"
            elif waited >= _SLOW_SECONDS:
                how = f"has not answered for {_SLOW_SECONDS:.0f} seconds"
            else:
                continue
            self._warned.add(worker)
            logger.warn(
                f"the worker of environments {self.envs_of(worker)} {how}; this call waits for it"
            )

    def warn_no_more(self) -> None:
        """The end is near for workers that do not answer, and nothing is to be done about them."""
        self._warned.update(range(len(self._layout.slices)))


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
