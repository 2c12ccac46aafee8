"""Workers that are replaced when they die or hang."""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NoReturn

from gymnasium import logger

from gymvec.vector.errors import WorkerDiedError, how_it_ended
from gymvec.vector.parent.replies import Replies
from gymvec.vector.parent.snapshots import Snapshots
from gymvec.vector.parent.worker_pool import WorkerPool
from gymvec.vector.transport.actions import Write
from gymvec.vector.transport.carried import EnvFns, as_if_starting
from gymvec.vector.transport.exceptions import unpack_error
from gymvec.vector.transport.memory import Layout
from gymvec.vector.transport.messages import Command

__all__ = ["MAX_RESTARTS", "WINDOW_SECONDS", "Replaced", "RestartingPool"]

# A worker that dies once more within the window is not replaced. Bad luck, such as memory that
# was short for a moment, seldom strikes one worker three times in a minute; an environment that
# takes its process down whenever it is reset does so in seconds, and then it is better to end
# with an error than to go on with nothing but new episodes.
MAX_RESTARTS = 3
WINDOW_SECONDS = 60.0
# How long a new worker may take to import and build, where steps have a time-out and no
# `start_timeout` says how long the first ones may take.
_START_SECONDS = 60.0

_CALLS = (Command.CALL, Command.SET_ATTR)


class Replaced(Exception):
    """A worker was replaced while its answers were waited for: look again what is due."""


class RestartingPool(WorkerPool):
    """An pool that starts a new worker in place of one that died or hangs.

    What the dead worker owed for a step or a reset is asked of the new one, which was told
    where each episode ended (:mod:`gymvec.vector.worker.restarted_env`). A call is not asked for again.

    Replacing is done step by step, each of which may be done twice, so that Ctrl-C in the middle
    only means that the next wait begins by finishing it.

    Args:
        env_fns: As for :class:`WorkerPool`.
        layout: As for :class:`WorkerPool`.
        context: As for :class:`WorkerPool`; where it forks, new workers come from a fork server or,
            where there is none, are spawned: by then there may be threads.
        start_timeout: How long a worker may take to build its environments, or None.
        config: As for :class:`WorkerPool`.
        **options: As for :class:`WorkerPool`.

    Attributes:
        snapshots: What the caller saw last; to be set before the first call.

    Raises:
        TypeError: A function cannot be pickled; the message names the environment.
    """

    snapshots: Snapshots

    def __init__(
        self,
        env_fns: Sequence[Any],
        layout: Layout,
        context: Any,
        *,
        start_timeout: float | None,
        config: dict[str, Any],
        **options: Any,
    ) -> None:
        # Only between construction and close.
        self._steady = False
        self._start_timeout = start_timeout
        self._context = context
        if context.get_start_method() == "fork":
            methods = multiprocessing.get_all_start_methods()
            self._context = context.get_context(
                "forkserver" if "forkserver" in methods else "spawn"
            )
            _check_picklable(env_fns, layout, config, self._context.reducer)
        # Dead workers that are not replaced yet, and of what they died if that is known.
        self._broken: dict[int, str | None] = {}
        # New workers that have not built their environments yet, and until when they should.
        self._building: dict[int, float] = {}
        self._failures: dict[int, BaseException] = {}
        self._restarts: dict[int, deque[float]] = {}
        # The call that `collect` waits for, and whose answers went with their workers.
        self._call: tuple[Command, dict[int, bytes] | None] | None = None
        self._unanswered: set[int] = set()
        self._lost: tuple[list[int], int | None, str] | None = None
        super().__init__(env_fns, layout, context, config=config, **options)

    def reports(self, deadline: float | None) -> list[tuple[int, Any, Any]]:
        """As :meth:`WorkerPool.reports`. From here on workers are replaced."""
        reports = super().reports(deadline)
        self._steady = True
        return reports

    def close(self, seconds: float | None) -> BaseException | None:
        """As :meth:`WorkerPool.close`. From here on workers are not replaced."""
        self._steady = False
        self._broken.clear()
        return super().close(seconds)

    def end(self, seconds: float) -> None:
        """As :meth:`WorkerPool.end`."""
        # It keeps the segment. First, since an pool that has ended is not ended again.
        self.__dict__.pop("snapshots", None)
        super().end(seconds)

    def send(self, command: Command, arguments: dict[int, bytes] | None, envs: Any = None) -> None:
        """As :meth:`WorkerPool.send`."""
        self._call = command, arguments
        self._unanswered.clear()
        self._lost = None
        super().send(command, arguments, envs)

    def send_steps(self) -> None:
        """As :meth:`WorkerPool.send_steps`."""
        self.send(Command.STEP, None)

    def step(self, put: Write, actions: Any) -> None:
        """None: :meth:`send` notes what was sent."""

    def finish(self) -> None:
        """None: :meth:`collect` looks at who died."""

    def collect(self, deadline: float | None) -> Replies:
        """As :meth:`WorkerPool.collect`.

        Raises:
            WorkerDiedError: Also if the worker was replaced, where what was sent is a call.
        """
        while True:
            try:
                self._ask_again()
                answers = super().collect(deadline)
            except Replaced:
                continue
            self._call = None
            lost, self._lost = self._lost, None
            if lost is not None and not self.timed_out:
                raise WorkerDiedError(*lost, restarted=True)
            return answers

    def _ask_again(self) -> None:
        """Ask new workers what the dead ones left unanswered of the call under way."""
        if not self._unanswered or self._call is None:
            return
        command, arguments = self._call
        # The answers of a late call are dropped; then a lost episode ends with the next step.
        if not self.timed_out and command not in _CALLS:
            envs = [env for env in sorted(self._unanswered) if not self.doorbell.pending(env)]
            own = None if arguments is None else {env: arguments[env] for env in envs}
            messages = [] if own is None else self._sorted(own)
            self._publish(command | self.set_flag, envs, messages, False)
        self._unanswered.clear()

    # --- life and death ---

    def _wait(self, deadline: float | None, count: int | None = None) -> None:
        self._mend()
        super()._wait(deadline, count)

    def _report_death(
        self, worker: int, reason: str | None = None, cause: BaseException | None = None
    ) -> NoReturn:
        if not self._steady:
            super()._report_death(worker, reason, cause)
        self._broken.setdefault(worker, reason)
        self._mend()
        raise Replaced

    def _report_stuck(self, worker: int) -> NoReturn:
        assert self._stall_timer is not None
        seconds = self._stall_timer.seconds
        self._report_death(
            worker,
            "has not built its environments again in time"
            if worker in self._building
            else f"has not answered for `step_timeout={seconds}` second(s)",
        )

    def _is_stuck(self, worker: int) -> bool:
        if worker in self._building:
            # Its first message, if it is there.
            with contextlib.suppress(EOFError):
                self.workers.pipes[worker].take(self._parse, self._messages)
            if worker in self._building:
                return time.monotonic() > self._building[worker]
        return super()._is_stuck(worker)

    def _built(self, env: int, failure: memoryview) -> None:
        worker = self._worker_of[env]
        if len(failure) > 0:
            self._failures[worker] = unpack_error(failure, [env])
        elif self._building.pop(worker, None) is not None and self._stall_timer is not None:
            self._stall_timer.begin([worker])

    def _mend(self) -> None:
        """Replace dead workers."""
        if not self._broken:
            return
        for worker, reason in list(self._broken.items()):
            self._replace(worker, reason)
        raise Replaced

    def _replace(self, worker: int, reason: str | None) -> None:
        workers = self.workers
        before = workers.processes[worker].pid
        if not workers.reap(worker):
            self._give_up(worker, f"{reason or 'died'} and cannot be ended")
        cause = self._last_words(worker)
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
            self._give_up(worker, f"{reason}, {count}", cause)
        envs = self._envs_of(worker)
        self._clear(worker, envs, exitcode, reason)
        try:
            self._start_again(worker, {env: self.snapshots.pack(env) for env in envs})
        except Exception as error:
            self._give_up(worker, f"{reason}, and no other could be started: {error}", error)
        recent.append(now)
        self._failures.pop(worker, None)
        if self._stall_timer is not None:
            limit = max(self._start_timeout or _START_SECONDS, self._stall_timer.seconds)
            self._building[worker] = time.monotonic() + limit
        del self._broken[worker]
        # Last, since it may be an error. The numbers keep one warning from hiding the next.
        logger.warn(
            f"the worker of environments {envs} (process {before}) {reason}. It was replaced by "
            f"process {workers.processes[worker].pid}; their episodes end where they were"
        )

    def _start_again(self, worker: int, snapshots: dict[int, bytes]) -> None:
        try:
            self.workers.replace(worker, self._context, snapshots)
        except ChildProcessError:
            # The fork server is not this process's but of the one that it was forked from.
            self._context = self._context.get_context("spawn")
            self.workers.replace(worker, self._context, snapshots)

    def _last_words(self, worker: int) -> BaseException | None:
        """Why a worker could not build its environments again."""
        with contextlib.suppress(EOFError):
            while self.workers.pipes[worker].take(self._parse, {}):
                pass
        return self._failures.get(worker)

    def _clear(self, worker: int, envs: list[int], exitcode: int | None, reason: str) -> None:
        """Put what lies in the segment of a dead worker and what it sent into their first state."""
        part = self.layout.slices[worker]
        own = frozenset(envs)
        self.taken = [env for env in self.taken if env not in own]
        for env in envs:
            self._messages.pop(env, None)
        self.doorbell.reset_queue(worker)
        for place in (part.rewards, part.terminations, part.truncations, part.messages):
            place.view(self.segment)[...] = 0
        self.info_slots.reset_worker(worker)
        self.snapshots.restore(envs)
        self._building.pop(worker, None)
        self._warned.discard(worker)
        self.withdrawn.update(own)
        if self._call is not None:
            lost = own.intersection(self.recipients)
            self._unanswered |= lost
            if lost and self._call[0] in _CALLS:
                self._lost = self._lost or (envs, exitcode, reason)

    def _give_up(self, worker: int, reason: str, cause: BaseException | None = None) -> NoReturn:
        self._steady = False
        self._broken.clear()
        super()._report_death(worker, reason, cause)


def _check_picklable(
    env_fns: Sequence[Any], layout: Layout, config: dict[str, Any], reducer: Any
) -> None:
    """Find before a worker dies what would keep a new one from being started.

    Raises:
        TypeError: A function cannot be pickled, or a space; the message names which.
    """
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
