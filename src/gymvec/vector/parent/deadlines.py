"""How long a call may take, and what tells that it took longer."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gymvec.vector.errors import StepTimeoutError

__all__ = ["TimedOut", "deadline_after", "seconds_left"]


class TimedOut(Exception):
    """The time given for an answer is over.

    Attributes:
        envs: The environments that were waited for longer than ``step_timeout``; none where
            the time was that of the call.
    """

    def __init__(self, text: str = "", envs: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.envs = list(envs)

    def error(self, name: str, timeout: float | None, sent: bool = True) -> StepTimeoutError:
        """What the caller of a method is told.

        Args:
            name: Of the method.
            timeout: Its time-out.
            sent: Whether the environments were sent what it waits for.
        """
        text = str(self) or f"The call to `{name}` has timed out after {timeout} second(s)."
        if not sent:
            text = (
                f"{text.rstrip('.')}. What it waits for was not sent: the environments have not "
                "answered an earlier call yet."
            )
        error = StepTimeoutError(text)
        error.env_indices = self.envs
        return error


def deadline_after(timeout: float | None) -> float | None:
    """When a call has to end that may take so many seconds; None for never."""
    return None if timeout is None else time.monotonic() + timeout


def seconds_left(deadline: float | None, most: float) -> float:
    """How long to wait: until the deadline, but not longer than ``most``."""
    return most if deadline is None else max(0.0, min(most, deadline - time.monotonic()))
