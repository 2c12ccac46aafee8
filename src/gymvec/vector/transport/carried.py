"""What a worker process is started with, where a pickle carries it.

The pickler is the multiprocessing context's choice: multiprocessing's own, loky's, dill's. What
belongs to the system (memory, pipes) therefore says by itself how it travels, with the reductions
of the context's package: a descriptor reaches a process only by what started that process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gymvec.utils import CloudpickleWrapper
from gymvec.vector.transport.messages import pickled_by_value

__all__ = ["Carried", "EnvFns", "as_if_starting", "carried_connection"]


class Carried:
    """Becomes, unpickled, what a reduction says.

    Args:
        reduction: Called while the process is started; returns a function and its arguments.
    """

    def __init__(self, reduction: Callable[[], tuple[Any, ...]]) -> None:
        self._reduction = reduction

    def __reduce__(self) -> tuple[Any, ...]:
        return self._reduction()


def carried_connection(connection: Any, reducer: Any) -> Carried:
    """One end of a pipe, for a process that is started.

    Args:
        connection: The end, from ``context.Pipe()``.
        reducer: ``context.reducer``, the module of the context's reductions.
    """
    reduce = reducer.ForkingPickler._extra_reducers[type(connection)]
    return Carried(lambda: reduce(connection))


class EnvFns(CloudpickleWrapper[Any]):
    """The functions that make the environments of one worker, in one pickle.

    Args:
        fns: The functions.
        first: The environment of the first of them.
        reducer: ``context.reducer``; what it reduces, such as a queue's pipe, may be in a function.
    """

    fn: Any

    def __init__(self, fns: Sequence[Any], first: int, reducer: Any) -> None:
        super().__init__(fns)  # type: ignore[arg-type]
        self._first = first
        self._reducers = reducer.ForkingPickler._extra_reducers

    def __getstate__(self) -> bytes:
        """The pickled list.

        Raises:
            TypeError: A function cannot be pickled; the message names the environment.
        """
        try:
            return pickled_by_value(self.fn, self._reducers)
        except Exception:
            # Asked one by one while the process is started: queues and locks travel only now.
            for i, fn in enumerate(self.fn):
                try:
                    pickled_by_value(fn, self._reducers)
                except Exception as reason:
                    raise TypeError(
                        f"the function of environment {self._first + i} cannot be pickled: "
                        f"{type(reason).__name__}: {reason}"
                    ) from reason
            raise


class _Rehearsal:
    """Stands for a process that is started, for reductions that ask for one."""

    @staticmethod
    def duplicate_for_child(descriptor: int) -> int:
        return descriptor

    @staticmethod
    def DupFd(descriptor: int) -> int:
        return descriptor


@contextlib.contextmanager
def as_if_starting(reducer: Any) -> Iterator[None]:
    """Let be pickled what travels only to a process that is started. The pickle is of no use.

    Args:
        reducer: ``context.reducer``.
    """
    reducer.context.set_spawning_popen(_Rehearsal)
    try:
        yield
    finally:
        reducer.context.set_spawning_popen(None)
