"""What a worker that died or is late raises in the parent."""

from __future__ import annotations

import multiprocessing
import signal
from typing import Any

__all__ = ["StepTimeoutError", "WorkerDiedError", "how_it_ended"]


class StepTimeoutError(multiprocessing.TimeoutError, TimeoutError):
    """A call took longer than its time-out. Both kinds of TimeoutError that callers catch.

    Attributes:
        env_indices: The environments that were waited for longer than ``step_timeout``; none
            where it was the call's own time-out.
    """

    env_indices: list[int] = []


class WorkerDiedError(RuntimeError):
    """A worker process ended while its environments were in use.

    Attributes:
        env_indices: The environments it had.
        exitcode: Its exit code; negative for the number of the signal that ended it.
        restarted: Whether a new worker has taken its place, so that the vector environment
            can go on. Then only the call that raises this is lost.
    """

    def __init__(
        self,
        env_indices: list[int],
        exitcode: int | None,
        reason: str | None = None,
        restarted: bool = False,
    ) -> None:
        self.env_indices = env_indices
        self.exitcode = exitcode
        self.restarted = restarted
        self._reason = reason
        outlook = (
            "A new worker has taken its place, what was called is lost, and its environments "
            "begin new episodes"
            if restarted
            else "The vector environment cannot go on; call `close()`"
        )
        super().__init__(
            f"the worker of environments {env_indices} {reason or how_it_ended(exitcode)}. "
            f"{outlook}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.env_indices, self.exitcode, self._reason, self.restarted)


def how_it_ended(exitcode: int | None) -> str:
    """The end of a process, as the rest of a sentence about it."""
    if exitcode is None:
        return "is gone (something else has taken its exit code)"
    if exitcode >= 0:
        return f"exited with code {exitcode}"
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = f"signal {-exitcode}"
    hint = " (the system may have run out of memory)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"
