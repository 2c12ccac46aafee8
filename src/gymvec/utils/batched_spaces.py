"""Spaces of many environments made from the space of each."""

from __future__ import annotations

from collections.abc import Sequence as _PySequence
from copy import deepcopy
from typing import Any, Protocol, cast, overload

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
from gymnasium.vector.utils import space_utils as _original

from gymvec.utils.dispatch import Registry, handles, no_space, twin

__all__ = ["batch_space", "batch_differing_spaces"]


class BatchSpace(Registry, Protocol):
    """:func:`batch_space` as a type checker sees it: what each kind of space becomes."""

    @overload
    def __call__(self, space: Box | MultiDiscrete | MultiBinary, n: int = 1) -> Box: ...
    @overload
    def __call__(self, space: Discrete, n: int = 1) -> MultiDiscrete: ...
    @overload
    def __call__(self, space: Dict[Any], n: int = 1) -> Dict[Any]: ...
    @overload
    def __call__(
        self, space: Tuple[Any] | Graph | Text | Sequence | OneOf[Any], n: int = 1
    ) -> Tuple[Any]: ...
    @overload
    def __call__(self, space: Space[Any], n: int = 1) -> Space[Any]: ...


def _typed(function: Any) -> BatchSpace:
    return cast(BatchSpace, function)


@_typed
@twin(_original.batch_space, no_space("batch_space"))
def batch_space(space: Space[Any], n: int = 1) -> Space[Any]:
    """Make the space of ``n`` environments that each have the space ``space``.

    The batch has a copy of the space's generator: sampling one never moves the other. Array
    spaces become one space of shape ``(n, *shape)``; Tuple and Dict keep their structure;
    Graph, Text, Sequence, OneOf and custom spaces become a Tuple of ``n`` newly seeded copies.

    Args:
        space: Space of a single environment.
        n: Number of environments.

    Returns:
        The batched space.

    Raises:
        TypeError: ``space`` is not a :class:`gymnasium.Space`.

    Example:
        >>> from gymnasium.spaces import Box, Dict
        >>> batch_space(Dict({"position": Box(0, 1, (3,)), "velocity": Box(0, 1, (2,))}), n=5)
        Dict('position': Box(0.0, 1.0, (5, 3), float32), 'velocity': Box(0.0, 1.0, (5, 2), float32))
    """
    batched: Space[Any] = batch_space.dispatch(space.__class__)(space, n=n)
    return batched


# The attributes of a Box that hold one value an element.
_BOX_ARRAYS = ("low", "high", "bounded_below", "bounded_above")


def _repeated_box(space: Any, low: Any, high: Any, n: int) -> Box:
    """``Box(np.tile(low, ...), np.tile(high, ...))`` for ``n`` rows, with all its attributes.

    Box looks at each element by itself, so one row is enough to check and cast: its arrays
    are repeated afterwards.
    """
    seed = deepcopy(space.np_random)
    repeats = (n,) + (1,) * np.ndim(low)
    try:
        row = Box(low=low, high=high, dtype=space.dtype, seed=seed)
    except ValueError:
        row = None  # The error shall show the bounds of the whole batch.
    # A Gymnasium that prints the bounds at construction needs the whole arrays for it.
    if row is None or row.low_repr is not None or type(n) is not int or n < 1:
        return Box(
            low=np.tile(low, repeats), high=np.tile(high, repeats), dtype=space.dtype, seed=seed
        )
    for name in _BOX_ARRAYS:
        setattr(row, name, _repeated(getattr(row, name), n))
    row._shape = row.low.shape
    return row


def _repeated(row: np.ndarray, n: int) -> np.ndarray:
    """``n`` copies of a contiguous row."""
    if not row.reshape(-1).view(np.uint8).any():
        # Zeros come from the system as they are, and take no memory until they are written.
        return np.zeros((n, *row.shape), dtype=row.dtype)
    block = np.empty((n, *row.shape), dtype=row.dtype)
    block[:] = row
    return block


@handles(batch_space, Box)
def _batch_space_box(space: Box, n: int = 1) -> Box:
    return _repeated_box(space, space.low, space.high, n)


@handles(batch_space, Discrete)
def _batch_space_discrete(space: Discrete, n: int = 1) -> MultiDiscrete:
    return MultiDiscrete(
        np.full((n,), space.n, dtype=space.dtype),
        dtype=space.dtype,
        seed=deepcopy(space.np_random),
        start=np.full((n,), space.start, dtype=space.dtype),
    )


@handles(batch_space, MultiDiscrete)
def _batch_space_multidiscrete(space: MultiDiscrete, n: int = 1) -> Box:
    return _repeated_box(space, space.start, space.start + space.nvec - 1, n)


@handles(batch_space, MultiBinary)
def _batch_space_multibinary(space: MultiBinary, n: int = 1) -> Box:
    return Box(
        low=0, high=1, shape=(n, *space.shape), dtype=space.dtype, seed=deepcopy(space.np_random)
    )


@handles(batch_space, Tuple)
def _batch_space_tuple(space: Tuple[Any], n: int = 1) -> Tuple[Any]:
    return Tuple(
        tuple(batch_space(subspace, n=n) for subspace in space.spaces),
        seed=deepcopy(space.np_random),
    )


@handles(batch_space, Dict)
def _batch_space_dict(space: Dict[Any], n: int = 1) -> Dict[Any]:
    return Dict(
        {key: batch_space(subspace, n=n) for key, subspace in space.items()},
        seed=deepcopy(space.np_random),
        **_key_order(space),
    )


def _key_order(space: Dict[Any]) -> dict[str, Any]:
    """The arguments that keep a Dict space's order of keys, where Gymnasium has them."""
    return {"sort_keys": space.sort_keys} if hasattr(space, "sort_keys") else {}


@handles(batch_space, Graph, Text, Sequence, OneOf, Space)
def _batch_space_custom(space: Space[Any], n: int = 1) -> Tuple[Any]:
    batched = Tuple(tuple(deepcopy(space) for _ in range(n)), seed=deepcopy(space.np_random))
    # The copies hold one generator each, all in the same state: seed them apart.
    generator = deepcopy(space.np_random)
    batched.seed([int(seed) for seed in generator.integers(0, int(1e8), n)])
    return batched


def _differing_spaces(spaces: _PySequence[Space[Any]]) -> Space[Any]:
    """Dispatch on the class of the spaces in the list."""
    if len(spaces) == 0:
        raise ValueError("Expects a non-empty list of spaces")
    kind = type(spaces[0])
    if not all(isinstance(space, kind) for space in spaces):
        raise TypeError(
            "Expects all spaces to be of the same type, actual types: "
            f"{[type(space) for space in spaces]}"
        )
    if not batch_differing_spaces.router.has(kind):
        raise TypeError(
            "Requires the Space type to have a registered `batch_differing_space`, "
            f"current list: {batch_differing_spaces.registry}"
        )
    return batch_differing_spaces.dispatch(kind)(spaces)


@twin(_original.batch_differing_spaces, _differing_spaces)
def batch_differing_spaces(spaces: _PySequence[Space[Any]]) -> Space[Any]:
    """Batch spaces of one kind, each with its own bounds.

    Args:
        spaces: One space an environment: the same class, and where it has them the same
            dtype, shape and keys.

    Returns:
        The batched space.

    Raises:
        TypeError: The classes differ, or have no registered handler.
        ValueError: The list is empty, or dtypes, shapes or keys differ.

    Example:
        >>> from gymnasium.spaces import Discrete
        >>> batch_differing_spaces([Discrete(3), Discrete(5), Discrete(4), Discrete(8)])
        MultiDiscrete([3 5 4 8])
    """
    return batch_differing_spaces.dispatch(spaces.__class__)(spaces)


def _check_equal(text: str, values: list[Any]) -> None:
    if not all(value == values[0] for value in values):
        raise ValueError(f"{text}, actually {values}")


@handles(batch_differing_spaces, Box)
def _batch_differing_spaces_box(spaces: _PySequence[Box]) -> Box:
    _check_equal("Expected all dtypes to be equal", [space.dtype for space in spaces])
    _check_equal("Expected all Box.low shape to be equal", [space.low.shape for space in spaces])
    _check_equal("Expected all Box.high shape to be equal", [space.high.shape for space in spaces])
    return Box(
        low=np.array([space.low for space in spaces]),
        high=np.array([space.high for space in spaces]),
        dtype=spaces[0].dtype,
        seed=deepcopy(spaces[0].np_random),
    )


@handles(batch_differing_spaces, Discrete)
def _batch_differing_spaces_discrete(spaces: _PySequence[Discrete]) -> MultiDiscrete:
    return MultiDiscrete(
        nvec=np.array([space.n for space in spaces]),
        dtype=max((space.dtype for space in spaces), key=lambda dtype: np.dtype(dtype).itemsize),
        start=np.array([space.start for space in spaces]),
        seed=deepcopy(spaces[0].np_random),
    )


@handles(batch_differing_spaces, MultiDiscrete)
def _batch_differing_spaces_multi_discrete(spaces: _PySequence[MultiDiscrete]) -> Box:
    _check_equal("Expected all dtypes to be equal", [space.dtype for space in spaces])
    _check_equal("Expects all MultiDiscrete.nvec shape", [space.nvec.shape for space in spaces])
    _check_equal("Expects all MultiDiscrete.start shape", [space.start.shape for space in spaces])
    return Box(
        low=np.array([space.start for space in spaces]),
        high=np.array([space.start + space.nvec for space in spaces]) - 1,
        dtype=spaces[0].dtype,
        seed=deepcopy(spaces[0].np_random),
    )


@handles(batch_differing_spaces, MultiBinary)
def _batch_differing_spaces_multi_binary(spaces: _PySequence[MultiBinary]) -> Box:
    _check_equal("Expected all MultiBinary shapes to be equal", [space.shape for space in spaces])
    return Box(
        low=0,
        high=1,
        shape=(len(spaces), *spaces[0].shape),
        dtype=spaces[0].dtype,
        seed=deepcopy(spaces[0].np_random),
    )


@handles(batch_differing_spaces, Tuple)
def _batch_differing_spaces_tuple(spaces: _PySequence[Tuple[Any]]) -> Tuple[Any]:
    return Tuple(
        tuple(
            batch_differing_spaces(subspaces)
            for subspaces in zip(*[space.spaces for space in spaces], strict=True)
        ),
        seed=deepcopy(spaces[0].np_random),
    )


@handles(batch_differing_spaces, Dict)
def _batch_differing_spaces_dict(spaces: _PySequence[Dict[Any]]) -> Dict[Any]:
    if not all(spaces[0].keys() == space.keys() for space in spaces):
        raise ValueError(
            "Expected all Dict spaces to have the same keys, actually "
            f"{[list(space.keys()) for space in spaces]}"
        )
    return Dict(
        {key: batch_differing_spaces([space[key] for space in spaces]) for key in spaces[0].keys()},
        seed=deepcopy(spaces[0].np_random),
        **_key_order(spaces[0]),
    )


@handles(batch_differing_spaces, Graph, Text, Sequence, OneOf)
def _batch_differing_spaces_custom(spaces: _PySequence[Space[Any]]) -> Tuple[Any]:
    return Tuple([deepcopy(space) for space in spaces], seed=deepcopy(spaces[0].np_random))
