"""Messages to the workers and from them, through pipes that nobody waits for in a write."""

from __future__ import annotations

import pickle
import time
from typing import Any

from gymnasium import logger

from gymvec.vector.parent.deadlines import TimedOut, seconds_left
from gymvec.vector.parent.infos import InfoSlots
from gymvec.vector.parent.replies import opened
from gymvec.vector.parent.supervisor import Supervisor
from gymvec.vector.transport.memory import Layout
from gymvec.vector.transport.messages import MessageKind, MessagePipe, join_parts, parts_of

__all__ = ["FLUSH_SECONDS", "SLICE_SECONDS", "Messages"]

# Between two slices of a wait the parent looks whether its workers live.
SLICE_SECONDS = 0.1
# A slice while a pipe has not taken all messages.
FLUSH_SECONDS = 0.001
# How long sending waits for a pipe that does not take a message; the wait for the answers goes on.
_SEND_SECONDS = 1.0


class Messages(Supervisor):
    """The part of :class:`gymvec.vector.parent.worker_pool.WorkerPool` that writes and reads messages.

    Args:
        layout: As for :class:`gymvec.vector.parent.supervisor.Supervisor`.
        step_timeout: As for :class:`gymvec.vector.parent.supervisor.Supervisor`.
    """

    info_slots: InfoSlots

    def __init__(self, layout: Layout, step_timeout: float | None) -> None:
        super().__init__(layout, step_timeout)
        # Whether a pipe has not taken all messages.
        self._unwritten = False
        # Envelopes that were received: the kind, and the pickled content.
        self._messages: dict[int, tuple[MessageKind, memoryview]] = {}
        # The share of their time that steps wait, until somebody was told.
        self._waits: float | None = None
        self._told = False

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
            time.sleep(FLUSH_SECONDS)

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
        self._unwritten = left
        return left

    def message_of(self, env: int, deadline: float | None) -> tuple[bool, Any]:
        """The message that came with the answer of an environment in ``taken``.

        Returns:
            Whether the environment failed, and the content.

        Raises:
            TimedOut: The deadline has passed.
            WorkerDiedError: The worker died without writing it.
        """
        while env not in self._messages:
            self._receive(self._worker_of[env], deadline)
        self._advise()
        kind, content = opened(env, *self._messages[env])
        return kind is MessageKind.ERROR, content

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
                self._built(env, packed)
            else:
                messages[env] = (kind, packed)
        return messages

    def _receive(self, worker: int, deadline: float | None) -> None:
        """Wait for the next message of a worker.

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
                    return
            except EOFError:
                ended = True
            if ended:
                self._report_death(worker)
            if deadline is not None and time.monotonic() >= deadline:
                raise TimedOut
            if self.timed and self._is_stuck(worker):
                self._report_stuck(worker)
            pipe.wait(seconds_left(deadline, SLICE_SECONDS))
