"""Letters to the workers and from them, through pipes that nobody waits for in a write."""

from __future__ import annotations

import pickle
import time
from typing import Any

from gymnasium import logger

from gymvec.vector.answers import opened
from gymvec.vector.arena import Layout
from gymvec.vector.deadlines import Late, seconds_left
from gymvec.vector.info_slots import InfoSlots
from gymvec.vector.mail import Mailbox, Subject, join_parts, parts_of
from gymvec.vector.watch import Watch

__all__ = ["FLUSH_SECONDS", "SLICE_SECONDS", "Letters"]

# Between two slices of a wait the parent looks whether its workers live.
SLICE_SECONDS = 0.1
# A slice while a pipe has not taken all letters.
FLUSH_SECONDS = 0.001
# How long sending waits for a pipe that does not take a letter; the wait for the answers goes on.
_SEND_SECONDS = 1.0


class Letters(Watch):
    """The part of :class:`gymvec.vector.engine.Engine` that writes and reads letters.

    Args:
        layout: As for :class:`gymvec.vector.watch.Watch`.
        step_timeout: As for :class:`gymvec.vector.watch.Watch`.
    """

    info_slots: InfoSlots

    def __init__(self, layout: Layout, step_timeout: float | None) -> None:
        super().__init__(layout, step_timeout)
        # Whether a pipe has not taken all letters.
        self._unwritten = False
        # Envelopes that were received: the subject, and the pickled content.
        self._letters: dict[int, tuple[Subject, memoryview]] = {}
        # The share of their time that steps wait, until somebody was told.
        self._waits: float | None = None
        self._told = False

    def _sorted(self, arguments: dict[int, bytes]) -> list[tuple[Mailbox, bytes]]:
        letters = []
        for mailbox, part in zip(self.workers.mailboxes, self.layout.slices, strict=True):
            own = [
                (env, Subject.ARGUMENT, arguments[env])
                for env in range(part.start, part.stop)
                if env in arguments
            ]
            if own:
                letters.append((mailbox, join_parts(own)))
        return letters

    def _deliver(self) -> None:
        """Write letters for a while; what is left then is written by the wait for the answers."""
        until = time.monotonic() + _SEND_SECONDS
        while self._pump() and time.monotonic() < until:
            time.sleep(FLUSH_SECONDS)

    def _pump(self) -> bool:
        """Write what the pipes take now, and read what blocks them. Whether something is left."""
        left = False
        for mailbox in self.workers.mailboxes:
            if not mailbox.unwritten:
                continue
            try:
                while not mailbox.flush() and mailbox.take(self._parse, self._letters):
                    pass
                left = left or mailbox.unwritten
            except (BrokenPipeError, ConnectionResetError, EOFError):
                mailbox.forget()  # The death is reported where its answer is missed.
        self._unwritten = left
        return left

    def letter_of(self, env: int, deadline: float | None) -> tuple[bool, Any]:
        """The letter that came with the answer of an environment in ``taken``.

        Returns:
            Whether the environment failed, and the content.

        Raises:
            Late: The deadline has passed.
            WorkerDiedError: The worker died without writing it.
        """
        while env not in self._letters:
            self._receive(self._worker_of[env], deadline)
        self._advise()
        subject, content = opened(env, *self._letters[env])
        return subject is Subject.ERROR, content

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

    def _parse(self, letter: bytes) -> dict[int, tuple[Subject, memoryview]]:
        letters: dict[int, tuple[Subject, memoryview]] = {}
        for env, subject, packed in parts_of(letter):
            if subject is Subject.SCHEMA:
                self.info_slots.learn(env, *pickle.loads(packed))
            elif subject is Subject.WAITS:
                self._waits = pickle.loads(packed)
            elif subject is Subject.BUILT:
                self._built(env, packed)
            else:
                letters[env] = (subject, packed)
        return letters

    def _receive(self, worker: int, deadline: float | None) -> None:
        """Wait for the next letter of a worker.

        Raises:
            Late: The deadline has passed.
            WorkerDiedError: The worker died without writing it.
        """
        mailbox = self.workers.mailboxes[worker]
        while True:
            # Asked before the pipe is read, so that the last letter of a worker is found.
            ended = self.workers.has_ended(worker)
            try:
                if mailbox.take(self._parse, self._letters):
                    return
            except EOFError:
                ended = True
            if ended:
                self._report_death(worker)
            if deadline is not None and time.monotonic() >= deadline:
                raise Late
            if self.timed and self._is_stuck(worker):
                self._report_stuck(worker)
            mailbox.wait(seconds_left(deadline, SLICE_SECONDS))
