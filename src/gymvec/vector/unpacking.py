"""Unpacking by Python, whose texts users search for; Cython's are its own."""

from __future__ import annotations

from typing import Any

__all__ = ["five_values", "two_values"]


def two_values(returned: Any) -> tuple[Any, Any]:
    """What a reset returned, as a tuple of two."""
    observation, info = returned
    return observation, info


def five_values(returned: Any) -> tuple[Any, Any, Any, Any, Any]:
    """What a step returned, as a tuple of five."""
    observation, reward, terminated, truncated, info = returned
    return observation, reward, terminated, truncated, info
