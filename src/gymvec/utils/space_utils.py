"""Batching spaces and their samples: the twin of ``gymnasium.vector.utils.space_utils``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, TypeVar

import numpy as np
from gymnasium.error import CustomSpaceError
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    GraphInstance,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Text,
    Tuple,
)
from gymnasium.vector.utils import space_utils as _original

from gymvec.kernels.trees import KeyedItems, gather_key
from gymvec.utils import _array_spaces
from gymvec.utils.batched_spaces import batch_differing_spaces, batch_space
from gymvec.utils.dispatch import handles, no_handler, no_space, twin

__all__ = [
    "batch_space",
    "batch_differing_spaces",
    "iterate",
    "concatenate",
    "create_empty_array",
]

_T = TypeVar("_T")


@twin(_original.iterate, no_handler("iterate"))
def iterate(space: Space[_T], items: _T) -> Iterator[Any]:
    """Iterate over the environments of a batched sample.

    Lazy: nothing is read before it is asked for. Array rows are what NumPy's iteration
    yields: views, or scalars for a one-dimensional batch.

    Args:
        space: Batched space.
        items: Batched sample of it.

    Returns:
        Iterator over one item an environment.

    Raises:
        CustomSpaceError: No handler is registered for the space's class.
        TypeError: ``space`` is not a :class:`gymnasium.Space`, or cannot be iterated over.
        ValueError: While iterating, the parts turn out to be of unequal length.

    Example:
        >>> from gymnasium.spaces import Box, Dict
        >>> import numpy as np
        >>> space = Dict({"position": Box(0, 1, (2, 1)), "on": Box(0, 1, (2,), np.int8)})
        >>> items = {"position": np.array([[0.5], [1.0]]), "on": np.array([0, 1], np.int8)}
        >>> it = iterate(space, items)
        >>> next(it)
        {'on': np.int8(0), 'position': array([0.5])}
        >>> next(it)
        {'on': np.int8(1), 'position': array([1.])}
        >>> next(it)
        Traceback (most recent call last):
            ...
        StopIteration
    """
    return iterate.dispatch(space.__class__)(space, items)


@handles(iterate, Discrete)
def _iterate_discrete(space: Discrete, items: Any) -> NoReturn:
    raise TypeError("Unable to iterate over a space of type `Discrete`.")


@handles(iterate, Box, MultiDiscrete, MultiBinary)
def _iterate_array(space: Box | MultiDiscrete | MultiBinary, items: Any) -> Iterator[Any]:
    try:
        return iter(items)
    except TypeError as error:
        raise TypeError(f"Unable to iterate over the following elements: {items}") from error


@handles(iterate, Tuple)
def _iterate_tuple(space: Tuple[Any], items: Any) -> Iterator[Any]:
    unregistered = [
        type(subspace) for subspace in space.spaces if not iterate.router.has(type(subspace))
    ]
    if not unregistered:
        return zip(
            *[iterate(subspace, items[i]) for i, subspace in enumerate(space.spaces)], strict=True
        )
    # A batch of custom spaces is a Tuple of samples: one an environment.
    try:
        return iter(items)
    except Exception as error:
        raise CustomSpaceError(
            f"Could not iterate through {space} as no custom iterate function is registered for "
            f"{unregistered} and `iter(items)` raised the following error: {error}."
        ) from error


@handles(iterate, Dict)
def _iterate_dict(space: Dict, items: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    return KeyedItems(
        lambda: {key: iterate(subspace, items[key]) for key, subspace in space.spaces.items()}
    )


@twin(_original.concatenate, no_space("concatenate"))
def concatenate(
    space: Space[Any], items: Iterable[Any], out: tuple[Any, ...] | Mapping[str, Any] | np.ndarray
) -> tuple[Any, ...] | dict[str, Any] | np.ndarray:
    """Put one sample of each environment into a batch.

    Array leaves follow ``np.stack(list(items), axis=0, out=out)``, casting rules included; an
    error leaves each array leaf as it was before or whole as it is after.

    Args:
        space: Space of each item, a single environment's.
        items: ``n`` samples, any iterable.
        out: What ``create_empty_array(space, n)`` makes. Its array leaves are written to.

    Returns:
        The batch. Its array leaves are those of ``out``; a Dict becomes a new dict in the
        space's order of keys; Graph, Text, Sequence, OneOf and custom spaces give a tuple of
        the items.

    Raises:
        TypeError: ``space`` is not a :class:`gymnasium.Space`, or NumPy refuses a cast.
        ValueError: An item has another shape, or there are not ``n`` items.

    Example:
        >>> from gymnasium.spaces import Box
        >>> import numpy as np
        >>> items = [np.array([1, 2], np.float32), np.array([3, 4], np.float32)]
        >>> concatenate(Box(0, 9, (2,)), items, np.zeros((2, 2), dtype=np.float32))
        array([[1., 2.],
               [3., 4.]], dtype=float32)
    """
    return concatenate.dispatch(space.__class__)(space, items, out)


handles(concatenate, Box, Discrete, MultiDiscrete, MultiBinary)(_array_spaces.concatenate)


@handles(concatenate, Tuple)
def _concatenate_tuple(space: Tuple[Any], items: Iterable[Any], out: Any) -> tuple[Any, ...]:
    items = list(items)
    return tuple(
        [
            concatenate(subspace, gather_key(items, i), out[i])
            for i, subspace in enumerate(space.spaces)
        ]
    )


@handles(concatenate, Dict)
def _concatenate_dict(space: Dict, items: Iterable[Any], out: Any) -> dict[str, Any]:
    items = list(items)
    return {
        key: concatenate(subspace, gather_key(items, key), out[key])
        for key, subspace in space.spaces.items()
    }


@handles(concatenate, Graph, Text, Sequence, OneOf, Space)
def _concatenate_custom(space: Space[Any], items: Iterable[_T], out: Any) -> tuple[_T, ...]:
    return tuple(items)


@twin(_original.create_empty_array, no_space("create_empty_array"))
def create_empty_array(
    space: Space[Any], n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> tuple[Any, ...] | dict[str, Any] | np.ndarray | None:
    """Make an empty batch for :func:`concatenate` to fill.

    It need not lie in the batched space, as for a Box whose ``low`` is above 0.

    Args:
        space: Space of a single environment.
        n: Number of environments. ``None`` makes one empty sample without a batch dimension.
        fn: Makes an array from a shape and a ``dtype``, such as ``np.zeros`` or ``np.empty``.

    Returns:
        The batch, owned by the caller; None for custom spaces.

    Raises:
        TypeError: ``space`` is not a :class:`gymnasium.Space`.

    Example:
        >>> from gymnasium.spaces import Box, Dict, Discrete
        >>> space = Dict({"position": Box(0, 1, (3,)), "level": Discrete(4)})
        >>> create_empty_array(space, n=2)
        {'level': array([0, 0]), 'position': array([[0., 0., 0.],
               [0., 0., 0.]], dtype=float32)}
        >>> create_empty_array(space, n=None)
        {'level': np.int64(0), 'position': array([0., 0., 0.], dtype=float32)}
    """
    return create_empty_array.dispatch(space.__class__)(space, n=n, fn=fn)


@handles(create_empty_array, Box, MultiDiscrete, MultiBinary)
def _create_empty_array_array(
    space: Box | MultiDiscrete | MultiBinary, n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> np.ndarray:
    shape = space.shape if n is None else (n, *space.shape)
    array: np.ndarray = fn(shape, dtype=space.dtype)
    return array


@handles(create_empty_array, Discrete)
def _create_empty_array_discrete(
    space: Discrete, n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> Any:
    # A sample of Discrete is a NumPy scalar.
    return fn((), dtype=space.dtype)[()] if n is None else fn((n,), dtype=space.dtype)


@handles(create_empty_array, Tuple)
def _create_empty_array_tuple(
    space: Tuple[Any], n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> tuple[Any, ...]:
    return tuple(create_empty_array(subspace, n=n, fn=fn) for subspace in space.spaces)


@handles(create_empty_array, Dict)
def _create_empty_array_dict(
    space: Dict, n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> dict[str, Any]:
    return {key: create_empty_array(subspace, n=n, fn=fn) for key, subspace in space.spaces.items()}


@handles(create_empty_array, Graph)
def _create_empty_array_graph(
    space: Graph, n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> Any:
    if n is not None:
        return tuple(_create_empty_array_graph(space, None, fn) for _ in range(n))
    nodes: Any = create_empty_array(space.node_space, n=1, fn=fn)
    if space.edge_space is None:
        return GraphInstance(nodes, None, None)
    edges: Any = create_empty_array(space.edge_space, n=1, fn=fn)
    return GraphInstance(nodes, edges, fn((1, 2), dtype=np.int64))


@handles(create_empty_array, Text)
def _create_empty_array_text(
    space: Text, n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> Any:
    text = space.characters[0] * space.min_length
    return text if n is None else (text,) * n


@handles(create_empty_array, Sequence)
def _create_empty_array_sequence(
    space: Sequence, n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> Any:
    if n is not None:
        return tuple(_create_empty_array_sequence(space, None, fn) for _ in range(n))
    return create_empty_array(space.feature_space, n=1, fn=fn) if space.stack else ()


@handles(create_empty_array, OneOf)
def _create_empty_array_oneof(
    space: OneOf[Any], n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> tuple[Any, ...]:
    if n is None:
        return np.int64(0), create_empty_array(space.spaces[0], n=None, fn=fn)
    return ((),) * n


@handles(create_empty_array, Space)
def _create_empty_array_custom(
    space: Space[Any], n: int | None = 1, fn: Callable[..., Any] = np.zeros
) -> None:
    return None
