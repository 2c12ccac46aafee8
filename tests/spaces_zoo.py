"""Spaces of every kind, by name: the plain ones and the awkward ones."""

from collections import OrderedDict
from copy import deepcopy
from functools import cache

import numpy as np
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Space,
    Text,
    Tuple,
)

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64", "longdouble")
ASTRAL = "aé€😀𝒳"

# What later Gymnasiums than the oldest have is looked up.
DISCRETE_HAS_DTYPE = "dtype" in Discrete.__init__.__code__.co_varnames


class CustomSpace(Space):
    """A space that no handler is registered for."""

    def __init__(self, seed=None):
        super().__init__(None, None, seed)

    def sample(self, mask=None, probability=None):
        return f"custom-{int(self.np_random.integers(1000))}"

    def contains(self, x):
        return isinstance(x, str)

    def __eq__(self, other):
        return isinstance(other, CustomSpace)


class CustomBox(Box):
    """A subclass of a built-in space."""


class CustomDiscrete(Discrete):
    """A subclass of a built-in space."""


class CustomTuple(Tuple):
    """A subclass of a built-in space."""


class CustomDict(Dict):
    """A subclass of a built-in space."""


class CustomText(Text):
    """A subclass of a built-in space."""


def discrete(n, dtype, **others):
    """A Discrete of a dtype, or of int64 where Gymnasium's has no other."""
    return Discrete(n, **others, **({"dtype": dtype} if DISCRETE_HAS_DTYPE else {}))


def _limits(dtype):
    if np.dtype(dtype).kind == "f":
        return lambda: Box(-np.inf, np.inf, (2, 2), dtype)
    # The highest number of the 64-bit types is not accepted as a bound.
    low, high = np.iinfo(dtype).min, min(np.iinfo(dtype).max, 2**63 - 2)
    return lambda: Box(low, high, (3,), dtype)


def _f32(*shape):
    return Box(-1, 1, shape, np.float32)


def _dict(**spaces):
    return Dict(spaces)


ARRAYS = {
    **{f"box {dtype}": _limits(dtype) for dtype in (*INTEGERS, *FLOATS)},
    "box bool": lambda: Box(0, 1, (4,), np.bool_),
    "box >f4": lambda: Box(-1, 1, (3,), ">f4"),
    "box <f4": lambda: Box(-1, 1, (3,), "<f4"),
    "box >f8": lambda: Box(-1, 1, (2, 2), ">f8"),
    "box >f2": lambda: Box(-1, 1, (2,), ">f2"),
    "box >i4": lambda: Box(-9, 9, (3,), ">i4"),
    "box >u2": lambda: Box(0, 9, (), ">u2"),
    "box scalar": lambda: Box(-1, 1, (), np.float32),
    "box scalar float64": lambda: Box(-1, 1, (), np.float64),
    "box scalar uint8": lambda: Box(0, 255, (), np.uint8),
    "box scalar bool": lambda: Box(0, 1, (), np.bool_),
    "box one": lambda: _f32(1),
    "box empty": lambda: _f32(0),
    "box empty inside": lambda: Box(0, 9, (3, 0, 2), np.int16),
    "box image": lambda: Box(0, 255, (21, 17, 3), np.uint8),
    "box long": lambda: Box(-1, 1, (300,), np.float32),
    "box deep": lambda: Box(0, 9, (1, 2) + (1,) * 26, np.int32),
    "box lower bound": lambda: Box(0, np.inf, (3,), np.float32),
    "box upper bound": lambda: Box(-np.inf, 0, (3,), np.float64),
    "box mixed bounds": lambda: Box(
        np.array([-np.inf, -0.0, 1]), np.array([0.0, np.inf, 2]), dtype=np.float64
    ),
    "box above zero": lambda: Box(5, 6, (2,), np.int64),
    "box half open int": lambda: Box(-np.inf, np.inf, (2,), np.int32),
    "discrete": lambda: Discrete(5),
    "discrete one": lambda: Discrete(1),
    "discrete start": lambda: Discrete(4, start=-2),
    "discrete int8": lambda: discrete(100, np.int8, start=-50),
    "discrete uint8": lambda: discrete(255, np.uint8),
    "discrete int32": lambda: discrete(7, np.int32),
    "multi discrete": lambda: MultiDiscrete([3, 4, 5]),
    "multi discrete 2d": lambda: MultiDiscrete(np.arange(1, 7).reshape(2, 3)),
    "multi discrete start": lambda: MultiDiscrete([2, 9], start=[-5, 7]),
    "multi discrete int8": lambda: MultiDiscrete([2, 100], dtype=np.int8),
    "multi discrete uint16": lambda: MultiDiscrete([9, 9], dtype=np.uint16, start=[1, 2]),
    "multi discrete one": lambda: MultiDiscrete([6]),
    "multi binary": lambda: MultiBinary(6),
    "multi binary 2d": lambda: MultiBinary([2, 3]),
}

TEXTS = {
    "text": lambda: Text(8),
    "text empty": lambda: Text(4, min_length=0),
    "text never any": lambda: Text(0, min_length=0),
    "text astral": lambda: Text(6, charset=ASTRAL),
    "text nul": lambda: Text(5, min_length=0, charset="\0ab"),
    "text set": lambda: Text(5, charset=frozenset("zyxäß")),
    "text one": lambda: Text(1, charset="x"),
    "text order": lambda: Text(5, charset="cab"),
}

# Spaces that lie in shared memory.
SHAREABLE = {
    **ARRAYS,
    **TEXTS,
    "tuple": lambda: Tuple([Discrete(3), _f32(2)]),
    "tuple empty": lambda: Tuple([]),
    "tuple one": lambda: Tuple([MultiBinary(3)]),
    "tuple nested": lambda: Tuple([Tuple([_f32()]), Tuple([Tuple([Discrete(2)]), _f32(2)])]),
    "tuple all arrays": lambda: Tuple(
        [Box(0, 1, (2,), ">f4"), discrete(3, np.int8), MultiDiscrete([2, 3]), MultiBinary(2)]
    ),
    "dict": lambda: _dict(position=_f32(3), velocity=_f32(2)),
    "dict empty": lambda: Dict({}),
    "dict sorted": lambda: _dict(b=Discrete(2), a=_f32(1)),
    "dict ordered": lambda: Dict(OrderedDict(z=Discrete(2), a=_f32(1))),
    "dict int keys": lambda: Dict({2: Discrete(2), 1: _f32(2)}),
    "dict mixed keys": lambda: Dict({"x": Discrete(2), 1: _f32(2), None: MultiBinary(2)}),
    "dict nested": lambda: _dict(a=_dict(b=_dict(c=_f32(2), d=Discrete(9))), e=Tuple([_f32()])),
    "dict text": lambda: _dict(word=Text(4, charset=ASTRAL), level=Discrete(3)),
    "dict empty inside": lambda: _dict(nothing=Dict({}), void=Tuple([]), level=Discrete(3)),
    "one of": lambda: OneOf([Discrete(3), _f32(2)]),
    "one of one": lambda: OneOf([_f32(2)]),
    "one of dict": lambda: OneOf([_dict(a=_f32(2), b=Discrete(4)), Discrete(3)]),
    "one of tuple": lambda: OneOf([Tuple([_f32(2), Discrete(4)]), Tuple([Discrete(3)])]),
    "one of text": lambda: OneOf([Text(4, charset=ASTRAL), Discrete(3)]),
    "one of one of": lambda: OneOf([OneOf([Discrete(2), _f32(2)]), Text(3)]),
    "one of deep": lambda: OneOf([_dict(a=Tuple([Text(3), _f32(2)])), Discrete(3)]),
    "tuple one of": lambda: Tuple([OneOf([Discrete(3), _f32(2)]), Discrete(2)]),
    "dict one of": lambda: _dict(a=OneOf([Discrete(3), Text(2)]), b=_f32(2)),
    "custom box": lambda: CustomBox(-1, 1, (2,), np.float32),
    "custom discrete": lambda: CustomDiscrete(5),
    "custom tuple": lambda: CustomTuple([Discrete(3), _f32(2)]),
    "custom dict": lambda: CustomDict({"b": Discrete(3), "a": _f32(2)}),
    "custom text": lambda: CustomText(5),
}

GRAPHS = {
    "graph": lambda: Graph(Box(-1, 1, (3,)), Discrete(3)),
    "graph no edges": lambda: Graph(Discrete(5), None),
    "graph box edges": lambda: Graph(Discrete(5), Box(-1, 1, (2,))),
}

SEQUENCES = {
    "sequence": lambda: Sequence(Box(-1, 1, (2,))),
    "sequence stack": lambda: Sequence(Box(-1, 1, (2,)), stack=True),
    "sequence discrete": lambda: Sequence(Discrete(4)),
    "sequence dict": lambda: Sequence(_dict(a=_f32(2), b=Discrete(3)), stack=True),
    "sequence text": lambda: Sequence(Text(3)),
}

# Spaces without a fixed size.
DYNAMIC = {
    **GRAPHS,
    **SEQUENCES,
    "tuple dynamic": lambda: Tuple([Graph(Discrete(2), None), Sequence(Discrete(2)), _f32(2)]),
    "dict dynamic": lambda: _dict(a=Sequence(Discrete(4), stack=True), b=Discrete(3)),
}

CUSTOM = {
    "custom": lambda: CustomSpace(),
    "tuple custom": lambda: Tuple([CustomSpace(), Discrete(3)]),
    "dict custom": lambda: _dict(a=CustomSpace(), b=_f32(2)),
    "tuple custom box": lambda: Tuple([CustomBox(-1, 1, (2,), np.float32), Discrete(3)]),
}

ZOO = {**SHAREABLE, **DYNAMIC, **CUSTOM}

if "sort_keys" in Dict.__init__.__code__.co_varnames:
    SHAREABLE["dict unsorted"] = lambda: Dict({"z": Discrete(2), "a": _f32(1)}, sort_keys=False)
    ZOO["dict unsorted"] = SHAREABLE["dict unsorted"]

# One of each kind.
KINDS = (
    "box float32",
    "discrete",
    "multi discrete",
    "multi binary",
    "tuple",
    "dict",
    "text",
    "graph",
    "sequence",
    "one of",
    "custom",
)


@cache
def _prototype(name):
    return ZOO[name]()


def make(name, seed=7):
    """A new space of this name, seeded; equal each time, down to every generator."""
    # Some spaces have inner ones that seed() does not reach.
    space = deepcopy(_prototype(name))
    space.seed(seed)
    return space


def samples(space, n, seed=3):
    """``n`` samples of a space that is left as it was."""
    if isinstance(space, Box) and space.dtype.type is np.longdouble:
        # Gymnasium cannot sample these.
        return [np.full(space.shape, i, space.dtype) / 3 for i in range(n)]
    space = deepcopy(space)
    space.seed(seed)
    return [space.sample() for _ in range(n)]
