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

from gymvec._bell_parent import Parent
from gymvec._mailbox import drain, publish
from gymvec._results import StepResults
from gymvec._serve import APART
from gymvec.vector.actions import Write
from gymvec.vector.answers import NOTHING, Answers, opened
from gymvec.vector.arena import Arena, Layout
from gymvec.vector.cores import usable_cores
from gymvec.vector.deadlines import Late, seconds_left
from gymvec.vector.errors import WorkerDiedError
from gymvec.vector.info_slots import InfoSlots
from gymvec.vector.interrupts import interrupts_held
from gymvec.vector.letters import FLUSH_SECONDS, SLICE_SECONDS, Letters
from gymvec.vector.mail import Mailbox, Subject
from gymvec.vector.processes import Workers
from gymvec.vector.worker import Command

__all__ = ["Engine"]

# How often who waits for the first answers looks whether the workers live.
_LOOK_SECONDS = 0.5
# How long `close` waits for the environments before it ends their processes, unless told.
_CLOSE_SECONDS = 5.0

# Before Python 3.12 looking up a member of an enumeration takes as long as a kernel.
_STEP = int(Command.STEP)

StepArrays = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


class Engine(Letters):
    """Workers, the arena they share with this process, and the pipes to them.

    Args:
        env_fns: Functions that make one environment each.
        layout: What lies where in the arena.
        context: Multiprocessing context.
        daemon: Whether the processes are daemonic.
        name: Name of the owner's class, for the names of the processes.
        orders: Further fields of :class:`gymvec.vector.worker.Orders`.
        wait: ``"auto"``, ``"spin"`` or ``"block"``.
        polling: Whether to sleep in naps where there are futexes.
        cores: The cores to pin workers to, in turn, or None.
        step_timeout: Seconds that a worker may take for an answer while ``timed``, or None.

    Attributes:
        ended: Whether all processes are gone, and what was theirs.
        withdrawn: Environments whose answers went with their worker since they were last sent
            to; see :class:`gymvec.vector.restarts.RestartingEngine`.
    """

    def __init__(
        self,
        env_fns: Sequence[Any],
        layout: Layout,
        context: Any,
        *,
        daemon: bool,
        name: str,
        orders: dict[str, Any],
        wait: str,
        polling: bool,
        cores: Sequence[int] | None,
        step_timeout: float | None = None,
    ) -> None:
        super().__init__(layout, step_timeout)
        self.arena = Arena(layout.size)
        self.late = False
        self.ended = False
        self._ending = False
        self.withdrawn: set[int] = set()
        self._next_look = 0.0
        self.sent: frozenset[int] | None = None
        # SECOND_SET, while observations are to go there.
        self.set_flag = 0
        self.bell = Parent(
            self.arena.buffer,
            layout.hub,
            layout.lanes,
            wait=wait,
            polling=polling,
            crowded=layout.num_workers >= usable_cores(),
        )
        self.results = StepResults(
            [
                (
                    part.rewards.view(self.arena),
                    part.terminations.view(self.arena),
                    part.truncations.view(self.arena),
                    part.letters.view(self.arena),
                )
                for part in layout.slices
            ],
            layout.copied_blocks(self.arena),
        )
        self.info_slots = InfoSlots(layout.info_slots.view(self.arena), self._worker_of)
        self.workers = Workers()
        # Before a process is forked: what concerns it is not this engine.
        _engines.add(self)
        try:
            self.workers.start(
                env_fns,
                layout,
                self.arena,
                context,
                daemon=daemon,
                name=name,
                cores=cores,
                orders={"wait": wait, "polling": polling, **orders},
            )
        except BaseException:
            self.end(0.0)
            raise

    @property
    def busy(self) -> bool:
        """Whether an answer is due."""
        return self.bell.num_pending > 0

    @property
    def recipients(self) -> Iterable[int]:
        """The environments that the last command was sent to."""
        return range(len(self._worker_of)) if self.sent is None else self.sent

    def reports(self, deadline: float | None) -> list[tuple[int, Subject, Any]]:
        """What each environment has to say at the start, in order; waits until all are built.

        Raises:
            Late: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        for worker in range(len(self.workers.processes)):
            self._receive(worker, deadline)
        reports = sorted(self._letters.items())
        self._letters.clear()
        return [(env, *opened(env, *letter)) for env, letter in reports]

    # --- commands ---

    def send(self, command: Command, arguments: dict[int, bytes] | None, envs: Any = None) -> None:
        """Send a command to all environments, or to some, for :meth:`collect`.

        Args:
            command: What to do.
            arguments: Pickled arguments of each environment, for a command with a letter.
            envs: The environments; None for all.
        """
        letters = [] if arguments is None else self._sorted(arguments)
        # Answers stay until here, so that an interrupted `collect` can be called again.
        self._letters.clear()
        self.sent = None if envs is None else frozenset(envs)
        self._publish(command | self.set_flag, envs, letters, False)

    def send_steps(self) -> None:
        """Let all environments take a step whose actions lie in the arena, for :meth:`finish`."""
        if self._patience is not None:
            self._patience.begin()
        self._letters.clear()
        self.sent = None
        self.bell.send_all(_STEP | self.set_flag)

    def send_apart(
        self, command: Command, arguments: dict[int, bytes] | None, envs: np.ndarray
    ) -> None:
        """Send a command to environments that answer each by itself, for :meth:`take`."""
        letters = [] if arguments is None else self._sorted(arguments)
        if self._letters:
            # Those of earlier calls.
            for env in envs.tolist():
                self._letters.pop(env, None)
        self._publish(command | APART | self.set_flag, envs, letters, True)

    def _publish(
        self, opcode: int, envs: Any, letters: list[tuple[Mailbox, bytes]], eager: bool
    ) -> None:
        if self._patience is not None:
            self._patience.begin(None if envs is None else {self._worker_of[env] for env in envs})
        # What is unwritten since an earlier call stays so.
        self._unwritten = self._unwritten or len(letters) > 0
        publish(self.bell, opcode, envs, letters, eager)
        if letters:
            self._deliver()

    def step(
        self, put: Write, actions: Any
    ) -> tuple[StepArrays, list[np.ndarray]] | tuple[()] | None:
        """:meth:`send_steps` and :meth:`finish` in one, where nothing is odd.

        Args:
            put: Puts the actions of all environments into the arena, if they fit.
            actions: The actions.

        Returns:
            None, with nothing sent, where the two have to be called; an empty tuple, where it was
            sent and :meth:`collect` has to look closer; otherwise as :meth:`finish`.
        """
        if not self._is_ordinary():
            return None
        if self._letters:
            self._letters.clear()
        self.sent = None
        return self.results.step(self.bell, put, actions, _STEP | self.set_flag, SLICE_SECONDS)

    def finish(self) -> tuple[StepArrays, list[np.ndarray]] | None:
        """The results of a step of all environments, if it is an ordinary one.

        Returns:
            Rewards, terminations and truncations; and copies of the blocks of observations, if
            there is one set of them. None, with nothing taken, where :meth:`collect` has to look
            closer: a letter came, or some answer takes long.
        """
        if self.sent is not None or not self._is_ordinary():
            return None
        return self.results.finish(self.bell, SLICE_SECONDS)

    def _is_ordinary(self) -> bool:
        """Whether nothing of earlier calls is left, nobody is dead, and no worker's time counts."""
        return not (
            self.late
            or self.taken
            or self._unwritten
            or self._patience is not None
            or self._death is not None
            or not self._mine
        )

    def collect(self, deadline: float | None) -> Answers:
        """Wait for every answer that is due.

        Raises:
            Late: The deadline has passed; the answers stay due.
            WorkerDiedError: A worker died.
        """
        self._wait(deadline)
        envs = self.results.letters()
        if not envs:
            self.bell.drain_all()
            self.taken.clear()
            return NOTHING
        # Other environments' letters were read long ago.
        envs = [
            env
            for env in envs
            if (self.sent is None or env in self.sent) and self._worker_of[env] not in self._gone
        ]
        for env in envs:
            while env not in self._letters:
                self._receive(self._worker_of[env], deadline)
        self._advise()
        self.bell.drain_all()
        self.taken.clear()
        answers = Answers()
        for env in envs:
            subject, content = opened(env, *self._letters[env])
            (answers.failures if subject is Subject.ERROR else answers.letters)[env] = content
        return answers

    def drop_late(self, deadline: float | None) -> Answers:
        """Wait for the answers that an earlier call did not wait for.

        Raises:
            Late: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        answers = self.collect(deadline) if self.late else NOTHING
        self.late = False
        return answers

    def take(self, count: int | None, deadline: float | None) -> None:
        """Wait until that many environments are in ``taken``: those that answered first.

        Args:
            count: How many; None for all whose answer is due.
            deadline: When to give up.

        Raises:
            Late: The deadline has passed; the answers stay due.
            WorkerDiedError: A worker died.
        """
        self.look()
        self._wait(deadline, count)
        limit = len(self._worker_of) if count is None else self._lacking(count)
        drain(self.bell, limit, self.taken)

    def look(self) -> None:
        """Look now and then who lives, when others answer so fast that no wait finds the time."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self._check_owing(0.0)

    def _lacking(self, count: int | None) -> int:
        return self.bell.num_pending if count is None else max(0, count - len(self.taken))

    def _wait(self, deadline: float | None, count: int | None = None) -> None:
        """Wait for answers. None is taken, so that this can be interrupted."""
        begun: float | None = None
        while True:
            most = FLUSH_SECONDS if self._unwritten and self._pump() else SLICE_SECONDS
            lacking = self._lacking(count)
            if self.bell.wait(lacking, seconds_left(deadline, most)) >= lacking:
                return
            begun = begun or time.monotonic() - most
            self._check_owing(time.monotonic() - begun)
            if deadline is not None and time.monotonic() >= deadline:
                raise Late

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
        except Late:
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
                    self.sent = frozenset(filter(self.bell.pending, range(len(self._worker_of))))
                    self.late = self.busy
                    self.drop_late(deadline)
                    living = [i for i, w in enumerate(self._worker_of) if w not in self._gone]
                    self.send(Command.CLOSE, None, living)
                    asked = True
                return self.collect(deadline).error
            except WorkerDiedError:
                pass  # The others can still close theirs.

    def end(self, seconds: float) -> None:
        """End and reap every process, and let go of pipes and arena.

        Each of the steps may be done twice, so that an interrupted end can be repeated.
        """
        if self.ended or not self._mine:
            return
        self._ending = True
        self.workers.end(seconds)
        # The descriptor is closed by a finalizer, which Ctrl-C would end and not be raised from.
        with interrupts_held():
            for name in ("results", "info_slots", "arena"):
                self.__dict__.pop(name, None)
        self.let_go()
        _engines.discard(self)
        self.ended = True

    def let_go(self) -> None:
        """At the end, let go of the control words; where another thread waits on them, it does."""
        if self._ending:
            with contextlib.suppress(RuntimeError):
                self.bell.close()


@atexit.register
def _close_all() -> None:
    for engine in list(_engines):
        try:
            error = engine.close(None)
        except Exception as failure:
            # Another thread waits for its answers. The next engine is to be closed, too.
            error = failure
        if error is not None:
            import logging  # not needed before

            logging.getLogger("gymvec").warning("closing an environment at exit failed: %r", error)
        # The error's traceback keeps this frame, which would keep the error.
        del error


def _disown_all() -> None:
    for engine in list(_engines):
        engine.disown()
    _engines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
