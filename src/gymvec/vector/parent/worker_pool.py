"""The parent's side of the workers: submit commands, wait for answers, close."""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import time
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from gymnasium import logger

from gymvec.system.limits import usable_cores
from gymvec.system.signals import interrupts_held
from gymvec.vector.errors import WorkerDiedError
from gymvec.vector.parent.deadlines import TimedOut, seconds_left
from gymvec.vector.parent.death_policy import DeathPolicy, RaiseOnDeath
from gymvec.vector.parent.fast_step import CallGate, StepResults
from gymvec.vector.parent.infos import InfoSlots
from gymvec.vector.parent.processes import Workers
from gymvec.vector.parent.replies import NOTHING, Replies, opened
from gymvec.vector.parent.supervisor import STOPPED_SECONDS, Supervisor
from gymvec.vector.transport.actions import Write
from gymvec.vector.transport.control import IMMEDIATE
from gymvec.vector.transport.control_parent import Parent
from gymvec.vector.transport.memory import Layout, Segment
from gymvec.vector.transport.messages import (
    Command,
    MessageKind,
    MessagePipe,
    join_parts,
    parts_of,
)
from gymvec.vector.transport.pipe import drain, publish

__all__ = ["WorkerPool"]

# Between two slices of a wait the parent looks whether its workers live.
_SLICE_SECONDS = 0.1
# A slice while a pipe has not taken all messages.
_FLUSH_SECONDS = 0.001
# How long sending waits for a pipe that does not take a message; the wait for the answers goes on.
_SEND_SECONDS = 1.0
# How often who waits for the first answers looks whether the workers live.
_LOOK_SECONDS = 0.5
# How long `close` waits for the environments before it ends their processes, unless told.
_CLOSE_SECONDS = 5.0

# Before Python 3.12 looking up a member of an enumeration takes as long as a kernel.
_STEP = int(Command.STEP)
_STEP_CALL = Command.STEP, None
_CALLS = (Command.CALL, Command.SET_ATTR)

StepArrays = tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]

_pools: weakref.WeakSet[WorkerPool] = weakref.WeakSet()


class WorkerPool:
    """Workers, the segment they share with this process, and the pipes to them.

    Args:
        env_fns: Functions that make one environment each.
        layout: What lies where in the segment.
        context: Multiprocessing context.
        gate: Where the pool sets what keeps a step from being sent at once.
        daemon: Whether the processes are daemonic.
        name: Name of the owner's class, for the names of the processes.
        config: Further fields of :class:`gymvec.vector.transport.messages.WorkerConfig`.
        wait: ``"auto"``, ``"spin"`` or ``"block"``.
        polling: Whether to sleep in naps where there are futexes.
        cores: The cores to pin workers to, in turn, or None.
        step_timeout: Seconds that a worker may take for an answer while ``timed``, or None.

    Attributes:
        on_death: What is done about workers that die or stall; raises, unless it is set.
        timed: Whether the answers that are waited for are those of steps or resets, or keep
            such from being sent.
        taken: Environments whose answers were taken and not handed on.
        withdrawn: Environments whose answers went with their worker, and that :meth:`take` no
            longer waits for.
        ended: Whether all processes are gone, and what was theirs.
    """

    def __init__(
        self,
        env_fns: Sequence[Any],
        layout: Layout,
        context: Any,
        gate: CallGate,
        *,
        daemon: bool,
        name: str,
        config: dict[str, Any],
        wait: str,
        polling: bool,
        cores: Sequence[int] | None,
        step_timeout: float | None = None,
    ) -> None:
        self.layout = layout
        self.segment = Segment(layout.size)
        self.on_death: DeathPolicy = RaiseOnDeath()
        self.gate = gate
        self.timed = False
        self.taken: list[int] = []
        self.ended = False
        self._ending = False
        self.withdrawn: set[int] = set()
        # Which worker died first.
        self._death: tuple[list[int], int | None, str | None] | None = None
        self._next_look = 0.0
        # Envelopes that were received: the kind, and the pickled content.
        self._messages: dict[int, tuple[MessageKind, memoryview]] = {}
        # The share of their time that steps wait, until somebody was told.
        self._waits: float | None = None
        self._told = False
        # What `collect` waits for, whose answers went with their workers, and which of these
        # workers had a call that is not made again.
        self._call: tuple[Command, dict[int, bytes] | None] | None = None
        self._unanswered: set[int] = set()
        self._lost: tuple[list[int], int | None, str] | None = None
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
        self.workers = Workers()
        self.supervisor = Supervisor(layout, self.doorbell, self.workers, step_timeout)
        self._worker_of = self.supervisor.worker_of
        self.info_slots = InfoSlots(layout.info_slots.view(self.segment), self._worker_of)
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

    def check_usable(self) -> None:
        """Raise if a worker is dead, or this process is a fork of the one that started them."""
        if self.gate.forked:
            raise RuntimeError(
                "this vector environment belongs to the process that made it; a fork of that "
                "process must make its own"
            )
        if self._death is not None:
            raise WorkerDiedError(*self._death)

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
        self._call = command, arguments
        self._unanswered.clear()
        self._lost = None
        messages = [] if arguments is None else self._sorted(arguments)
        # Replies stay until here, so that an interrupted `collect` can be called again.
        self._messages.clear()
        self.sent = None if envs is None else frozenset(envs)
        self._publish(command | self.set_flag, envs, messages, False)

    def send_steps(self) -> None:
        """Let all environments take a step whose actions lie in the segment, for :meth:`finish`."""
        if self.gate.replaced:
            self._unanswered.clear()
            self._lost = None
        self._prepare_steps()
        self.doorbell.send_all(_STEP | self.set_flag)

    def _prepare_steps(self) -> None:
        self._call = _STEP_CALL
        self.sent = None
        if self._messages:
            self._messages.clear()
        if self.supervisor.stall_timer is not None:
            self.supervisor.stall_timer.begin()

    def send_immediate(
        self, command: Command, arguments: dict[int, bytes] | None, envs: np.ndarray
    ) -> None:
        """Send a command to environments that answer each by itself, for :meth:`take`."""
        self._call = None
        messages = [] if arguments is None else self._sorted(arguments)
        if self._messages:
            # Those of earlier calls.
            for env in envs.tolist():
                self._messages.pop(env, None)
        self._publish(command | IMMEDIATE | self.set_flag, envs, messages, True)

    def _publish(
        self, opcode: int, envs: Any, messages: list[tuple[MessagePipe, bytes]], immediate: bool
    ) -> None:
        self.supervisor.begin(envs)
        # What is unwritten since an earlier call stays so.
        self.gate.unwritten = self.gate.unwritten or len(messages) > 0
        publish(self.doorbell, opcode, envs, messages, immediate)
        if messages:
            self._deliver()

    def step(self, put: Write, actions: Any) -> int:
        """:meth:`send_steps` and :meth:`finish` in one, where the gate is not shut.

        Args:
            put: Puts the actions of all environments into the segment, if they fit.
            actions: The actions.

        Returns:
            ``DONE``, ``NOT_SENT`` where the two have to be called, or as :meth:`finish` ``SENT``.
        """
        self._prepare_steps()
        return self.results.step(
            self.gate, self.doorbell, put, actions, _STEP | self.set_flag, _SLICE_SECONDS
        )

    def finish(self) -> int:
        """Wait for a step of all environments, if it is an ordinary one.

        Returns:
            ``DONE``, with what came of it in ``results.take()``. ``SENT``, with nothing taken,
            where :meth:`collect` has to look closer: a message came, or some answer takes long.
        """
        return self.results.finish(self.gate, self.doorbell, _SLICE_SECONDS)

    def collect(self, deadline: float | None) -> Replies:
        """Wait for every answer that is due.

        Raises:
            TimedOut: The deadline has passed; the answers stay due.
            WorkerDiedError: A worker died; also if it was replaced, where what it was sent is a
                call.
        """
        replies = None
        while replies is None:
            if self._unanswered:
                self._submit_again()
            replies = self._replies(deadline)
        self._call = None
        self.gate.replaced = False
        lost, self._lost = self._lost, None
        if lost is not None and not self.gate.timed_out:
            raise WorkerDiedError(*lost, restarted=True)
        return replies

    def _submit_again(self) -> None:
        """Ask new workers what the dead ones left unanswered of the call under way."""
        assert self._call is not None
        command, arguments = self._call
        # The answers of a late call are dropped; then a lost episode ends with the next step.
        if not self.gate.timed_out and command not in _CALLS:
            envs = [env for env in sorted(self._unanswered) if not self.doorbell.pending(env)]
            own = None if arguments is None else {env: arguments[env] for env in envs}
            messages = [] if own is None else self._sorted(own)
            self._publish(command | self.set_flag, envs, messages, False)
        self._unanswered.clear()

    def _replies(self, deadline: float | None) -> Replies | None:
        """Every answer that is due; None where a worker was replaced meanwhile."""
        if not self._wait(deadline):
            return None
        envs = self.results.messages()
        if not envs:
            self._drop_answers()
            return NOTHING
        # Other environments' messages were read long ago.
        envs = [
            env
            for env in envs
            if (self.sent is None or env in self.sent)
            and self._worker_of[env] not in self.supervisor.gone
        ]
        for env in envs:
            if not self._receive_of(env, deadline):
                return None
        self._advise()
        self._drop_answers()
        answers = Replies()
        for env in envs:
            kind, content = opened(env, *self._messages[env])
            (answers.failures if kind is MessageKind.ERROR else answers.messages)[env] = content
        return answers

    def _drop_answers(self) -> None:
        """Take the answers that are there: what came with them is known."""
        self.doorbell.drain_all()
        self.taken.clear()
        self.gate.drained = False

    def drop_timed_out(self, deadline: float | None) -> Replies:
        """Wait for the answers that an earlier call did not wait for.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        answers = self.collect(deadline) if self.gate.timed_out else NOTHING
        self.gate.timed_out = False
        return answers

    def take(self, count: int | None, deadline: float | None) -> bool:
        """Wait until that many environments are in ``taken``: those that answered first.

        Args:
            count: How many; None for all whose answer is due.
            deadline: When to give up.

        Returns:
            False where a worker was replaced meanwhile; some are ``withdrawn``.

        Raises:
            TimedOut: The deadline has passed; the answers stay due.
            WorkerDiedError: A worker died.
        """
        if not (self.look() and self._wait(deadline, count)):
            return False
        self._drain(len(self._worker_of) if count is None else self._lacking(count))
        return True

    def look(self) -> bool:
        """Look now and then who lives, when others answer so fast that no wait finds the time.

        Returns:
            As :meth:`take`.
        """
        now = time.monotonic()
        if now < self._next_look:
            return True
        self._next_look = now + _LOOK_SECONDS
        return not self._check_owing(0.0)

    def _lacking(self, count: int | None) -> int:
        return self.doorbell.num_pending if count is None else max(0, count - len(self.taken))

    def _wait(self, deadline: float | None, count: int | None = None) -> bool:
        """Wait for answers. None is taken, so that this can be interrupted.

        Returns:
            False where a worker was replaced: then other answers may be due.
        """
        if self.on_death.finish(self):
            return False
        begun: float | None = None
        while True:
            most = _FLUSH_SECONDS if self.gate.unwritten and self._pump() else _SLICE_SECONDS
            lacking = self._lacking(count)
            if self.doorbell.wait(lacking, seconds_left(deadline, most)) >= lacking:
                return True
            begun = begun or time.monotonic() - most
            if self._check_owing(time.monotonic() - begun):
                return False
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut

    def _check_owing(self, waited: float) -> bool:
        """Look for workers that owe an answer and are dead, stalled or slow.

        Returns:
            Whether one was replaced.
        """
        owing: list[int] | None = None
        for worker in self.supervisor.dead():
            owing = owing or self._owing()
            if worker in owing:
                self.on_death.handle(self, worker)
                return True
        if self.timed and self.supervisor.stall_timer is not None:
            # No worker is waited for beyond that, and so there is nothing to warn of.
            return any(map(self._check_stall, owing or self._owing()))
        # Not before: it drains all answers, and a batch takes only as many as it needs.
        if waited >= STOPPED_SECONDS:
            self.supervisor.warn_of_delays(owing or self._owing(), waited)
        return False

    def _drain(self, limit: int) -> None:
        self.gate.drained = True
        drain(self.doorbell, limit, self.taken)

    def _owing(self) -> list[int]:
        self._drain(len(self._worker_of))
        return self.supervisor.owing()

    def _check_stall(self, worker: int) -> bool:
        """Look whether a worker that owes an answer is stalled. Whether it was replaced."""
        if self.supervisor.is_building(worker):
            # Its first message, if it is there.
            with contextlib.suppress(EOFError):
                self.workers.pipes[worker].take(self._parse, self._messages)
        timer = self.supervisor.stall_timer
        if timer is None or not self.supervisor.is_stalled(worker):
            return False
        self.on_death.handle_stall(self, worker, timer.seconds)
        return True

    # --- messages: through pipes that the parent never waits for in a write ---

    def _sorted(self, arguments: dict[int, bytes]) -> list[tuple[MessagePipe, bytes]]:
        messages = []
        for pipe, part in zip(self.workers.pipes, self.layout.slices, strict=True):
            own = [
                (env, MessageKind.ARGUMENT, arguments[env])
                for env in range(part.start, part.stop)
                if env in arguments
            ]
            if own:
                messages.append((pipe, join_parts(own)))
        return messages

    def _deliver(self) -> None:
        """Write messages for a while; what is left then is written by the wait for the answers."""
        until = time.monotonic() + _SEND_SECONDS
        while self._pump() and time.monotonic() < until:
            time.sleep(_FLUSH_SECONDS)

    def _pump(self) -> bool:
        """Write what the pipes take now, and read what blocks them. Whether something is left."""
        left = False
        for pipe in self.workers.pipes:
            if not pipe.unwritten:
                continue
            try:
                while not pipe.flush() and pipe.take(self._parse, self._messages):
                    pass
                left = left or pipe.unwritten
            except (BrokenPipeError, ConnectionResetError, EOFError):
                pipe.forget()  # The death is reported where its answer is missed.
        self.gate.unwritten = left
        return left

    def message_of(self, env: int, deadline: float | None) -> tuple[bool, Any] | None:
        """The message that came with the answer of an environment in ``taken``.

        Returns:
            Whether the environment failed, and the content. None where its worker was replaced.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: The worker died without writing it.
        """
        if not self._receive_of(env, deadline):
            return None
        self._advise()
        kind, content = opened(env, *self._messages[env])
        return kind is MessageKind.ERROR, content

    def _receive_of(self, env: int, deadline: float | None) -> bool:
        """Wait for the message of an environment; False where its worker was replaced."""
        while env not in self._messages:
            if not self._receive(self._worker_of[env], deadline):
                return False
        return True

    def _advise(self) -> None:
        """Say once that more workers would help. Nothing of the call is taken yet."""
        waits, self._waits = self._waits, None
        if waits is None or self._told:
            return
        self._told = True
        envs, workers = len(self._worker_of), len(self.layout.slices)
        logger.warn(
            f"the steps of these environments mostly wait ({100 * waits:.0f} percent of their time). More "
            f"workers than cores let more of them wait at a time: num_workers={envs} instead of "
            f"{workers} in AsyncVectorEnv, or in make_vec(..., vector_kwargs="
            f"{{'num_workers': {envs}}})"
        )

    def _parse(self, message: bytes) -> dict[int, tuple[MessageKind, memoryview]]:
        messages: dict[int, tuple[MessageKind, memoryview]] = {}
        for env, kind, packed in parts_of(message):
            if kind is MessageKind.SCHEMA:
                self.info_slots.register_schema(env, *pickle.loads(packed))
            elif kind is MessageKind.WAITS:
                self._waits = pickle.loads(packed)
            elif kind is MessageKind.BUILT:
                self.supervisor.built(env, packed)
            else:
                messages[env] = (kind, packed)
        return messages

    def _receive(self, worker: int, deadline: float | None) -> bool:
        """Wait for the next message of a worker.

        Returns:
            False where the worker was replaced.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: The worker died without writing it.
        """
        pipe = self.workers.pipes[worker]
        while True:
            # Asked before the pipe is read, so that the last message of a worker is found.
            ended = self.workers.has_ended(worker)
            try:
                if pipe.take(self._parse, self._messages):
                    return True
            except EOFError:
                ended = True
            if ended:
                self.on_death.handle(self, worker)
                return False
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut
            if self.timed and self._check_stall(worker):
                return False
            pipe.wait(seconds_left(deadline, _SLICE_SECONDS))

    # --- deaths ---

    def give_up(
        self, worker: int, reason: str | None = None, cause: BaseException | None = None
    ) -> NoReturn:
        """A worker is dead and is not replaced: nothing but :meth:`close` works any more.

        Raises:
            WorkerDiedError: Always.
        """
        self.on_death = RaiseOnDeath()
        death = self.supervisor.envs_of(worker), self.workers.exit_code(worker), reason
        self._death = self._death or death
        self.supervisor.gone.add(worker)
        self.gate.dead = True
        self._drain(len(self._worker_of))
        self.doorbell.mark_dead(worker)
        raise WorkerDiedError(*death) from cause

    def last_words(self, worker: int) -> BaseException | None:
        """Why a dead worker could not build its environments; None where that is not known."""
        with contextlib.suppress(EOFError):
            while self.workers.pipes[worker].take(self._parse, {}):
                pass
        return self.supervisor.build_failures.get(worker)

    def reset_worker(self, worker: int, exitcode: int | None, reason: str) -> None:
        """Put what a dead worker wrote and sent into its first state, and note what it owed.

        Args:
            worker: Its number.
            exitcode: Its exit code.
            reason: Of what it died.
        """
        self.gate.replaced = True
        part = self.layout.slices[worker]
        envs = self.supervisor.envs_of(worker)
        own = frozenset(envs)
        self.taken = [env for env in self.taken if env not in own]
        for env in envs:
            self._messages.pop(env, None)
        self.doorbell.reset_queue(worker)
        for place in (part.rewards, part.terminations, part.truncations, part.messages):
            place.view(self.segment)[...] = 0
        self.info_slots.reset_worker(worker)
        self.supervisor.reset_worker(worker)
        self.withdrawn.update(own)
        if self._call is not None:
            lost = own.intersection(self.recipients)
            self._unanswered |= lost
            if lost and self._call[0] in _CALLS:
                self._lost = self._lost or (envs, exitcode, reason)

    def disown(self) -> None:
        """Leave the workers to the parent: this process is its fork."""
        self.gate.forked = True
        self.workers.disown()

    # --- the end ---

    def close(self, seconds: float | None) -> BaseException | None:
        """Close the environments, then end the workers. Always ends.

        A second call does nothing, but where the first was interrupted it does what was left.

        Args:
            seconds: How long to wait for the environments; 0 to end the processes at once.

        Returns:
            What the first environment raised whose ``close`` failed.
        """
        if self.ended or self.gate.forked:
            return None
        seconds = _CLOSE_SECONDS if seconds is None else seconds
        self.gate.closed = True
        self.timed = False
        self.on_death = RaiseOnDeath()
        self.supervisor.warn_no_more()
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
                    self.gate.timed_out = self.busy
                    self.drop_timed_out(deadline)
                    living = [
                        i for i, w in enumerate(self._worker_of) if w not in self.supervisor.gone
                    ]
                    self.send(Command.CLOSE, None, living)
                    asked = True
                return self.collect(deadline).error
            except WorkerDiedError:
                pass  # The others can still close theirs.

    def end(self, seconds: float) -> None:
        """End and reap every process, and let go of pipes and segment.

        Each of the steps may be done twice, so that an interrupted end can be repeated.
        """
        if self.ended or self.gate.forked:
            return
        self._ending = True
        # A policy may keep the segment.
        self.on_death = RaiseOnDeath()
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
