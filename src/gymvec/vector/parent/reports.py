"""What workers say of their environments at the start."""

from __future__ import annotations

from typing import Any

from gymnasium import Space

from gymvec.utils import batch_differing_spaces
from gymvec.vector.spaces import HasObservationMode
from gymvec.vector.transport.exceptions import unpack_error
from gymvec.vector.transport.messages import MessageKind

__all__ = ["check_reports"]


def check_reports(
    vector_env: HasObservationMode, reports: list[tuple[int, MessageKind, Any]]
) -> list[Space[Any]]:
    """Check what the workers say about their environments.

    Args:
        vector_env: The vector environment.
        reports: For each environment its index, the kind, and the description or the
            error of building it.

    Returns:
        The observation space of each sub-environment.

    Raises:
        RuntimeError: The spaces do not go together.
        TypeError, ValueError: With ``observation_mode="different"``, what batching them raises.
        BaseException: What the construction of an environment raised.
    """
    failed = {env: content for env, kind, content in reports if kind is MessageKind.ERROR}
    if failed:
        envs = sorted(failed)
        raise unpack_error(failed[envs[0]], envs)
    name = type(vector_env).__name__
    descriptions = [content for _, _, content in reports]
    spaces = [
        vector_env.single_observation_space
        if description["observation_space"] is None
        else description["observation_space"]
        for description in descriptions
    ]
    if not all(description["same_observation_space"] for description in descriptions):
        if vector_env.observation_mode == "same":
            raise RuntimeError(
                f"{name}(..., observation_mode='same') however some of the sub-environments "
                "observation spaces are not equivalent. If this is intentional, use "
                "`observation_mode='different'` instead."
            )
        if vector_env.observation_mode == "different":
            # Gymnasium makes their batch before it compares them.
            batch_differing_spaces(spaces)
        raise RuntimeError(
            f"{name}(..., observation_mode='different' or custom space) however the "
            "sub-environment's observation spaces do not share a common shape and dtype."
        )
    if not all(description["same_action_space"] for description in descriptions):
        raise RuntimeError(
            "Some environments have an action space different from "
            f"`{vector_env.single_action_space}`. In order to batch actions, the action spaces "
            "from all environments must be equal."
        )
    return spaces
