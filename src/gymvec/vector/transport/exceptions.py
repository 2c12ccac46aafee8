"""Exceptions of environments on their way to the parent."""

from __future__ import annotations

import contextlib
import inspect
import io
import pickle
import traceback
from typing import Any

from gymvec.vector.transport.messages import dumps

__all__ = ["WorkerTraceback", "pack_error", "text_of", "unpack_error"]


class WorkerTraceback(Exception):
    """The cause of an exception that came from a worker: the traceback there, as text.

    Attributes:
        env_ids: The environments that failed in the same call, ascending.
    """

    def __init__(self, text: str, env_ids: list[int]) -> None:
        self.text = text
        self.env_ids = env_ids
        super().__init__(text, env_ids)

    def __str__(self) -> str:
        return f"\n\n{self.text}"


def pack_error(error: BaseException) -> bytes:
    """An exception as it travels.

    Returns:
        Two pickles, one behind the other: of its name and traceback, and of the exception if
        that is possible.
    """
    name = f"{type(error).__module__}.{type(error).__qualname__}: {text_of(error)}"
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        text = f"{name}\n"
    return dumps((name, text)) + _pickled(error)


def text_of(error: BaseException) -> str:
    """``str(error)``, whatever that does."""
    try:
        return str(error)
    except Exception as failure:
        return f"<its str() raised {type(failure).__name__}>"


def _pickled(error: BaseException) -> bytes:
    state = {**_slots(error), **vars(error)}
    try:
        return dumps((type(error), error.args, state))
    except Exception:
        try:
            # Its attributes may be what cannot travel.
            kept = {name: value for name, value in state.items() if _can_travel(value)}
            return dumps((type(error), error.args, kept))
        except Exception:
            return b""


def _slots(error: BaseException) -> dict[str, Any]:
    """What an exception keeps outside of its ``__dict__``, such as ``errno`` and ``code``."""
    names = {
        name
        for kind in type(error).__mro__
        for name, member in vars(kind).items()
        # The object of an AttributeError is often the whole environment.
        if inspect.ismemberdescriptor(member) and not name.startswith("__") and name != "obj"
    }
    values = {name: getattr(error, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _can_travel(value: Any) -> bool:
    try:
        pickle.loads(dumps(value))
    except Exception:
        return False
    return True


def _rebuild(stream: io.BytesIO) -> BaseException:
    # Without calling __init__, whose arguments need not be `args`.
    kind, args, state = pickle.load(stream)
    error = kind.__new__(kind, *args)
    if not isinstance(error, BaseException):
        raise TypeError(f"{kind} is no exception")
    error.args = args
    for name, value in state.items():
        with contextlib.suppress(AttributeError, TypeError):  # read-only
            setattr(error, name, value)
    return error


def unpack_error(packed: bytes | memoryview, envs: list[int]) -> BaseException:
    """The exception to raise in the parent, with the worker's traceback as its cause.

    Args:
        packed: What :func:`pack_error` made.
        envs: The environments that failed in the same call, the one it comes from first; the
            others are named in the cause.
    """
    stream = io.BytesIO(packed)
    name, text = pickle.load(stream)
    error: BaseException | None = None
    if stream.tell() < len(packed):
        try:
            error = _rebuild(stream)
        except Exception as failure:
            text += f"\nIt could not be rebuilt here: {type(failure).__name__}: {failure}\n"
    if error is None:
        error = RuntimeError(f"an environment raised an exception that cannot travel: {name}")
    if len(envs) > 1:
        text += f"\nEnvironments {envs[1:]} failed in the same call.\n"
    error.__cause__ = WorkerTraceback(text, envs)
    return error
