"""Letters between the parent and a worker: what cannot lie in the arena.

Neither side ever waits in a write: what the pipe does not take is kept and written later. The
arena announces each letter, so a reader knows that one is on its way.
"""

from __future__ import annotations

import copyreg
import io
import os
import pickle
import select
import struct
from collections import ChainMap, deque
from enum import IntEnum
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

__all__ = ["Mailbox", "Subject", "dumps"]


class Subject(IntEnum):
    """What a part of a worker's letter is about."""

    ANSWER = 0  # the rest of an environment's answer
    ERROR = 1  # what an environment raised instead
    SCHEMA = 2  # the number and signature of a new schema of infos


_HEADER = struct.Struct("<Q")
_READ_BYTES = 1 << 18
# Of the protocols before it, NumPy's arrays come back in native byte order.
_PROTOCOL = 5
# ForkingPickler makes this anew for each value, which takes longer than the pickling.
_REDUCERS = ChainMap(
    ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
    copyreg.dispatch_table,
)


def dumps(value: Any) -> bytes:
    """Pickle a value as multiprocessing does, or, where that fails, as cloudpickle does."""
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, _PROTOCOL)
    pickler.dispatch_table = _REDUCERS
    try:
        pickler.dump(value)
    except Exception:
        # Imported where it is needed: it takes a quarter of the time of importing gymvec.
        import cloudpickle

        return cloudpickle.dumps(value)
    return buffer.getvalue()


class Mailbox:
    """One end of a duplex pipe that is never waited for in a write.

    Args:
        connection: The end, from ``context.Pipe()``. It becomes non-blocking.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._fd = connection.fileno()
        os.set_blocking(self._fd, False)
        self._unwritten: deque[memoryview] = deque()
        self._read = bytearray()

    @property
    def unwritten(self) -> bool:
        """Whether there is something left to write."""
        return len(self._unwritten) > 0

    def keep(self, letter: bytes) -> None:
        """Take a letter that :meth:`flush` will write."""
        self._unwritten.extend((memoryview(_HEADER.pack(len(letter))), memoryview(letter)))

    def forget(self) -> None:
        """Give up what is unwritten: the other side is gone."""
        self._unwritten.clear()

    def post(self, letter: bytes) -> bool:
        """Send a letter, or keep what does not go now. Returns whether all is written."""
        self.keep(letter)
        return self.flush()

    def flush(self) -> bool:
        """Write what was kept, as far as it goes now. Returns whether all is written.

        Raises:
            BrokenPipeError: The other side is gone.
        """
        while self._unwritten:
            part = self._unwritten[0]
            try:
                written = os.write(self._fd, part)
            except BlockingIOError:
                return False
            if written == len(part):
                self._unwritten.popleft()
            else:
                self._unwritten[0] = part[written:]
        return True

    def receive(self) -> bytes | None:
        """The next letter if all of it is there, without waiting.

        Raises:
            EOFError: The other side is gone, and every whole letter was handed out.
        """
        letter = self._cut()
        while letter is None:
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return None
            except ConnectionResetError as error:
                raise EOFError("the other end of the pipe is gone") from error
            if not data:
                raise EOFError("the other end of the pipe is closed")
            self._read += data
            letter = self._cut()
        return letter

    def _cut(self) -> bytes | None:
        if len(self._read) < _HEADER.size:
            return None
        (size,) = _HEADER.unpack_from(self._read)
        if len(self._read) < _HEADER.size + size:
            return None
        letter = bytes(memoryview(self._read)[_HEADER.size : _HEADER.size + size])
        del self._read[: _HEADER.size + size]
        return letter

    def wait(self, seconds: float) -> None:
        """Wait until there is something to read, or room for what is unwritten."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN | (select.POLLOUT if self._unwritten else 0))
        poll.poll(seconds * 1000)

    def close(self) -> None:
        """Close this end."""
        self.forget()
        self.connection.close()
