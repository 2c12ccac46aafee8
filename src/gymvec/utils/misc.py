"""Carrying environment factories into other processes."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from gymnasium import Env

__all__ = ["CloudpickleWrapper", "clear_mpi_env_vars"]

_EnvT_co = TypeVar("_EnvT_co", bound=Env[Any, Any], covariant=True)
_MPI_PREFIXES = ("OMPI_", "PMI_")


class CloudpickleWrapper(Generic[_EnvT_co]):
    """A function without arguments that pickles whatever cloudpickle can.

    Closures, lambdas, partials and what is defined in ``__main__`` cross to another process.

    Example:
        >>> import pickle
        >>> wrapper = CloudpickleWrapper(lambda: 42)
        >>> pickle.loads(pickle.dumps(wrapper))()
        42
    """

    fn: Callable[[], _EnvT_co]

    def __init__(self, fn: Callable[[], _EnvT_co]) -> None:
        """Wrap ``fn``, which is called without arguments."""
        self.fn = fn

    def __getstate__(self) -> bytes:
        """The pickled function."""
        # Imported where it is needed: it takes a quarter of the time of importing gymvec.
        import cloudpickle

        pickled: bytes = cloudpickle.dumps(self.fn)
        return pickled

    def __setstate__(self, ob: bytes) -> None:
        """Take the function from its pickle ``ob``."""
        self.fn = pickle.loads(ob)

    def __call__(self) -> _EnvT_co:
        """Call the function."""
        return self.fn()


@contextlib.contextmanager
def clear_mpi_env_vars() -> Generator[None, None, None]:
    """Hide the MPI variables of the process environment for the length of a ``with`` block.

    A child process that inherits them takes itself for an MPI rank as soon as it imports
    ``mpi4py``, and may hang. Variables named ``OMPI_*`` and ``PMI_*`` are removed and put
    back at the end, also after an error. Other variables set meanwhile stay.

    Yields:
        None.
    """
    removed = {name: value for name, value in os.environ.items() if name.startswith(_MPI_PREFIXES)}
    for name in removed:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(removed)
