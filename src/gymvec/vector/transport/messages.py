"""Messages between the parent and a worker: what cannot lie in the segment.

Neither side ever waits in a write: what the pipe does not take is kept and written later. The
segment publishes each message, so a reader knows that one is on its way.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from collections import ChainMap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.reduction import ForkingPickler
from struct import Struct
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from gymnasium import Space
from gymnasium.vector.vector_env import AutoresetMode

from gymvec.utils import CloudpickleWrapper
from gymvec.vector.transport import pipe
from gymvec.vector.transport.memory import Layout, Segment

if TYPE_CHECKING or not pipe.THREADED:
    from gymvec.vector.transport.pipe import MessagePipe
else:
    from gymvec.vector.transport.pipe import ThreadedMessagePipe as MessagePipe

__all__ = [
    "Command",
    "MessageKind",
    "MessagePipe",
    "WorkerConfig",
    "dumps",
    "join_parts",
    "parts_of",
    "pickled_by_value",
]


class Command(IntEnum):
    """What the parent asks of an environment. The message that some come with has a part for each
    environment, with its pickled arguments."""

    STEP = 0  # the action is in the segment
    STEP_WITH_MESSAGE = 1
    RESET = 2  # without seed and options
    RESET_WITH_MESSAGE = 3
    CALL = 4
    SET_ATTR = 5
    CLOSE = 6


@dataclass
class WorkerConfig:
    """All that a worker needs to know, handed to its process."""

    index: int
    parent_pid: int
    segment: Segment
    layout: Layout
    env_fns: CloudpickleWrapper[Any]
    connection: Any
    unused: list[Any]
    observation_mode: str | tuple[Space[Any], Space[Any]]
    observation_space: Space[Any]
    action_space: Space[Any]
    autoreset_mode: AutoresetMode
    wait: str
    polling: bool
    core: int | None
    specs: list[bytes]
    measures_waiting: bool
    # Of a worker in place of one that died: the pickled last observation of each environment.
    snapshots: dict[int, bytes] | None


class MessageKind(IntEnum):
    """What a part of a message is about."""

    ANSWER = 0  # the rest of an environment's answer
    ERROR = 1  # what an environment raised instead
    SCHEMA = 2  # the number and signature of a new schema of infos
    WAITS = 3  # the share of their time that steps wait
    BUILT = 4  # a worker that was started anew has its environments: empty, or an error
    ARGUMENT = 5  # what comes with the parent's command


_KINDS = tuple(MessageKind)
# Of a part: the environment, the kind, and the bytes of the content that follows.
_HEAD = Struct("<qQQ")


def join_parts(parts: Iterable[tuple[int, MessageKind, bytes]]) -> bytes:
    """A message of parts: the environment, the kind and the pickled content of each."""
    pieces: list[bytes] = []
    for env, kind, content in parts:
        pieces += (_HEAD.pack(env, kind, len(content)), content)
    return b"".join(pieces)


def parts_of(message: bytes) -> Iterator[tuple[int, MessageKind, memoryview]]:
    """The parts that a message was made of. The contents are views of it."""
    view, at = memoryview(message), 0
    while at < len(view):
        env, kind, size = _HEAD.unpack_from(view, at)
        at += _HEAD.size
        yield env, _KINDS[kind], view[at : at + size]
        at += size


# Of the protocols before it, NumPy's arrays come back in native byte order.
_PROTOCOL = 5


class _Reducers(ChainMap[Any, Any]):
    """Reductions by class, with one for all kinds of arrays behind the others."""

    def __missing__(self, kind: type) -> Any:
        if issubclass(kind, np.ndarray):
            return _reduce_array
        raise KeyError(kind)


def _reduce_array(array: Any) -> Any:
    """The reduction of an array, which comes back in its own byte order.

    NumPy makes an array native where it is unpickled, unless its memory is exported as a buffer:
    not that of subclasses, of strided arrays, of dates.
    """
    reduction = array.__reduce_ex__(_PROTOCOL)
    if array.dtype.isnative or not isinstance(reduction, tuple) or len(reduction) != 3:
        return reduction
    rebuild, args, state = reduction
    if state is None:
        return reduction
    return rebuild, args, (state, array.dtype), None, None, _set_state


# The attribute is deprecated where there is the method.
_set_dtype: Any = getattr(np.ndarray, "_set_dtype", None) or vars(np.ndarray)["dtype"].__set__


def _set_state(array: Any, state: tuple[Any, np.dtype]) -> None:
    """Fill an array that is unpickled, and give it the byte order that it had."""
    inner, dtype = state
    array.__setstate__(inner)
    if array.dtype != dtype and array.dtype == dtype.newbyteorder("="):
        np.ndarray.view(array, np.ndarray).byteswap(inplace=True)
        _set_dtype(array, dtype)


def _reduce_file(file: Any) -> tuple[Any, ...]:
    for name in ("stdout", "stderr"):
        if file is getattr(sys, name):
            return getattr, (sys, name)
    return _refuse(file)


def _refuse(value: Any) -> NoReturn:
    # cloudpickle would make something else of it.
    raise TypeError(
        f"cannot pickle {type(value).__name__!r} object: return or pass what it holds instead, "
        "as bytes, text or an array"
    )


# ForkingPickler makes this anew for each value, which takes longer than the pickling.
_REDUCERS = _Reducers(
    ForkingPickler._extra_reducers,  # type: ignore[attr-defined]
    copyreg.dispatch_table,
)
_STRICT = {memoryview: _refuse, io.TextIOWrapper: _reduce_file}


def dumps(value: Any) -> bytes:
    """Pickle a value as multiprocessing does, or, where that fails, as cloudpickle does.

    Everything comes back as what it was: arrays keep class, dtype and byte order.

    Raises:
        TypeError: Something in it cannot be pickled, or not as what it is.
    """
    buffer = io.BytesIO()
    pickler = pickle.Pickler(buffer, _PROTOCOL)
    pickler.dispatch_table = _REDUCERS
    try:
        pickler.dump(value)
    except Exception:
        extra: dict[Any, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
        return pickled_by_value(value, {**extra, **_STRICT})
    return buffer.getvalue()


def pickled_by_value(value: Any, reducers: dict[Any, Any]) -> bytes:
    """Pickle a value as cloudpickle does, with functions and classes that cannot be imported.

    Args:
        value: The value.
        reducers: Reductions by class that come before cloudpickle's.
    """
    # Imported where it is needed: it takes a quarter of the time of importing gymvec.
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table = _Reducers(reducers, cloudpickle.Pickler.dispatch_table)

    buffer = io.BytesIO()
    Pickler(buffer, _PROTOCOL).dump(value)
    return buffer.getvalue()
