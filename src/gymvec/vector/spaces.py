"""The spaces of a vector environment, from those of its sub-environments."""

from __future__ import annotations

from typing import Any, Protocol

from gymnasium import Env, Space
from gymnasium.spaces.utils import is_space_dtype_shape_equiv

from gymvec.utils import batch_differing_spaces, batch_space
from gymvec.vector.space_tree import subspaces


def batched_observation_space(
    observation_mode: str | tuple[Space[Any], Space[Any]], spaces: list[Space[Any]]
) -> tuple[Space[Any], Space[Any]]:
    """The batched and the single observation space.

    Args:
        observation_mode: ``"same"``, ``"different"``, or both spaces.
        spaces: Observation space of each sub-environment.

    Raises:
        TypeError: An element of the tuple is no space.
        ValueError: ``observation_mode`` is none of these.
    """
    if isinstance(observation_mode, tuple) and len(observation_mode) == 2:
        if not all(isinstance(space, Space) for space in observation_mode):
            raise TypeError(
                "Expected both elements of observation_mode to be Spaces, got "
                f"{type(observation_mode[0])} and {type(observation_mode[1])}"
            )
        return observation_mode
    if observation_mode == "same":
        return batch_space(spaces[0], len(spaces)), spaces[0]
    if observation_mode == "different":
        return batch_differing_spaces(spaces), spaces[0]
    raise ValueError(
        "Invalid `observation_mode`, expected: 'same' or 'different' or tuple of single and "
        f"batch observation space, actual got {observation_mode}"
    )


def goes_with(space: Space[Any], single: Space[Any]) -> bool:
    """Whether two spaces have the same dtypes and shapes throughout.

    Below Gymnasium 1.3 its function takes no notice of a Tuple that is longer, or fails.
    """
    return _same_parts(space, single) and is_space_dtype_shape_equiv(space, single)


def _same_parts(one: Space[Any], other: Space[Any]) -> bool:
    parts, others = subspaces(one), subspaces(other)
    if parts is None or others is None:
        return True
    found = dict(others)
    return dict(parts).keys() == found.keys() and all(
        _same_parts(part, found[key]) for key, part in parts
    )


class HasObservationMode(Protocol):
    """What the checks need to know of a vector environment."""

    single_observation_space: Space[Any]
    single_action_space: Space[Any]
    observation_mode: str | tuple[Space[Any], Space[Any]]


def check_spaces(vector_env: HasObservationMode, envs: list[Env]) -> None:
    """Check the spaces of the sub-environments against the vector environment's.

    Raises:
        RuntimeError: They do not go together.
    """
    name = type(vector_env).__name__
    single = vector_env.single_observation_space
    for env in envs:
        if vector_env.observation_mode == "same":
            if env.observation_space != single:
                raise RuntimeError(
                    f"{name}(..., observation_mode='same') however the sub-environments "
                    "observation spaces are not equivalent. "
                    f"single_observation_space={single}, sub-environment "
                    f"observation_space={env.observation_space}. If this is intentional, use "
                    "`observation_mode='different'` instead."
                )
        elif not goes_with(env.observation_space, single):
            raise RuntimeError(
                f"{name}(..., observation_mode='different' or custom space) however the "
                "sub-environments observation spaces do not share a common shape and dtype, "
                f"single_observation_space={single}, sub-environment observation "
                f"space={env.observation_space}"
            )
        if env.action_space != vector_env.single_action_space:
            raise RuntimeError(
                "Sub-environment action space doesn't make the `single_action_space`, "
                f"action_space={env.action_space}, "
                f"single_action_space={vector_env.single_action_space}"
            )
