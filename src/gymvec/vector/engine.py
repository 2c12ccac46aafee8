"""The parent's side of the workers: start them, send commands, collect answers, end them."""

from __future__ import annotations

import atexit
import logging
import multiprocessing
import multiprocessing.process
import multiprocessing.util  # its exit hook must be registered before ours, to run after it
import os
import pickle
import time
import weakref
from collections.abc import Sequence
from typing import Any

from gymvec import _bell
from gymvec._exchange import StepResults
from gymvec.utils import CloudpickleWrapper, clear_mpi_env_vars
from gymvec.vector.arena import Arena, Layout
from gymvec.vector.errors import WorkerDiedError, unpack_error
from gymvec.vector.info_slots import InfoSlots
from gymvec.vector.mail import Mailbox, Subject, dumps
from gymvec.vector.worker import Command, Orders, run_worker

__all__ = ["Engine", "Late"]

# Between two slices of a wait the parent looks whether its workers live.
_SLICE_SECONDS = 0.1
# How long `close` waits for the environments before it ends their processes, unless told.
_CLOSE_SECONDS = 5.0
# How long a process gets to end after SIGTERM before SIGKILL, and after its last answer.
_TERM_SECONDS = 1.0

_logger = logging.getLogger("gymvec")
_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


class Late(Exception):
    """The time given for an answer is over."""


class Engine:
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
        cores: The cores to pin workers to, in turn; None to leave that to the system.
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
    ) -> None:
        self.layout = layout
        self.arena = Arena(layout.size)
        self.processes: list[Any] = []
        self.mailboxes: list[Mailbox] = []
        self.late = False
        self._mine = True
        self._ended = False
        self.bell = _bell.Parent(
            self.arena.buffer, layout.hub, layout.lanes, wait=wait, polling=polling
        )
        self._worker_of = [
            worker for worker, part in enumerate(layout.slices) for _ in range(part.size)
        ]
        self.results = StepResults(
            [
                tuple(
                    place.view(self.arena)
                    for place in (part.rewards, part.terminations, part.truncations, part.letters)
                )
                for part in layout.slices
            ]
        )
        self.info_slots = InfoSlots(layout.info_slots.view(self.arena), self._worker_of)
        self.sent: frozenset[int] | None = None
        self._letters: dict[int, tuple[Subject, Any]] = {}
        _engines.add(self)
        try:
            with clear_mpi_env_vars():
                for index in range(len(layout.slices)):
                    core = None if cores is None else cores[index % len(cores)]
                    self._start(index, env_fns, context, daemon, name, core, wait, polling, orders)
        except BaseException:
            self.end(0.0)
            raise

    def _start(
        self,
        index: int,
        env_fns: Sequence[Any],
        context: Any,
        daemon: bool,
        name: str,
        core: int | None,
        wait: str,
        polling: bool,
        orders: dict[str, Any],
    ) -> None:
        part = self.layout.slices[index]
        fns = list(env_fns[part.start : part.stop])
        ours, theirs = context.Pipe()
        forks = context.get_start_method() == "fork"
        process = context.Process(
            target=run_worker,
            name=f"Worker<{name}>-{index}",
            daemon=daemon,
            args=(
                Orders(
                    index=index,
                    parent_pid=os.getpid(),
                    arena=self.arena,
                    layout=self.layout,
                    env_fns=CloudpickleWrapper(fns),
                    connection=theirs,
                    # A fork copies the parent's ends; elsewhere there is nothing to close.
                    unused=[ours, *(box.connection for box in self.mailboxes)] if forks else [],
                    wait=wait,
                    polling=polling,
                    core=core,
                    **orders,
                ),
            ),
        )
        try:
            process.start()
        except Exception as error:
            ours.close()
            raise _blame(fns, part.start, error) from error
        finally:
            theirs.close()
        self.processes.append(process)
        self.mailboxes.append(Mailbox(ours))

    def reports(self, deadline: float | None) -> list[tuple[int, Subject, Any]]:
        """What each environment has to say at the start, in order; waits until all are built.

        Raises:
            Late: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        reports: list[tuple[int, Subject, Any]] = []
        for worker in range(len(self.processes)):
            reports += self._receive(worker, deadline)
        return reports

    # --- commands ---

    def send(self, command: Command, arguments: dict[int, bytes] | None, envs: Any = None) -> None:
        """Send a command to all environments, or to some.

        Args:
            command: What to do.
            arguments: Pickled arguments of each environment, for a command with a letter.
            envs: The environments; None for all.
        """
        if envs is None:
            self.bell.send_all(command)
            self.sent = None
        else:
            self.bell.send(envs, command)
            self.sent = frozenset(envs)
        if arguments is not None:
            for worker, part in enumerate(self.layout.slices):
                own = {env: arguments[env] for env in range(part.start, part.stop) if env in arguments}
                if own:
                    self._post(worker, dumps(own))

    def _post(self, worker: int, letter: bytes) -> None:
        mailbox = self.mailboxes[worker]
        try:
            mailbox.post(letter)
            while not mailbox.flush():
                mailbox.wait(_SLICE_SECONDS)
                self._take_letters(worker)
                self._check_owing()
        except (BrokenPipeError, EOFError):
            self._report_death(worker)

    def collect(self, deadline: float | None) -> dict[int, Any]:
        """Wait for every answer that is due.

        Returns:
            The letters that came with answers, by environment.

        Raises:
            Late: The deadline has passed; the answers stay due.
            WorkerDiedError: A worker died.
            BaseException: What an environment raised, the one with the lowest index.
        """
        letters = self._take_answers(deadline)
        if not letters:
            return letters
        failed = {
            env: content
            for env, (subject, content) in letters.items()
            if subject is Subject.ERROR
        }
        if failed:
            first, *others = sorted(failed)
            raise unpack_error(failed[first], others)
        return {env: content for env, (_, content) in letters.items()}

    def drop_late(self, deadline: float | None) -> None:
        """Wait for the answers that an earlier call did not wait for, and forget them.

        Raises:
            Late: The deadline has passed.
        """
        self._take_answers(deadline)
        self.late = False

    def _take_answers(self, deadline: float | None) -> dict[int, tuple[Subject, Any]]:
        """All answers and letters that are due; nothing is taken before all of it is there."""
        count = self.bell.num_pending
        while self.bell.wait(count, _left(deadline, _SLICE_SECONDS)) < count:
            self._check_owing()
            count = self.bell.num_pending
            if deadline is not None and time.monotonic() >= deadline:
                raise Late
        envs = self.results.letters()
        if self.sent is not None:
            # Other environments' letters were read long ago.
            envs = [env for env in envs if env in self.sent]
        for env in envs:
            while env not in self._letters:
                self._keep(self._receive(self._worker_of[env], deadline))
        self.bell.drain_all()
        return {env: self._letters.pop(env) for env in envs}

    def _keep(self, letters: list[tuple[int, Subject, Any]]) -> None:
        for env, subject, content in letters:
            if subject is Subject.SCHEMA:
                self.info_slots.learn(env, *content)
            else:
                self._letters[env] = (subject, content)

    def _take_letters(self, worker: int) -> None:
        letter = self.mailboxes[worker].receive()
        if letter is not None:
            self._keep(pickle.loads(letter))

    def _receive(self, worker: int, deadline: float | None) -> list[tuple[int, Subject, Any]]:
        """The next letter of a worker.

        Raises:
            Late: The deadline has passed.
            WorkerDiedError: The worker died without writing it.
        """
        mailbox = self.mailboxes[worker]
        process = self.processes[worker]
        while True:
            # Asked before the pipe is read, so that the last letter of a worker is found.
            ended = process.exitcode is not None
            try:
                letter = mailbox.receive()
            except EOFError:
                ended, letter = True, None
            if letter is not None:
                return pickle.loads(letter)
            if ended:
                self._report_death(worker)
            if deadline is not None and time.monotonic() >= deadline:
                raise Late
            mailbox.wait(_left(deadline, _SLICE_SECONDS))

    # --- life and death ---

    def check_usable(self) -> None:
        """Raise if this process is a fork of the one that started the workers."""
        if not self._mine:
            raise RuntimeError(
                "this vector environment belongs to the process that made it; a fork of that "
                "process must make its own"
            )

    def _check_owing(self) -> None:
        """Raise if a worker that owes an answer has died."""
        ended = [
            worker
            for worker, process in enumerate(self.processes)
            if process.exitcode is not None
        ]
        if ended:
            self.bell.drain_all()
            for worker in ended:
                if self.bell.lane_pending(worker) > 0:
                    self._report_death(worker)

    def _report_death(self, worker: int) -> None:
        process = self.processes[worker]
        process.join(_TERM_SECONDS)
        part = self.layout.slices[worker]
        raise WorkerDiedError(list(range(part.start, part.stop)), process.exitcode)

    def close(self, seconds: float | None) -> BaseException | None:
        """Close the environments, then end the workers. Always ends; a second call does nothing.

        Args:
            seconds: How long to wait for the environments; 0 to end the processes at once.

        Returns:
            What the first environment raised whose ``close`` failed.
        """
        if self._ended or not self._mine:
            return None
        seconds = _CLOSE_SECONDS if seconds is None else seconds
        error: BaseException | None = None
        deadline = time.monotonic() + seconds
        try:
            if seconds > 0:
                self.drop_late(deadline)
                self.send(Command.CLOSE, None)
                self.collect(deadline)
        except (Late, WorkerDiedError):
            pass  # What is left is ended below.
        except BaseException as failure:
            error = failure
        self.end(max(0.0, deadline - time.monotonic()))
        return error

    def end(self, seconds: float) -> None:
        """End and reap every process, and let go of pipes and arena."""
        if self._ended or not self._mine:
            return
        self._ended = True
        _engines.discard(self)
        deadline = time.monotonic() + min(seconds, _TERM_SECONDS)
        for process in self.processes:
            process.join(max(0.0, deadline - time.monotonic()))
        for stop in ("terminate", "kill"):
            alive = [process for process in self.processes if process.exitcode is None]
            for process in alive:
                getattr(process, stop)()
            deadline = time.monotonic() + _TERM_SECONDS
            for process in alive:
                process.join(max(0.0, deadline - time.monotonic()))
        for process in self.processes:
            process.join()
        for mailbox in self.mailboxes:
            mailbox.close()
        self.bell.close()
        del self.results, self.info_slots, self.arena

    def disown(self) -> None:
        """Leave the workers to the parent: this process is its fork."""
        self._mine = False
        for process in self.processes:
            # multiprocessing's exit hook would end them.
            multiprocessing.process._children.discard(process)  # type: ignore[attr-defined]


def _left(deadline: float | None, most: float) -> float:
    return most if deadline is None else max(0.0, min(most, deadline - time.monotonic()))


def _blame(fns: list[Any], first: int, error: Exception) -> Exception:
    """An error of starting a process, with the environment whose function cannot be pickled."""
    for i, fn in enumerate(fns):
        try:
            dumps(CloudpickleWrapper(fn))
        except Exception as reason:
            return TypeError(
                f"the function of environment {first + i} cannot be pickled: "
                f"{type(reason).__name__}: {reason}"
            )
    return error


@atexit.register
def _close_all() -> None:
    for engine in list(_engines):
        error = engine.close(None)
        if error is not None:
            _logger.warning("closing an environment at exit failed: %r", error)


def _disown_all() -> None:
    for engine in list(_engines):
        engine.disown()
    _engines.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
