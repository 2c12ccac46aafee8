"""The type of what a step returns."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from gymnasium.core import ObsType

__all__ = ["StepReturn"]

# Observations, rewards, terminations, truncations and infos.
StepReturn: TypeAlias = tuple[
    ObsType,
    npt.NDArray[np.float64],
    npt.NDArray[np.bool_],
    npt.NDArray[np.bool_],
    dict[str, Any],
]
