"""What comes of a call that was sent to the workers."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from typing import Any

from gymvec.vector.transport.exceptions import text_of, unpack_error
from gymvec.vector.transport.messages import MessageKind, dumps

__all__ = ["NOTHING", "Replies", "opened"]


@dataclass
class Replies:
    """What came with the answers of one call.

    Attributes:
        messages: Contents by environment, of those that answered with a message.
        failures: What environments raised, packed.
    """

    messages: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, Any] = field(default_factory=dict)

    @property
    def error(self) -> BaseException | None:
        """What the environment with the lowest index raised; it names the others."""
        if not self.failures:
            return None
        envs = sorted(self.failures)
        return unpack_error(self.failures[envs[0]], envs)


NOTHING = Replies()


def opened(env: int, kind: MessageKind, packed: memoryview) -> tuple[MessageKind, Any]:
    """The content of an envelope, which may be of a class that this process cannot import.

    That of an error stays packed.
    """
    if kind is MessageKind.ERROR:
        return kind, packed
    try:
        return kind, pickle.loads(packed)
    except Exception as error:
        name = f"{type(error).__name__}: {text_of(error)}"
        text = f"what environment {env} returned cannot be unpickled here: {name}"
        return MessageKind.ERROR, dumps((text, f"{text}\n"))
