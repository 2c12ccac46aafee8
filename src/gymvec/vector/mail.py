"""Letters between the parent and a worker: what cannot lie in the arena.

Neither side ever waits in a write: what the pipe does not take is kept and written later. The
arena announces each letter, so a reader knows that one is on its way.
"""

from __future__ import annotations

import copyreg
import io
import pickle
from collections import ChainMap
from enum import IntEnum
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

from gymvec import _mailbox

if TYPE_CHECKING or not _mailbox.THREADED:
    from gymvec._mailbox import Mailbox
else:
    from gymvec._mailbox import ThreadedMailbox as Mailbox

__all__ = ["Mailbox", "Subject", "dumps"]


class Subject(IntEnum):
    """What a part of a worker's letter is about."""

    ANSWER = 0  # the rest of an environment's answer
    ERROR = 1  # what an environment raised instead
    SCHEMA = 2  # the number and signature of a new schema of infos
    WAITS = 3  # the share of their time that steps wait
    BUILT = 4  # whether a worker that was started anew has its environments: None, or an error


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

        pickled: bytes = cloudpickle.dumps(value)
        return pickled
    return buffer.getvalue()
