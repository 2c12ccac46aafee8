"""What callers of the constructors ask for, checked before a process is started."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import Env, Space
from gymnasium.vector.vector_env import AutoresetMode

from gymvec.vector.spaces import batched_observation_space

__all__ = ["autoreset_mode_of", "check_options", "positive", "single_spaces"]

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
