"""Functions bound once to the leaves of a space, so that a step does no dispatch.

A space is looked at as a tree of Dict and Tuple. Its *array leaves* have rows in blocks,
arrays of shape ``(n, *shape)`` that lie in dicts and tuples of the space's structure. Its
*other leaves* (Text, OneOf, Graph, Sequence, custom spaces, and any space for whose class a
user has registered a handler) have none: their values are collected, and
:func:`gymvec.utils.concatenate` makes the batch of them.

Leaves are ordered depth first, in the order in which the space has them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple

from gymvec.kernels.rows import RowWriter, gather_rows
from gymvec.kernels.trees import TreeWriter, gather_key
from gymvec.utils import _array_spaces, concatenate, create_empty_array
from gymvec.vector.copying import copy_value

__all__ = [
    "bind_gatherer",
    "bind_reader",
    "bind_stacker",
    "bind_writer",
    "blocks_of",
    "is_array_leaf",
    "is_builtin",
    "leaves",
    "shape_of",
    "subspaces",
]

Path = tuple[Hashable, ...]
Stack = Callable[[Any], Any]
Write = Callable[[Any], Any]
Gather = Callable[[Any, Any], Any]

_ARRAY_SPACES = (Box, Discrete, MultiDiscrete, MultiBinary)


def is_builtin(function: Any, space: Space[Any]) -> bool:
    """Whether gymvec's own handler of a function of ``gymvec.utils`` serves the space."""
    module: str = function.dispatch(type(space)).__module__
    return module.partition(".")[0] == "gymvec"


def is_array_leaf(space: Space[Any]) -> bool:
    """Whether the samples of a space are rows of one block."""
    return (
        isinstance(space, _ARRAY_SPACES)
        and is_builtin(concatenate, space)
        and is_builtin(create_empty_array, space)
    )


def shape_of(space: Space[Any]) -> tuple[int, ...]:
    """The shape of the samples of an array leaf."""
    assert space.shape is not None
    return space.shape


def subspaces(space: Space[Any]) -> list[tuple[Any, Space[Any]]] | None:
    """Keys or positions and subspaces of a Dict or Tuple; None for a leaf."""
    if not is_builtin(concatenate, space) or not is_builtin(create_empty_array, space):
        return None
    if isinstance(space, Dict):
        return list(space.spaces.items())
    if isinstance(space, Tuple):
        return list(enumerate(space.spaces))
    return None


def leaves(space: Space[Any]) -> Iterator[tuple[Path, Space[Any]]]:
    """The leaves of a space with the keys and positions that lead to each."""
    parts = subspaces(space)
    if parts is None:
        yield (), space
        return
    for key, subspace in parts:
        for path, leaf in leaves(subspace):
            yield (key, *path), leaf


def blocks_of(space: Space[Any], blocks: Any) -> list[np.ndarray]:
    """The blocks of the array leaves, in order.

    Args:
        space: Space of an environment.
        blocks: The blocks in the space's structure.
    """
    found = []
    for path, leaf in leaves(space):
        if is_array_leaf(leaf):
            block = blocks
            for key in path:
                block = block[key]
            found.append(block)
    return found


def bind_writer(blocks: Any, index: int) -> Write:
    """A function that writes one environment's samples into its rows.

    Which parts have rows, and in what order the others come, is the blocks' to say: the space of
    the environment may have its keys in another order, and where the environment is, handlers
    may be registered that are not registered where the batch is made, or the other way round.

    Args:
        blocks: Writable arrays of shape ``(n, *shape)``, in dicts by key or position; None for
            other leaves. They are kept alive.
        index: The environment's row.

    Returns:
        Function of a sample. It returns the values of the other leaves, in order: a list
        for a Dict or Tuple and for an other leaf, None for an array leaf. An error leaves each
        row whole, old or new: ``KeyError`` for a missing part, ``ValueError`` for a wrong
        number of elements, what NumPy raises for a value that is no number.
    """
    writer = _writer(blocks, index)
    return _hand_back if writer is None else writer


def _hand_back(value: Any) -> list[Any]:
    return [value]


def _writer(blocks: Any, index: int) -> RowWriter | TreeWriter | None:
    if blocks is None:
        return None
    if isinstance(blocks, dict):
        return TreeWriter((key, _writer(part, index)) for key, part in blocks.items())
    return RowWriter(blocks, index)


def bind_reader(space: Space[Any], blocks: Any, n: int) -> Callable[..., Any]:
    """A function that makes the batch of what writers have put into blocks.

    Args:
        space: Space of a single environment.
        blocks: What :func:`bind_writer` was given, or the like in tuples; what stands at other
            leaves is not looked at.
        n: Number of environments.

    Returns:
        Function of ``others``, a list with the ``n`` items of each other leaf in order, of
        ``copy``, and of ``copies``. With ``copy`` the batch is the caller's own at every depth,
        without it its arrays are the blocks and the items themselves. ``copies`` are those of
        the blocks, in order, if they were made already.
    """
    own = blocks_of(space, blocks)
    read = _reader(space, n)

    def bound(others: Any, copy: bool, copies: Iterable[np.ndarray] | None = None) -> Any:
        if copies is None:
            copies = [block.copy() for block in own] if copy else own
        return read(iter(copies), iter(others), copy)

    return bound


def _reader(space: Space[Any], n: int) -> Callable[[Any, Any, bool], Any]:
    if is_array_leaf(space):
        return lambda arrays, others, copy: next(arrays)
    parts = subspaces(space)
    if parts is None:
        other = _Other(space, n)
        return lambda arrays, others, copy: other.batch(next(others), copy)
    readers = [(key, _reader(subspace, n)) for key, subspace in parts]
    if isinstance(space, Dict):
        return lambda arrays, others, copy: {
            key: read(arrays, others, copy) for key, read in readers
        }
    return lambda arrays, others, copy: tuple([read(arrays, others, copy) for _, read in readers])


def bind_gatherer(space: Space[Any], blocks: Any, count: int) -> Gather:
    """A function that makes the batch of some environments of what writers put into blocks.

    Args:
        space: Space of a single environment.
        blocks: As for :func:`bind_reader`.
        count: Number of environments of a batch.

    Returns:
        Function of ``others``, a list with the items of all environments of each other leaf in
        order, and of ``envs``, a contiguous int64 array of ``count`` environments. Only their
        rows are read. The batch is the caller's own at every depth.
    """
    gather = _gatherer(space, blocks, count)
    return lambda others, envs: gather(iter(others), envs)


def _gatherer(space: Space[Any], blocks: Any, count: int) -> Gather:
    if is_array_leaf(space):
        shape, dtype = (count, *shape_of(space)), space.dtype

        def gather(others: Any, envs: np.ndarray) -> np.ndarray:
            out = np.empty(shape, dtype)
            if not gather_rows(blocks, envs, out):
                out[...] = blocks[envs]
            return out

        return gather
    parts = subspaces(space)
    if parts is None:
        other = _Other(space, count)

        def collect(others: Any, envs: np.ndarray) -> Any:
            items = next(others)
            return other.batch([items[env] for env in envs], True)

        return collect
    gatherers = [(key, _gatherer(subspace, blocks[key], count)) for key, subspace in parts]
    if isinstance(space, Dict):
        return lambda others, envs: {key: gather(others, envs) for key, gather in gatherers}
    return lambda others, envs: tuple([gather(others, envs) for _, gather in gatherers])


def bind_stacker(space: Space[Any], n: int) -> Stack:
    """A function that makes a new batch of samples, one an environment.

    Args:
        space: Space of a single environment.
        n: Number of environments.

    Returns:
        Function of a list of ``n`` samples. Its result is that of
        :func:`gymvec.utils.concatenate`, in arrays that are the caller's own, at every depth.
    """
    if is_array_leaf(space):
        shape = (n, *shape_of(space))
        dtype = space.dtype
        stack = _array_spaces.concatenate
        return lambda items: stack(space, items, np.empty(shape, dtype))
    parts = subspaces(space)
    if parts is None:
        other = _Other(space, n)
        return lambda items: other.batch(items, True)
    stackers = [(key, bind_stacker(subspace, n)) for key, subspace in parts]
    if isinstance(space, Dict):
        return lambda items: {key: stack(gather_key(items, key)) for key, stack in stackers}
    return lambda items: tuple([stack(gather_key(items, key)) for key, stack in stackers])


class _Other:
    """The batch of a leaf without rows. A user's handler may want its former batch back."""

    def __init__(self, space: Space[Any], n: int) -> None:
        self._space = space
        self._batch: Any = create_empty_array(space, n=n, fn=np.zeros)

    def batch(self, items: list[Any], copy: bool) -> Any:
        self._batch = concatenate(self._space, items, self._batch)
        return copy_value(self._batch) if copy else self._batch
