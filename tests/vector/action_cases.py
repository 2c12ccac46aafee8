"""Actions of every kind, and what an environment should have got of them."""

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from scripted import BOX

rows = np.arange(12, dtype=np.float32).reshape(3, 4)
nested = Dict({"a": Discrete(3), "b": Tuple([Box(-1, 1, (2,)), MultiDiscrete([2, 2])])})

# Space of a single action, and the batch for three environments.
ACTIONS = [
    (BOX, rows[:, :2].copy()),
    (BOX, rows[:, :2]),
    (BOX, rows[:, ::-2]),
    (BOX, np.asfortranarray(rows[:, :2])),
    (BOX, rows[:, :2].astype(np.float64) / 3),
    (BOX, rows[:, :2].astype(np.longdouble) / 3),
    (BOX, rows[:, :2].astype(np.float16)),
    (BOX, rows[:, :2].astype(">f8")),
    (BOX, rows[:, :2].astype(np.int8)),
    (BOX, rows[:, :2] > 3),
    (BOX, rows[:, :2] * 1j),
    (BOX, rows[:, :2].tolist()),
    (BOX, list(rows[:, :2])),
    (BOX, tuple(rows[:, ::2])),
    (BOX, np.array([["a", 1], [None, 2], [3, [4]]], dtype=object)),
    (BOX, rows[0, :3]),
    (Box(-1, 1, (0,)), np.zeros((3, 0), np.float32)),
    (Box(-1, 1, ()), np.array([1, 2, 3], np.float32)),
    (Box(-1, 1, (2, 2)), rows.reshape(3, 2, 2).transpose(0, 2, 1)),
    (Discrete(3), np.array([0, 1, 2])),
    (Discrete(3), np.array([0, 1, 2], ">i4")),
    (Discrete(3), np.array([0, 1, 2], np.uint8)[::-1]),
    (Discrete(3), np.array([0, 1, 2], np.uint64)),
    (Discrete(3), [0, 1, np.int8(2)]),
    (Discrete(3), [0, 1.5, 2]),
    (Discrete(3), [True, False, True]),
    (Discrete(3), [0, 2**70, -1]),
    (Discrete(3), (0, 1, 2)),
    (Discrete(3), range(3)),
    (Discrete(3), np.array([[0], [1], [2]])),
    (MultiBinary(2), np.array([[0, 1], [1, 1], [0, 0]], np.int8)),
    (Text(5), ("a", "bc", "d")),
    (nested, {"a": [0, 1, 2], "b": (rows[:, ::2], np.asfortranarray(rows[:, :2]))}),
    (nested, {"a": np.arange(3), "b": [list(rows), rows[:, :2].astype(">i2")]}),
    (Dict({"a": Discrete(3), "t": Text(3)}), {"a": np.arange(3), "t": ("x", "y", "z")}),
]


def contiguous(value):
    """The value with its arrays C-contiguous and native."""
    if isinstance(value, np.ndarray):
        return np.array(value, value.dtype.newbyteorder("="), order="C")
    if isinstance(value, dict):
        return {key: contiguous(part) for key, part in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(contiguous(part) for part in value)
    return value


def arrays(value):
    """All arrays in the value."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [a for part in value for a in arrays(part)] if isinstance(value, (tuple, list)) else []
