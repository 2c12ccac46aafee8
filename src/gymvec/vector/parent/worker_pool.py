"""The parent's side of the workers: send commands, collect answers, notice deaths."""

from __future__ import annotations

import atexit
import contextlib
import os
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gymvec.system.limits import usable_cores
from gymvec.system.signals import interrupts_held
from gymvec.vector.errors import WorkerDiedError
from gymvec.vector.parent.deadlines import TimedOut, seconds_left
from gymvec.vector.parent.fast_step import StepResults
from gymvec.vector.parent.infos import InfoSlots
from gymvec.vector.parent.messages import FLUSH_SECONDS, SLICE_SECONDS, Messages
from gymvec.vector.parent.processes import Workers
from gymvec.vector.parent.replies import NOTHING, Replies, opened
from gymvec.vector.transport.actions import Write
from gymvec.vector.transport.control import IMMEDIATE
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.memory import Layout, Segment
from gymvec.vector.transport.messages import Command, MessageKind, MessagePipe
from gymvec.vector.transport.pipe import drain, publish

__all__ = ["WorkerPool"]

# How often who waits for the first answers looks whether the workers live.
_LOOK_SECONDS = 0.5
# How long `close` waits for the environments before it ends their processes, unless told.
_CLOSE_SECONDS = 5.0

# Before Python 3.12 looking up a member of an enumeration takes as long as a kernel.
_STEP = int(Command.STEP)

StepArrays = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]

_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


class WorkerPool(Messages):
    """Workers, the segment they share with this process, and the pipes to them.

    Args:
        env_fns: Functions that make one environment each.
        layout: What lies where in the segment.
        context: Multiprocessing context.
        daemon: Whether the processes are daemonic.
        name: Name of the owner's class, for the names of the processes.
        config: Further fields of :class:`gymvec.vector.worker.main.WorkerConfig`.
        wait: ``"auto"``, ``"spin"`` or ``"block"``.
        polling: Whether to sleep in naps where there are futexes.
        cores: The cores to pin workers to, in turn, or None.
        step_timeout: Seconds that a worker may take for an answer while ``timed``, or None.

    Attributes:
        ended: Whether all processes are gone, and what was theirs.
        withdrawn: Environments whose answers went with their worker since they were last sent
            to; see :class:`gymvec.vector.parent.death_policy.RestartingPool`.
    """

    def __init__(
        self,
        env_fns: Sequence[Any],
        layout: Layout,
        context: Any,
        *,
        daemon: bool,
        name: str,
        config: dict[str, Any],
        wait: str,
        polling: bool,
        cores: Sequence[int] | None,
        step_timeout: float | None = None,
    ) -> None:
        super().__init__(layout, step_timeout)
        self.segment = Segment(layout.size)
        self.timed_out = False
        self.ended = False
        self._ending = False
        self.withdrawn: set[int] = set()
        self._next_look = 0.0
        self.sent: frozenset[int] | None = None
        # SECOND_SET, while observations are to go there.
        self.set_flag = 0
        self.doorbell = Parent(
            self.segment.buffer,
            layout.header,
            layout.queues,
            wait=wait,
            polling=polling,
            crowded=layout.num_workers >= usable_cores(),
        )
        self.results = StepResults(
            [
                (
                    part.rewards.view(self.segment),
                    part.terminations.view(self.segment),
                    part.truncations.view(self.segment),
                    part.messages.view(self.segment),
                )
                for part in layout.slices
            ],
            layout.copied_blocks(self.segment),
        )
        self.info_slots = InfoSlots(layout.info_slots.view(self.segment), self._worker_of)
        self.workers = Workers()
        # Before a process is forked: what concerns it is not this pool.
        _pools.add(self)
        try:
            self.workers.start(
                env_fns,
                layout,
                self.segment,
                context,
                daemon=daemon,
                name=name,
                cores=cores,
                config={"wait": wait, "polling": polling, **config},
            )
        except BaseException:
            self.end(0.0)
            raise

    @property
    def busy(self) -> bool:
        """Whether an answer is due."""
        return self.doorbell.num_pending > 0

    @property
    def recipients(self) -> Iterable[int]:
        """The environments that the last command was sent to."""
        return range(len(self._worker_of)) if self.sent is None else self.sent

    def reports(self, deadline: float | None) -> list[tuple[int, MessageKind, Any]]:
        """What each environment has to say at the start, in order; waits until all are built.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        for worker in range(len(self.workers.processes)):
            self._receive(worker, deadline)
        reports = sorted(self._messages.items())
        self._messages.clear()
        return [(env, *opened(env, *message)) for env, message in reports]

    # --- commands ---

    def send(self, command: Command, arguments: dict[int, bytes] | None, envs: Any = None) -> None:
        """Send a command to all environments, or to some, for :meth:`collect`.

        Args:
            command: What to do.
            arguments: Pickled arguments of each environment, for a command with a message.
            envs: The environments; None for all.
        """
        messages = [] if arguments is None else self._sorted(arguments)
        # Replies stay until here, so that an interrupted `collect` can be called again.
        self._messages.clear()
        self.sent = None if envs is None else frozenset(envs)
        self._publish(command | self.set_flag, envs, messages, False)

    def send_steps(self) -> None:
        """Let all environments take a step whose actions lie in the segment, for :meth:`finish`."""
        if self._stall_timer is not None:
            self._stall_timer.begin()
        self._messages.clear()
        self.sent = None
        self.doorbell.send_all(_STEP | self.set_flag)

    def send_immediate(
        self, command: Command, arguments: dict[int, bytes] | None, envs: np.ndarray
    ) -> None:
        """Send a command to environments that answer each by itself, for :meth:`take`."""
        messages = [] if arguments is None else self._sorted(arguments)
        if self._messages:
            # Those of earlier calls.
            for env in envs.tolist():
                self._messages.pop(env, None)
        self._publish(command | IMMEDIATE | self.set_flag, envs, messages, True)

    def _publish(
        self, opcode: int, envs: Any, messages: list[tuple[MessagePipe, bytes]], immediate: bool
    ) -> None:
        if self._stall_timer is not None:
            self._stall_timer.begin(
                None if envs is None else {self._worker_of[env] for env in envs}
            )
        # What is unwritten since an earlier call stays so.
        self._unwritten = self._unwritten or len(messages) > 0
        publish(self.doorbell, opcode, envs, messages, immediate)
        if messages:
            self._deliver()

    def step(
        self, put: Write, actions: Any
    ) -> tuple[StepArrays, list[np.ndarray]] | tuple[()] | None:
        """:meth:`send_steps` and :meth:`finish` in one, where nothing is odd.

        Args:
            put: Puts the actions of all environments into the segment, if they fit.
            actions: The actions.

        Returns:
            None, with nothing sent, where the two have to be called; an empty tuple, where it was
            sent and :meth:`collect` has to look closer; otherwise as :meth:`finish`.
        """
        if not self._is_ordinary():
            return None
        if self._messages:
            self._messages.clear()
        self.sent = None
        return self.results.step(self.doorbell, put, actions, _STEP | self.set_flag, SLICE_SECONDS)

    def finish(self) -> tuple[StepArrays, list[np.ndarray]] | None:
        """The results of a step of all environments, if it is an ordinary one.

        Returns:
            Rewards, terminations and truncations; and copies of the blocks of observations, if
            there is one set of them. None, with nothing taken, where :meth:`collect` has to look
            closer: a message came, or some answer takes long.
        """
        if self.sent is not None or not self._is_ordinary():
            return None
        return self.results.finish(self.doorbell, SLICE_SECONDS)

    def _is_ordinary(self) -> bool:
        """Whether nothing of earlier calls is left, nobody is dead, and no worker's time counts."""
        return not (
            self.timed_out
            or self.taken
            or self._unwritten
            or self._stall_timer is not None
            or self._death is not None
            or not self._mine
        )

    def collect(self, deadline: float | None) -> Replies:
        """Wait for every answer that is due.

        Raises:
            TimedOut: The deadline has passed; the answers stay due.
            WorkerDiedError: A worker died.
        """
        self._wait(deadline)
        envs = self.results.messages()
        if not envs:
            self.doorbell.drain_all()
            self.taken.clear()
            return NOTHING
        # Other environments' messages were read long ago.
        envs = [
            env
            for env in envs
            if (self.sent is None or env in self.sent) and self._worker_of[env] not in self._gone
        ]
        for env in envs:
            while env not in self._messages:
                self._receive(self._worker_of[env], deadline)
        self._advise()
        self.doorbell.drain_all()
        self.taken.clear()
        answers = Replies()
        for env in envs:
            kind, content = opened(env, *self._messages[env])
            (answers.failures if kind is MessageKind.ERROR else answers.messages)[env] = content
        return answers

    def drop_timed_out(self, deadline: float | None) -> Replies:
        """Wait for the answers that an earlier call did not wait for.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        answers = self.collect(deadline) if self.timed_out else NOTHING
        self.timed_out = False
        return answers

    def take(self, count: int | None, deadline: float | None) -> None:
        """Wait until that many environments are in ``taken``: those that answered first.

        Args:
            count: How many; None for all whose answer is due.
            deadline: When to give up.

        Raises:
            TimedOut: The deadline has passed; the answers stay due.
            WorkerDiedError: A worker died.
        """
        self.look()
        self._wait(deadline, count)
        limit = len(self._worker_of) if count is None else self._lacking(count)
        drain(self.doorbell, limit, self.taken)

    def look(self) -> None:
        """Look now and then who lives, when others answer so fast that no wait finds the time."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._check_owing(0.0)

    def _lacking(self, count: int | None) -> int:
        return self.doorbell.num_pending if count is None else max(0, count - len(self.taken))

    def _wait(self, deadline: float | None, count: int | None = None) -> None:
        """Wait for answers. None is taken, so that this can be interrupted."""
        begun: float | None = None
        while True:
            most = FLUSH_SECONDS if self._unwritten and self._pump() else SLICE_SECONDS
            lacking = self._lacking(count)
            if self.doorbell.wait(lacking, seconds_left(deadline, most)) >= lacking:
                return
            begun = begun or time.monotonic() - most
            self._check_owing(time.monotonic() - begun)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut

    # --- the end ---

    def close(self, seconds: float | None) -> BaseException | None:
        """Close the environments, then end the workers. Always ends.

        A second call does nothing, but where the first was interrupted it does what was left.

        Args:
            seconds: How long to wait for the environments; 0 to end the processes at once.

        Returns:
            What the first environment raised whose ``close`` failed.
        """
        if self.ended or not self._mine:
            return None
        seconds = _CLOSE_SECONDS if seconds is None else seconds
        self.timed = False
        # The end is near for those who do not answer, and nothing is to be done about them.
        self._warned.update(range(len(self.workers.processes)))
        deadline = time.monotonic() + seconds
        error = None
        try:
            # Where an end was interrupted the pipes may be closed.
            if seconds > 0 and not self._ending:
                error = self._close_environments(deadline)
        except TimedOut:
            deadline = 0.0
        except BaseException:
            self.end(0.0)
            raise
        self.end(max(0.0, deadline - time.monotonic()))
        return error

    def _close_environments(self, deadline: float) -> BaseException | None:
        asked = False
        while True:
            try:
                if not asked:
                    # Who is at work, whichever call or calls it was for.
                    self.sent = frozenset(
                        filter(self.doorbell.pending, range(len(self._worker_of)))
                    )
                    self.timed_out = self.busy
                    self.drop_timed_out(deadline)
                    living = [i for i, w in enumerate(self._worker_of) if w not in self._gone]
                    self.send(Command.CLOSE, None, living)
                    asked = True
                return self.collect(deadline).error
            except WorkerDiedError:
                pass  # The others can still close theirs.

    def end(self, seconds: float) -> None:
        """End and reap every process, and let go of pipes and segment.

        Each of the steps may be done twice, so that an interrupted end can be repeated.
        """
        if self.ended or not self._mine:
            return
        self._ending = True
        self.workers.end(seconds)
        # The descriptor is closed by a finalizer, which Ctrl-C would end and not be raised from.
        with interrupts_held():
            for name in ("results", "info_slots", "segment"):
                self.__dict__.pop(name, None)
        self.let_go()
        _pools.discard(self)
        self.ended = True

    def let_go(self) -> None:
        """At the end, let go of the control words; where another thread waits on them, it does."""
        if self._ending:
            with contextlib.suppress(RuntimeError):
                self.doorbell.close()


@atexit.register
def _close_all() -> None:
    for pool in list(_pools):
        try:
            error = pool.close(None)
        except Exception as failure:
            # Another thread waits for its answers. The next pool is to be closed, too.
            error = failure
        if error is not None:
            import logging  # not needed before

            logging.getLogger("gymvec").warning("closing an environment at exit failed: %r", error)
        # The error's traceback keeps this frame, which would keep the error.
        del error


def _disown_all() -> None:
    for pool in list(_pools):
        pool.disown()
    _pools.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
