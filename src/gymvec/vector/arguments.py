"""What callers pass, checked before anything is done, and the type of what a step returns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium import Env, Space
from gymnasium.core import ObsType
from gymnasium.vector.vector_env import AutoresetMode

from gymvec.vector.spaces import batched_observation_space

__all__ = [
    "StepReturn",
    "autoreset_mode_of",
    "check_none_missing",
    "check_options",
    "checked_env_ids",
    "one_value_each",
    "positive",
    "reset_mask",
    "reset_seeds",
    "single_spaces",
]

# Observations, rewards, terminations, truncations and infos.
StepReturn: TypeAlias = tuple[
    ObsType,
    npt.NDArray[np.float64],
    npt.NDArray[np.bool_],
    npt.NDArray[np.bool_],
    dict[str, Any],
]

_WAIT_MODES = ("auto", "spin", "block")
_ON_DEATH = ("raise", "restart")


def check_options(
    env_fns: Sequence[Callable[[], Env]],
    worker: Any,
    wait: str,
    cpu_affinity: Sequence[int] | None,
    on_worker_death: str,
    step_timeout: float | None,
) -> None:
    """Check arguments of :class:`gymvec.AsyncVectorEnv` that need no environment for it.

    Raises:
        ValueError: One has a value that it cannot have.
    """
    if worker is not None:
        raise ValueError(
            "gymvec.AsyncVectorEnv has its own worker. For a `worker` of your own use "
            "gymnasium.vector.AsyncVectorEnv"
        )
    if len(env_fns) == 0:
        raise ValueError("expected at least one function in `env_fns`, got none")
    if wait not in _WAIT_MODES:
        raise ValueError(f"expected `wait` to be one of {_WAIT_MODES}, got {wait!r}")
    if cpu_affinity is not None and len(cpu_affinity) == 0:
        raise ValueError("expected at least one core in `cpu_affinity`, or None")
    if on_worker_death not in _ON_DEATH:
        raise ValueError(
            f"expected `on_worker_death` to be one of {_ON_DEATH}, got {on_worker_death!r}"
        )
    if step_timeout is not None and not step_timeout > 0:
        raise ValueError(
            f"expected `step_timeout` to be a positive number of seconds or None, got "
            f"{step_timeout!r}"
        )
    if cpu_affinity is not None and not hasattr(os, "sched_setaffinity"):
        raise ValueError("`cpu_affinity` needs Linux; leave it None on this system")


def autoreset_mode_of(value: str | AutoresetMode) -> AutoresetMode:
    """An autoreset mode from itself or its value.

    Raises:
        ValueError: There is no such mode; the message names those that there are.
    """
    try:
        return AutoresetMode(value)
    except ValueError as unknown:
        modes = ", ".join(repr(mode.value) for mode in AutoresetMode)
        raise ValueError(f"{unknown}; expected one of {modes}") from None


def positive(value: int | None, name: str) -> int | None:
    """A number of something, as a Python int, or None.

    Raises:
        ValueError: It is no integer, or none above 0; the message names the argument.
    """
    if value is None:
        return None
    if not isinstance(value, (int, np.integer)) or isinstance(value, bool):
        raise ValueError(f"`{name}` must be an integer or None, got {type(value)}.")
    if value < 1:
        raise ValueError(f"`{name}` must be a positive or None, got {value}.")
    return int(value)


def single_spaces(
    env_fns: Sequence[Callable[[], Env]],
    observation_mode: str | tuple[Space[Any], Space[Any]],
    observation_space: Space[Any] | None,
    action_space: Space[Any] | None,
) -> tuple[Space[Any], Space[Any]]:
    """The observation space and the action space of one environment.

    It is built in this process if they are not given.

    Raises:
        ValueError: ``observation_mode`` is none.
        TypeError: An element of the ``observation_mode`` tuple is no space.
    """
    if observation_space is None or action_space is None:
        env = env_fns[0]()
        try:
            if observation_space is None:
                observation_space = env.observation_space
            if action_space is None:
                action_space = env.action_space
        finally:
            env.close()
    if observation_mode not in ("same", "different"):
        _, observation_space = batched_observation_space(observation_mode, [])
    return observation_space, action_space


def reset_seeds(seed: Any, num_envs: int) -> list[int | None]:
    """One seed an environment.

    Args:
        seed: None, an integer of any type, or one integer or None for each environment.
        num_envs: Number of environments.

    Returns:
        Python integers and None; what is neither is left for the environment to refuse.

    Raises:
        ValueError: There are not ``num_envs`` seeds.
    """
    if seed is None:
        return [None] * num_envs
    if _is_integer(seed):
        first = int(seed)
        return [first + i for i in range(num_envs)]
    if len(seed) != num_envs:
        raise ValueError(
            f"If seeds are passed as a list the length must match num_envs={num_envs} "
            f"but got length={len(seed)}."
        )
    return [int(one) if _is_integer(one) else one for one in seed]


def _is_integer(value: Any) -> bool:
    return hasattr(value, "__index__") and not hasattr(value, "__len__")


def check_none_missing(envs: list[int]) -> None:
    """Check that a mask leaves out no environment without an observation.

    Raises:
        ValueError: It leaves out these.
    """
    if envs:
        raise ValueError(
            f"`options['reset_mask']` leaves out environments that were never reset: {envs}"
        )


def one_value_each(values: Any, num_envs: int) -> list[Any] | tuple[Any, ...]:
    """What ``set_attr`` gives to each environment.

    Args:
        values: A list or tuple with one value an environment, or one value for all.
        num_envs: Number of environments.

    Raises:
        ValueError: The length of the list or tuple is not ``num_envs``.
    """
    if not isinstance(values, (list, tuple)):
        return [values] * num_envs
    if len(values) != num_envs:
        raise ValueError(
            "Values must be a list or tuple with length equal to the number of environments. "
            f"Got `{len(values)}` values for {num_envs} environments."
        )
    return values


def checked_env_ids(env_ids: Any, num_envs: int) -> np.ndarray:
    """The environments that a caller names, as a new int64 array.

    Args:
        env_ids: One-dimensional array of any integer type, or a sequence of integers.
        num_envs: Number of environments.

    Raises:
        TypeError: They are no integers.
        ValueError: There is none, one is unknown, or one is named twice.
    """
    given = np.asarray(env_ids)
    if given.ndim != 1:
        raise ValueError(f"expected `env_ids` of one dimension, got shape {given.shape}")
    if given.size == 0:
        raise ValueError("expected at least one environment in `env_ids`, got none")
    if given.dtype.kind not in "iu":
        raise TypeError(f"expected integers in `env_ids`, got {given.dtype}")
    outside = (given < 0) | (given >= num_envs)
    if outside.any():
        raise ValueError(
            f"expected `env_ids` from 0 to {num_envs - 1}, got {given[outside].tolist()}"
        )
    envs = given.astype(np.int64)
    counts = np.bincount(envs)
    if len(envs) > 1 and counts.max() > 1:
        raise ValueError(
            f"`env_ids` names environments twice: {np.flatnonzero(counts > 1).tolist()}"
        )
    return envs


def reset_mask(
    options: dict[str, Any] | None, num_envs: int
) -> tuple[np.ndarray | None, dict[str, Any] | None]:
    """The mask in the options of a reset, and the options without it.

    Args:
        options: The caller's options, which stay as they are.
        num_envs: Number of environments.

    Returns:
        The mask, a bool array of shape ``(num_envs,)``, or None; what is for the environments.

    Raises:
        TypeError: The mask is no array of bool.
        ValueError: The mask has another shape, or selects no environment.
    """
    if options is None or "reset_mask" not in options:
        return None, options
    # Of the caller's own class, as the environments get it without a mask.
    options = copy(options)
    mask = options.pop("reset_mask")
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"`options['reset_mask']` must be a numpy array, got {type(mask)}")
    if mask.shape != (num_envs,):
        raise ValueError(
            f"`options['reset_mask']` must have shape `({num_envs},)`, got {mask.shape}"
        )
    if mask.dtype != np.bool_:
        raise TypeError(f"`options['reset_mask']` must have `dtype=np.bool_`, got {mask.dtype}")
    if not np.any(mask):
        raise ValueError(
            "`options['reset_mask']` must contain a boolean array with at least one True value, "
            f"got reset_mask={mask}"
        )
    return mask, options
