"""Samples in shared memory: the twin of ``gymnasium.vector.utils.shared_memory``."""

from __future__ import annotations

import ctypes
import errno
import multiprocessing as mp
import os
import sys
import tempfile
from collections.abc import Mapping
from multiprocessing import heap
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Text,
    Tuple,
)
from gymnasium.vector.utils import shared_memory as _original

from gymvec.utils import _array_spaces, text
from gymvec.utils.dispatch import handles, no_handler, twin

__all__ = ["create_shared_memory", "read_from_shared_memory", "write_to_shared_memory"]

# By kind and size; other dtypes (float16, longdouble) lie in shared memory as bytes.
_CTYPES = {
    np.dtype(kind).str[1:]: kind
    for kind in (
        ctypes.c_bool,
        ctypes.c_int8,
        ctypes.c_int16,
        ctypes.c_int32,
        ctypes.c_int64,
        ctypes.c_uint8,
        ctypes.c_uint16,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_float,
        ctypes.c_double,
    )
}


@twin(_original.create_shared_memory, no_handler("create_shared_memory"))
def create_shared_memory(space: Space[Any], n: int = 1, ctx: ModuleType = mp) -> Any:
    """Make memory for one sample of each environment, shared with child processes.

    Args:
        space: Space of a single environment.
        n: Number of environments.
        ctx: Multiprocessing context.

    Returns:
        What ``ctx.Array`` makes for an array space or Text, of ``n`` rows; a tuple or dict of
        these for Tuple and Dict; for OneOf a tuple of the chosen indices and the memory of
        each alternative.

    Raises:
        CustomSpaceError: No handler is registered for the space's class.
        TypeError: The space has no fixed shape (Graph, Sequence), or is no space.

    Example:
        >>> from gymnasium.spaces import Box
        >>> create_shared_memory(Box(0, 1, (3,)), n=2).get_obj()  # doctest: +ELLIPSIS
        <...c_float_Array_6 object at ...>
    """
    return create_shared_memory.dispatch(space.__class__)(space, n=n, ctx=ctx)


@handles(create_shared_memory, Box, Discrete, MultiDiscrete, MultiBinary)
def _create_array(space: Any, n: int = 1, ctx: Any = mp) -> Any:
    size = n * int(np.prod(space.shape))
    kind = _CTYPES.get(space.dtype.str[1:])
    if kind is None:
        kind, size = ctypes.c_uint8, size * space.dtype.itemsize
    _check_room(size * ctypes.sizeof(kind), space)
    return ctx.Array(kind, size)


def _check_room(size: int, space: Any) -> None:
    """Raise an OSError where ``ctx.Array`` would write beyond the room of its file system.

    That is a bus error. It takes the first of these directories that has the room, and the last
    one without a look.
    """
    if not hasattr(os, "statvfs"):
        return
    most = 0
    for folder in (*getattr(heap.Arena, "_dir_candidates", ()), tempfile.gettempdir()):
        try:
            about = os.statvfs(folder)
        except OSError:
            continue
        free = about.f_bavail * about.f_frsize
        if size <= free:
            return
        most = max(most, free)
    raise OSError(
        errno.ENOSPC,
        f"no room for {size} bytes of shared memory for {space}, {most} are free: make /dev/shm "
        "or the temporary directory larger (docker run --shm-size), or use fewer environments",
    )


@handles(create_shared_memory, Tuple)
def _create_tuple(space: Tuple[Any], n: int = 1, ctx: Any = mp) -> tuple[Any, ...]:
    return tuple(create_shared_memory(subspace, n=n, ctx=ctx) for subspace in space.spaces)


@handles(create_shared_memory, Dict)
def _create_dict(space: Dict, n: int = 1, ctx: Any = mp) -> dict[str, Any]:
    return {
        key: create_shared_memory(subspace, n=n, ctx=ctx) for key, subspace in space.spaces.items()
    }


@handles(create_shared_memory, Text)
def _create_text(space: Text, n: int = 1, ctx: Any = mp) -> Any:
    _check_room(4 * n * space.max_length, space)
    return ctx.Array(ctypes.c_int32, n * space.max_length)


@handles(create_shared_memory, OneOf)
def _create_oneof(space: OneOf[Any], n: int = 1, ctx: Any = mp) -> tuple[Any, ...]:
    return (
        ctx.Array(ctypes.c_int64, n),
        *(create_shared_memory(subspace, n=n, ctx=ctx) for subspace in space.spaces),
    )


@handles(create_shared_memory, Graph, Sequence)
def _create_dynamic(space: Graph | Sequence, n: int = 1, ctx: Any = mp) -> NoReturn:
    raise TypeError(
        f"As {space} has a dynamic shape so its not possible to make a static shared memory. "
        "For `AsyncVectorEnv`, disable `shared_memory`."
    )


@twin(_original.read_from_shared_memory, no_handler("read_from_shared_memory"))
def read_from_shared_memory(
    space: Space[Any], shared_memory: Any, n: int = 1
) -> dict[str, Any] | tuple[Any, ...] | np.ndarray:
    """Read the samples of all environments from shared memory.

    Args:
        space: Space of a single environment.
        shared_memory: What ``create_shared_memory(space, n)`` made.
        n: Number of environments.

    Returns:
        The batch. Its arrays are views of the shared memory: what is written there later
        shows in them, and what is written to them lands there. Texts are strings of their own.

    Raises:
        CustomSpaceError: No handler is registered for the space's class.
        TypeError: ``space`` is not a :class:`gymnasium.Space`.
        ValueError: The memory is not that of ``n`` samples of this space.

    Example:
        >>> from gymnasium.spaces import Discrete
        >>> memory = create_shared_memory(Discrete(5), n=2)
        >>> write_to_shared_memory(Discrete(5), 1, 3, memory)
        >>> read_from_shared_memory(Discrete(5), memory, n=2)
        array([0, 3])
    """
    return read_from_shared_memory.dispatch(space.__class__)(space, shared_memory, n=n)


handles(read_from_shared_memory, Box, Discrete, MultiDiscrete, MultiBinary)(_array_spaces.read)


@handles(read_from_shared_memory, Tuple)
def _read_tuple(space: Tuple[Any], shared_memory: Any, n: int = 1) -> tuple[Any, ...]:
    memories = _memories(space, shared_memory, len(space.spaces))
    batches = []
    for i, subspace in enumerate(space.spaces):
        batches.append(read_from_shared_memory(subspace, memories[i], n))
    return tuple(batches)


@handles(read_from_shared_memory, Dict)
def _read_dict(space: Dict, shared_memory: Any, n: int = 1) -> dict[str, Any]:
    memories = _memories_by_key(space, shared_memory)
    return {
        key: read_from_shared_memory(subspace, memories[key], n)
        for key, subspace in space.spaces.items()
    }


@handles(read_from_shared_memory, Text)
def _read_text(space: Text, shared_memory: Any, n: int = 1) -> tuple[str, ...]:
    return text.decode(
        space, _array_spaces.view(space, shared_memory, np.int32, (space.max_length,), n)
    )


@handles(read_from_shared_memory, OneOf)
def _read_oneof(space: OneOf[Any], shared_memory: Any, n: int = 1) -> tuple[Any, ...]:
    index_memory, *memories = _memories(space, shared_memory, 1 + len(space.spaces))
    chosen = _array_spaces.view(space, index_memory, np.int64, (), n)
    batches = [
        read_from_shared_memory(subspace, memory, n=n)
        for memory, subspace in zip(memories, space.spaces, strict=True)
    ]
    return tuple(
        (index, _sample_of(space.spaces[index], batches[index], environment))
        for environment, index in enumerate(chosen)
    )


def _sample_of(space: Space[Any], batch: Any, environment: int) -> Any:
    """One environment's sample out of a batch that was read from shared memory."""
    if isinstance(space, Tuple) and isinstance(batch, tuple):
        return tuple(
            _sample_of(subspace, part, environment)
            for subspace, part in zip(space.spaces, batch, strict=True)
        )
    if isinstance(space, Dict) and isinstance(batch, dict):
        return {
            key: _sample_of(subspace, batch[key], environment)
            for key, subspace in space.spaces.items()
        }
    return batch[environment]


@twin(_original.write_to_shared_memory, no_handler("write_to_shared_memory"))
def write_to_shared_memory(space: Space[Any], index: int, value: Any, shared_memory: Any) -> None:
    """Write the sample of one environment into shared memory.

    A value of another dtype is cast as NumPy casts it without a rule. The parts of a Tuple or
    Dict are written in the order of the space, and the first that cannot be written raises its
    error. So a wrong size in one part is the error even if a later part is missing. The parts
    before it are written; it and the parts after it stay as they were. No row of an array leaf
    is ever half-written. A wrong index is the error whatever else is wrong, and nothing is written.

    Args:
        space: Space of a single environment.
        index: The environment, any integer type, in ``[0, n)``.
        value: The sample.
        shared_memory: What ``create_shared_memory(space, n)`` made.

    Raises:
        CustomSpaceError: No handler is registered for the space's class.
        IndexError: ``index`` is outside ``[0, n)``.
        TypeError: ``space`` is not a :class:`gymnasium.Space`.
        ValueError: The value has another number of elements, or the memory is not of this space.

    Example:
        >>> from gymnasium.spaces import Box
        >>> import numpy as np
        >>> memory = create_shared_memory(Box(0, 9, (2,)), n=2)
        >>> write_to_shared_memory(Box(0, 9, (2,)), 0, np.array([1, 2], np.float32), memory)
        >>> memory[:]
        [1.0, 2.0, 0.0, 0.0]
    """
    return write_to_shared_memory.dispatch(space.__class__)(space, index, value, shared_memory)


handles(write_to_shared_memory, Box, Discrete, MultiDiscrete, MultiBinary)(_array_spaces.write)


@handles(write_to_shared_memory, Tuple)
def _write_tuple(space: Tuple[Any], index: int, value: Any, shared_memory: Any) -> None:
    memories = _memories(space, shared_memory, len(space.spaces))
    try:
        for part, memory, subspace in zip(value, memories, space.spaces, strict=True):
            write_to_shared_memory(subspace, index, part, memory)
    except (KeyError, TypeError, ValueError):
        _check_index(space, index, shared_memory)
        raise


@handles(write_to_shared_memory, Dict)
def _write_dict(
    space: Dict, index: int, value: Mapping[str, Any], shared_memory: Mapping[str, Any]
) -> None:
    memories = _memories_by_key(space, shared_memory)
    try:
        for key, subspace in space.spaces.items():
            write_to_shared_memory(subspace, index, value[key], memories[key])
    except (KeyError, TypeError, ValueError):
        _check_index(space, index, shared_memory)
        raise


@handles(write_to_shared_memory, Text)
def _write_text(space: Text, index: int, value: str, shared_memory: Any) -> None:
    rows = _array_spaces.view(space, shared_memory, np.int32, (space.max_length,), None)
    # Rows without characters cannot be counted.
    row = _array_spaces.row_index(index, len(rows) if space.max_length > 0 else sys.maxsize)
    if space.max_length > 0:
        rows = rows[row]
    rows[...] = text.encode(space, value)


@handles(write_to_shared_memory, OneOf)
def _write_oneof(space: OneOf[Any], index: int, value: tuple[int, Any], shared_memory: Any) -> None:
    index_memory, *memories = _memories(space, shared_memory, 1 + len(space.spaces))
    chosen = _array_spaces.view(space, index_memory, np.int64, (), None)
    environment = _array_spaces.row_index(index, len(chosen))
    alternative, sample = value
    if not 0 <= alternative < len(space.spaces):
        raise ValueError(
            f"expected the index of one of the {len(space.spaces)} alternatives of {space}, "
            f"got {alternative}"
        )
    # The index goes last: a sample that cannot be written leaves the old choice in place.
    write_to_shared_memory(space.spaces[alternative], environment, sample, memories[alternative])
    chosen[environment] = alternative


def _check_index(space: Any, index: Any, shared_memory: Any) -> None:
    """Raise the error of a wrong index, which goes before whatever is wrong with a value."""
    handler = write_to_shared_memory.dispatch(type(space))
    if handler is _write_tuple:
        for subspace, memory in zip(space.spaces, shared_memory, strict=True):
            _check_index(subspace, index, memory)
    elif handler is _write_dict:
        for key, subspace in space.spaces.items():
            _check_index(subspace, index, shared_memory[key])
    elif handler is _write_oneof:
        _array_spaces.row_index(index, len(shared_memory[0]))
    elif handler is _write_text or handler is _array_spaces.write:
        is_text = handler is _write_text
        dtype, shape = (np.int32, (space.max_length,)) if is_text else (space.dtype, space.shape)
        rows = _array_spaces.view(space, shared_memory, dtype, shape, None)
        if rows.size:
            _array_spaces.row_index(index, len(rows))


def _memories(space: Space[Any], shared_memory: Any, size: int) -> tuple[Any, ...] | list[Any]:
    """The memories of subspaces that have an order."""
    if isinstance(shared_memory, (tuple, list)) and len(shared_memory) == size:
        return shared_memory
    shown = f" of {len(shared_memory)}" if isinstance(shared_memory, (tuple, list)) else ""
    raise ValueError(
        f"expected a tuple of {size} shared memories for {space}, got {type(shared_memory)}{shown}"
    )


def _memories_by_key(space: Dict, shared_memory: Any) -> Mapping[str, Any]:
    """The memories of subspaces that have keys."""
    # A dict is known at once; asking an abstract class takes longer than reading a leaf.
    if isinstance(shared_memory, dict) or isinstance(shared_memory, Mapping):
        if shared_memory.keys() >= space.spaces.keys():
            return shared_memory
    raise ValueError(
        f"expected a dict of shared memories with the keys {list(space.spaces)} for {space}, "
        f"got {type(shared_memory)}: {shared_memory}"
    )
