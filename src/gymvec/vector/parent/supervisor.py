"""Which workers are dead, stopped, stuck or slow, and what is done about it."""

from __future__ import annotations

from typing import NoReturn

from gymnasium import logger

from gymvec.vector.errors import WorkerDiedError
from gymvec.vector.parent.deadlines import TimedOut
from gymvec.vector.parent.processes import Workers
from gymvec.vector.parent.stall_timer import StallTimer
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.memory import Layout
from gymvec.vector.transport.pipe import drain

__all__ = ["Supervisor"]

# After what time of waiting stopped workers are warned of, and after what time slow ones.
_STOPPED_SECONDS = 1.0
_SLOW_SECONDS = 60.0


class Supervisor:
    """The part of :class:`gymvec.vector.parent.worker_pool.WorkerPool` that watches the workers.

    Args:
        layout: What lies where in the segment.
        step_timeout: Seconds that a worker may take for an answer while ``timed``, or None.

    Attributes:
        timed: Whether the answers that are waited for are those of steps or resets, or keep
            such from being sent.
        taken: Environments whose answers were taken and not handed on.
    """

    doorbell: Parent
    workers: Workers

    def __init__(self, layout: Layout, step_timeout: float | None) -> None:
        self.layout = layout
        self.timed = False
        self.taken: list[int] = []
        self._stall_timer = None if step_timeout is None else StallTimer(step_timeout)
        self._worker_of = [
            worker for worker, part in enumerate(layout.slices) for _ in range(part.size)
        ]
        self._mine = True
        self._death: tuple[list[int], int | None, str | None] | None = None
        self._gone: set[int] = set()
        self._warned: set[int] = set()

    @property
    def usable(self) -> bool:
        """Whether all workers live, as far as is known, and belong to this process."""
        return self._mine and self._death is None

    def check_usable(self) -> None:
        """Raise if a worker is dead, or this process is a fork of the one that started them."""
        if not self._mine:
            raise RuntimeError(
                "this vector environment belongs to the process that made it; a fork of that "
                "process must make its own"
            )
        if self._death is not None:
            raise WorkerDiedError(*self._death)

    def _check_owing(self, waited: float) -> None:
        """Raise if a worker that owes an answer has died; warn if one is stopped or slow."""
        owing: list[int] | None = None
        for worker in range(len(self.workers.processes)):
            if worker not in self._gone and self.workers.has_ended(worker):
                owing = owing or self._owing()
                if worker in owing:
                    self._report_death(worker)
        if self.timed and self._stall_timer is not None:
            # Nobody is waited for beyond that, and so there is nothing to warn of.
            for worker in owing or self._owing():
                if self._is_stuck(worker):
                    self._report_stuck(worker)
            return
        if waited < _STOPPED_SECONDS:
            return
        for worker in owing or self._owing():
            if worker in self._warned:
                continue
            if self.workers.is_stopped(worker):
                how = "is stopped (by a debugger or a signal)"
            elif waited >= _SLOW_SECONDS:
                how = f"has not answered for {_SLOW_SECONDS:.0f} seconds"
            else:
                continue
            self._warned.add(worker)
            logger.warn(
                f"the worker of environments {self._envs_of(worker)} {how}; this call waits for it"
            )

    def _owing(self) -> list[int]:
        drain(self.doorbell, len(self._worker_of), self.taken)
        return [
            worker
            for worker in range(len(self.layout.slices))
            if self.doorbell.queue_pending(worker)
        ]

    def _is_stuck(self, worker: int) -> bool:
        """Whether a worker has given no answer for ``step_timeout`` seconds."""
        if self._stall_timer is None:
            return False
        received = self.workers.pipes[worker].received
        return self._stall_timer.over(worker, (self.doorbell.queue_pending(worker), received))

    def _report_stuck(self, worker: int) -> NoReturn:
        assert self._stall_timer is not None
        envs = self._envs_of(worker)
        envs = list(filter(self.doorbell.pending, envs)) or envs
        raise TimedOut(
            f"environments {envs} have not answered for `step_timeout={self._stall_timer.seconds}` "
            "second(s)",
            envs,
        )

    def _envs_of(self, worker: int) -> list[int]:
        part = self.layout.slices[worker]
        return list(range(part.start, part.stop))

    def _built(self, env: int, failure: memoryview) -> None:
        """A worker in place of a dead one has built its environments, or why not."""

    def _report_death(
        self, worker: int, reason: str | None = None, cause: BaseException | None = None
    ) -> NoReturn:
        death = self._envs_of(worker), self.workers.exit_code(worker), reason
        self._death = self._death or death
        self._gone.add(worker)
        drain(self.doorbell, len(self._worker_of), self.taken)
        self.doorbell.mark_dead(worker)
        raise WorkerDiedError(*death) from cause

    def disown(self) -> None:
        """Leave the workers to the parent: this process is its fork."""
        self._mine = False
        self.workers.disown()
