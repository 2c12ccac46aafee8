"""Environments that are sent to and that answer each by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gymvec.vector.parent.infos import InfoBatchSlots
from gymvec.vector.parent.worker_pool import WorkerPool
from gymvec.vector.transport.messages import Command

__all__ = ["Batches"]

# A command, and its arguments by environment.
Order = tuple[Command, dict[int, bytes] | None]


class Batches:
    """Which environments are at work, and which answered first.

    An environment that was sent to is at work until its answer is taken, then *ready* until it
    is returned; both is *busy*. The answer of one that is ready stays where it is: nothing
    writes there before the environment is sent to again.

    Args:
        pool: The workers.
        num_envs: Number of environments.
        batch_size: How many are returned at a time.

    Attributes:
        busy: bool array of shape ``(num_envs,)``.
        deferred: Commands with their arguments that all environments are sent, one after another,
            by :meth:`begin_deferred`.
        messages: What came by message for environments that are ready: whether the environment
            failed, and the content.
    """

    def __init__(self, pool: WorkerPool, num_envs: int, batch_size: int) -> None:
        self._pool = pool
        self._count = batch_size
        self._infos = pool.info_slots.batches(batch_size)
        self.busy = np.zeros(num_envs, dtype=np.bool_)
        self.deferred: list[Order] = []
        self.messages: dict[int, tuple[bool, Any]] = {}
        self._ready: list[int] = []
        self._with_message: set[int] = set()
        # What busy environments were sent, where a new worker may have to be sent it again.
        self._sent: dict[int, Order] = {}

    @property
    def any_busy(self) -> bool:
        """Whether one is busy."""
        return self._pool.gate.ready_first

    def send(self, command: Command, arguments: dict[int, bytes] | None, envs: np.ndarray) -> None:
        """Send a command to environments that are not busy."""
        self._send(command, arguments, envs, self.deferred)

    def _send(
        self,
        command: Command,
        arguments: dict[int, bytes] | None,
        envs: np.ndarray,
        deferred: list[Order],
    ) -> None:
        """Send a command; ``deferred`` is what is deferred then."""
        pool = self._pool
        busy, sent = self.busy.copy(), self._sent
        busy[envs] = True
        if pool.on_death.restarts:
            sent = sent | dict.fromkeys(envs.tolist(), (command, arguments))
        gate = pool.gate
        pending = pool.doorbell.num_pending
        before = self.busy, gate.ready_first, self._sent, self.deferred
        try:
            self.busy, gate.ready_first, self._sent, self.deferred = busy, True, sent, deferred
            pool.send_immediate(command, arguments, envs)
        except BaseException:
            # Ctrl-C may have come before the command was sent, or after it. Nothing is called
            # here, so that a second one cannot come between.
            if pool.doorbell.num_pending == pending:
                self.busy, gate.ready_first, self._sent, self.deferred = before
            raise

    def defer(self, command: Command, arguments: dict[int, bytes] | None) -> None:
        """Let all environments be sent a command once no environment is at work, and none before."""
        busy = np.ones_like(self.busy)
        # None takes the place of an earlier one, whose seeds would be lost.
        deferred = [*self.deferred, (command, arguments)]
        gate = self._pool.gate
        # All at once, as far as Ctrl-C can tell: nothing is called between these.
        self.busy, gate.ready_first, self.deferred = busy, True, deferred

    def begin_deferred(self, deadline: float | None) -> None:
        """Send what is deferred. What those that are still at work answer is dropped.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        while self.deferred:
            self.settle(deadline)
            self._forget()
            (command, arguments), *others = self.deferred
            self._send(command, arguments, np.arange(len(self.busy)), others)

    def take(self, deadline: float | None) -> np.ndarray:
        """The environments of the next batch, ascending, with their messages.

        They stay ready until :meth:`release`, so that an interrupted call can be repeated.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        while True:
            self._accept()
            lacking = self._count - len(self._ready)
            if not (self._pool.take(lacking, deadline) if lacking > 0 else self._pool.look()):
                continue
            self._accept()
            envs = sorted(self._ready[: self._count])
            if self._read_messages(envs, deadline):
                return np.array(envs, dtype=np.int64)

    def settle(self, deadline: float | None) -> None:
        """Wait until no environment is at work. Then the workers are free for other calls.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: A worker died.
        """
        while True:
            self._accept()
            if not self._pool.take(None, deadline):
                continue
            self._accept()
            # The messages of other calls must not be taken for these.
            if self._read_messages(self._ready, deadline):
                return

    def _forget(self) -> None:
        """Drop the answers of all environments, after :meth:`settle` and before :meth:`_send`."""
        # They stay busy, so that an interrupted call still finds that they are to be sent to.
        self._ready, self._with_message, self.messages, self._sent = [], set(), {}, {}

    def release(self, envs: list[int]) -> None:
        """Environments are no longer busy: their answers were returned."""
        gone = set(envs)
        ready = [env for env in self._ready if env not in gone]
        busy = self.busy.copy()
        busy[envs] = False
        any_busy = bool(busy.any())
        with_message, messages, sent = self._with_message, self.messages, self._sent
        if with_message:
            with_message = with_message - gone
            messages = {env: message for env, message in messages.items() if env not in gone}
        if sent:
            sent = {env: order for env, order in sent.items() if env not in gone}
        gate = self._pool.gate
        # All at once, as far as Ctrl-C can tell: nothing is called between these.
        self._ready, self.busy, gate.ready_first = ready, busy, any_busy
        self._with_message, self.messages, self._sent = with_message, messages, sent

    def slots_of(self, envs: np.ndarray) -> InfoBatchSlots:
        """The info slots of the environments of a batch, by position in it."""
        # Their schemas are known: answers of a worker are taken in order, so the message of the
        # environment that had a schema first was read before or just now.
        self._infos.load(envs)
        return self._infos

    def _accept(self) -> None:
        if self._pool.withdrawn:
            self._send_again()
        taken = self._pool.taken
        if not taken:
            return
        with_message = self._with_message.union(filter(self._pool.results.has_message, taken))
        ready = self._ready + taken
        gate = self._pool.gate
        # All at once, as far as Ctrl-C can tell.
        self._with_message, self._ready, self._pool.taken, gate.drained = (
            with_message,
            ready,
            [],
            False,
        )

    def _send_again(self) -> None:
        """Ask new workers what the dead ones had been sent, whether they had answered or not."""
        pool = self._pool
        gone = pool.withdrawn
        self._ready = [env for env in self._ready if env not in gone]
        self._with_message -= gone
        for env in gone:
            self.messages.pop(env, None)
        for env in sorted(gone):
            if env in self._sent and not pool.doorbell.pending(env):
                command, arguments = self._sent[env]
                own = None if arguments is None else {env: arguments[env]}
                pool.send_immediate(command, own, np.array([env], dtype=np.int64))
        gone.clear()
        pool.gate.replaced = False

    def _read_messages(self, envs: list[int], deadline: float | None) -> bool:
        """Read the messages of environments; False where a worker of theirs was replaced."""
        if not self._with_message:
            return True
        for env in envs:
            if env in self._with_message and env not in self.messages:
                message = self._pool.message_of(env, deadline)
                if message is None:
                    return False
                self.messages[env] = message
        return True
