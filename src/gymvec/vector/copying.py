"""Copies that make a value the receiver's own, at every depth."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

_IMMUTABLE = frozenset(
    {str, int, float, bool, bytes, complex, type(None)}
    | {np.dtype(code).type for code in "?bhilqBHILQefdgFDG"}
)


def copy_value(value: Any, copy_other: Callable[[Any], Any] = deepcopy) -> Any:
    """``copy.deepcopy`` for observations: the same result in a fraction of the time.

    Unlike there, an array that occurs twice becomes two arrays.

    Args:
        value: What to copy.
        copy_other: Copies what is no number, text, array, dict, tuple or list.
    """
    kind = type(value)
    if kind in _IMMUTABLE:
        return value
    if kind is np.ndarray and not value.dtype.hasobject:
        return value.copy(order="K")
    if kind is tuple:
        return tuple([copy_value(part, copy_other) for part in value])
    if kind is dict:
        return {key: copy_value(part, copy_other) for key, part in value.items()}
    if kind is list:
        return [copy_value(part, copy_other) for part in value]
    return copy_other(value)


def keep_terminal(value: Any) -> Any:
    """A copy of a terminal observation or info, which the environment's reset may change.

    Parts that cannot be copied are handed on as they are.
    """
    try:
        return copy_value(value, _copy_or_same)
    except RecursionError:
        # It contains itself.
        return value


def _copy_or_same(value: Any) -> Any:
    try:
        return deepcopy(value)
    except Exception:
        # A class may refuse by any exception, and Gymnasium hands its objects on.
        return value


def own_action(action: Any) -> Any:
    """An action that an environment may keep: its arrays share no memory with the caller's.

    Arrays become C-contiguous and native; what is neither an array nor a container of
    arrays is handed on as it is.
    """
    kind = type(action)
    if kind in _IMMUTABLE:
        return action
    if isinstance(action, np.ndarray):
        return own_array(action)
    if kind is tuple:
        return tuple([own_action(part) for part in action])
    if kind is dict:
        return {key: own_action(part) for key, part in action.items()}
    if kind is list:
        return [own_action(part) for part in action]
    return action


def own_array(array: np.ndarray) -> np.ndarray:
    """A C-contiguous copy in native byte order."""
    copied: np.ndarray
    if array.dtype.isnative:
        copied = array.copy(order="C")
    else:
        copied = array.astype(array.dtype.newbyteorder("="), order="C")
    return copied
