"""What comes of a call that was sent to the workers."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from gymvec.vector.errors import text_of, unpack_error
from gymvec.vector.mail import Subject, dumps

__all__ = ["NOTHING", "Answers", "opened"]


@dataclass
class Answers:
    """What came with the answers of one call.

    Attributes:
        letters: Contents by environment, of those that answered with a letter.
        failures: What environments raised, packed.
    """

    letters: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, Any] = field(default_factory=dict)

    @property
    def error(self) -> BaseException | None:
        """What the environment with the lowest index raised; it names the others."""
        if not self.failures:
            return None
        envs = sorted(self.failures)
        return unpack_error(self.failures[envs[0]], envs)


NOTHING = Answers()


def opened(env: int, subject: Subject, packed: memoryview) -> tuple[Subject, Any]:
    """The content of an envelope, which may be of a class that this process cannot import.

    That of an error stays packed.
    """
    if subject is Subject.ERROR:
        return subject, packed
    try:
        return subject, pickle.loads(packed)
    except Exception as error:
        name = f"{type(error).__name__}: {text_of(error)}"
        text = f"what environment {env} returned cannot be unpickled here: {name}"
        return Subject.ERROR, dumps((text, f"{text}\n"))
