"""What is done about a worker that died or stalled: raise, or start another."""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from gymnasium import logger

from gymvec.vector.errors import how_it_ended
from gymvec.vector.parent.deadlines import TimedOut
from gymvec.vector.parent.snapshots import Snapshots
from gymvec.vector.transport.carried import EnvFns, as_if_starting
from gymvec.vector.transport.memory import Layout

if TYPE_CHECKING:
    from gymvec.vector.parent.worker_pool import WorkerPool

__all__ = [
    "MAX_RESTARTS",
    "WINDOW_SECONDS",
    "DeathPolicy",
    "RaiseOnDeath",
    "RestartOnDeath",
    "check_replaceable",
]

# A worker that dies once more within the window is not replaced. Bad luck, such as memory that
# was short for a moment, seldom strikes one worker three times in a minute; an environment that
# takes its process down whenever it is reset does so in seconds, and then it is better to end
# with an error than to go on with nothing but new episodes.
MAX_RESTARTS = 3
WINDOW_SECONDS = 60.0
# How long a new worker may take to import and build, where steps have a time-out and no
# `start_timeout` says how long the first ones may take.
_START_SECONDS = 60.0


class RaiseOnDeath:
    """The vector environment ends with its first dead worker."""

    restarts = False

    def handle(self, pool: WorkerPool, worker: int) -> NoReturn:
        """A worker died.

        Raises:
            WorkerDiedError: Always.
        """
        pool.give_up(worker)

    def handle_stall(self, pool: WorkerPool, worker: int, seconds: float) -> NoReturn:
        """A worker has not answered for ``step_timeout`` seconds.

        Raises:
            TimedOut: Always.
        """
        envs = pool.supervisor.envs_of(worker)
        envs = list(filter(pool.doorbell.pending, envs)) or envs
        raise TimedOut(
            f"environments {envs} have not answered for `step_timeout={seconds}` second(s)", envs
        )

    def finish(self, pool: WorkerPool) -> bool:
        """False: nothing is left to do of an interrupted :meth:`handle`."""
        return False


class RestartOnDeath:
    """A new worker takes the place of one that died or stalls.

    The new worker is told where each episode ended
    (:mod:`gymvec.vector.worker.restarted_env`); the pool submits again what the dead one owed.

    Replacing is done step by step, each of which may be done twice, so that Ctrl-C in the middle
    only means that the next wait begins by finishing it.

    Args:
        context: That of the first workers. Where it forks, new workers come from a fork server or,
            where there is none, are spawned: by then there may be threads.
        start_timeout: How long a worker may take to build its environments, or None.
        snapshots: What the caller saw last.
    """

    restarts = True

    def __init__(self, context: Any, start_timeout: float | None, snapshots: Snapshots) -> None:
        self._context = _without_fork(context)
        self._start_seconds = start_timeout or _START_SECONDS
        self._snapshots = snapshots
        # Dead workers that are not replaced yet, and of what they died if that is known.
        self._broken: dict[int, str | None] = {}
        self._restarts: dict[int, deque[float]] = {}

    def handle(self, pool: WorkerPool, worker: int, reason: str | None = None) -> None:
        """A worker died: replace it.

        Raises:
            WorkerDiedError: It has died too often, or no other can be started.
        """
        pool.gate.replaced = True
        self._broken.setdefault(worker, reason)
        self.finish(pool)

    def handle_stall(self, pool: WorkerPool, worker: int, seconds: float) -> None:
        """A worker has not answered for ``step_timeout`` seconds: kill and replace it.

        Raises:
            WorkerDiedError: As :meth:`handle`.
        """
        self.handle(
            pool,
            worker,
            "has not built its environments again in time"
            if pool.supervisor.is_building(worker)
            else f"has not answered for `step_timeout={seconds}` second(s)",
        )

    def finish(self, pool: WorkerPool) -> bool:
        """Replace the dead workers that an interrupted call has left; whether there were any.

        Raises:
            WorkerDiedError: As :meth:`handle`.
        """
        if not self._broken:
            return False
        for worker, reason in list(self._broken.items()):
            self._replace(pool, worker, reason)
        return True

    def _replace(self, pool: WorkerPool, worker: int, reason: str | None) -> None:
        workers = pool.workers
        before = workers.processes[worker].pid
        if not workers.reap(worker):
            pool.give_up(worker, f"{reason or 'died'} and cannot be ended")
        cause = pool.last_words(worker)
        if reason is None and cause is not None:
            reason = f"could not build its environments again ({type(cause).__name__}: {cause})"
        exitcode = workers.exit_code(worker)
        reason = reason or how_it_ended(exitcode)
        # Kept for the caller, and for this to be done again.
        self._broken[worker] = reason
        now = time.monotonic()
        recent = self._restarts.setdefault(worker, deque())
        while recent and now - recent[0] > WINDOW_SECONDS:
            recent.popleft()
        if len(recent) >= MAX_RESTARTS:
            count = f"after {len(recent)} restarts within {WINDOW_SECONDS:.0f} seconds"
            pool.give_up(worker, f"{reason}, {count}", cause)
        envs = pool.supervisor.envs_of(worker)
        pool.reset_worker(worker, exitcode, reason)
        self._snapshots.restore(envs)
        try:
            self._start_again(pool, worker, {env: self._snapshots.pack(env) for env in envs})
        except Exception as error:
            pool.give_up(worker, f"{reason}, and no other could be started: {error}", error)
        recent.append(now)
        pool.supervisor.begin_building(worker, self._start_seconds)
        del self._broken[worker]
        # Last, since it may be an error. The numbers keep one warning from hiding the next.
        logger.warn(
            f"the worker of environments {envs} (process {before}) {reason}. It was replaced by "
            f"process {workers.processes[worker].pid}; their episodes end where they were"
        )

    def _start_again(self, pool: WorkerPool, worker: int, snapshots: dict[int, bytes]) -> None:
        try:
            pool.workers.replace(worker, self._context, snapshots)
        except ChildProcessError:
            # The fork server is not this process's but of the one that it was forked from.
            self._context = self._context.get_context("spawn")
            pool.workers.replace(worker, self._context, snapshots)


DeathPolicy = RaiseOnDeath | RestartOnDeath


def _without_fork(context: Any) -> Any:
    if context.get_start_method() != "fork":
        return context
    methods = multiprocessing.get_all_start_methods()
    return context.get_context("forkserver" if "forkserver" in methods else "spawn")


def check_replaceable(
    env_fns: Sequence[Any], layout: Layout, context: Any, config: dict[str, Any]
) -> None:
    """Find before a worker dies what would keep a new one from being started.

    Raises:
        TypeError: A function cannot be pickled, or a space; the message names which.
    """
    if context.get_start_method() != "fork":
        # Starting the first workers finds it.
        return
    reducer = _without_fork(context).reducer
    with as_if_starting(reducer):
        for part in layout.slices:
            fns = list(env_fns[part.start : part.stop])
            reducer.ForkingPickler.dumps(EnvFns(fns, part.start, reducer))
        try:
            reducer.ForkingPickler.dumps((layout, config))
        except Exception as error:
            raise TypeError(
                "a space cannot be pickled, which `on_worker_death='restart'` needs: "
                f"{type(error).__name__}: {error}"
            ) from error
