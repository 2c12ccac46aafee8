"""What a dead, late or failing environment raises in the parent."""

from __future__ import annotations

import contextlib
import inspect
import io
import multiprocessing
import pickle
import signal
import traceback
from typing import Any

from gymvec.vector.transport.messages import dumps

__all__ = [
    "StepTimeoutError",
    "WorkerDiedError",
    "WorkerTraceback",
    "how_it_ended",
    "pack_error",
    "text_of",
    "unpack_error",
]


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
