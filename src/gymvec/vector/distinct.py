"""Sub-environments of one process that are one object, which would be stepped several times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["check_distinct"]


def check_distinct(envs: Sequence[Any], first: int = 0) -> None:
    """Check that no two environments of a process are one object below their wrappers.

    Args:
        envs: The environments.
        first: Number of the first one in the vector environment.

    Raises:
        ValueError: Some are; the message names them.
    """
    # What is compared is kept, so that no two have one address in turn.
    bases = [_base_of(env) for env in envs]
    same: dict[int, list[int]] = {}
    for i, base in enumerate(bases):
        same.setdefault(id(base), []).append(first + i)
    for numbers in same.values():
        if len(numbers) > 1:
            name = type(bases[numbers[0] - first]).__name__
            raise ValueError(
                f"environments {numbers} are one {name} object, which one step of the vector "
                f"environment would step {len(numbers)} times. Let each function in `env_fns` "
                "make an environment of its own: `[lambda: Env()] * n` does, `[lambda: env] * n` "
                "does not. With processes of their own (`gymvec.AsyncVectorEnv` with "
                "`num_workers=num_envs`) each gets a copy"
            )


def _base_of(env: Any) -> Any:
    base = getattr(env, "unwrapped", None)
    return env if base is None else base
