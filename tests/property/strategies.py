"""Random spaces, and random values that fit them or not."""

from copy import deepcopy

import numpy as np
import spaces_zoo as zoo
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)
from hypothesis import strategies as st
from layouts import LAYOUTS, Subclass, laid_out

DTYPES = [
    "?",
    "i1",
    "u1",
    "i2",
    "u2",
    "i4",
    "u4",
    "i8",
    "u8",
    "f2",
    "f4",
    "f8",
    ">f4",
    ">i4",
    ">f8",
    ">u2",
]
SHAPES = [(), (0,), (1,), (2,), (2, 3), (3, 0), (1, 1, 4), (70,)]


def boxes():
    return st.builds(
        lambda dtype, shape: Box(0, 1, shape, dtype),
        st.sampled_from(DTYPES),
        st.sampled_from(SHAPES),
    )


def arrays():
    integers = st.sampled_from(["i1", "u1", "i4", "i8"])
    return st.one_of(
        boxes(),
        st.builds(
            lambda n, start, dtype: zoo.discrete(n, dtype, start=start),
            st.integers(1, 50),
            st.integers(0, 9),
            integers,
        ),
        st.builds(
            lambda nvec, dtype: MultiDiscrete(nvec, dtype=dtype),
            st.lists(st.integers(1, 9), min_size=1, max_size=3),
            integers,
        ),
        st.builds(MultiBinary, st.one_of(st.integers(1, 4), st.just([2, 2]))),
    )


def texts():
    return st.builds(
        lambda low, more, charset: Text(low + more, min_length=low, charset=charset),
        st.integers(0, 2),
        st.integers(0, 4),
        st.sampled_from(["ab", "x", zoo.ASTRAL, "\0a", "zyx0"]),
    )


def nested(leaf, max_leaves=6, one_of=True):
    def extend(inner):
        kinds = [
            st.lists(inner, max_size=3).map(Tuple),
            st.dictionaries(st.sampled_from("dcba"), inner, max_size=3).map(Dict),
        ]
        if one_of:
            kinds.append(st.lists(inner, min_size=1, max_size=3).map(OneOf))
        return st.one_of(kinds)

    return st.recursive(leaf, extend, max_leaves=max_leaves)


def shareable(one_of=True):
    """Spaces that lie in shared memory."""
    return nested(st.one_of(arrays(), texts()), one_of=one_of)


def everything():
    """Spaces of all kinds."""
    dynamic = st.one_of(
        st.builds(Sequence, arrays(), stack=st.booleans()),
        st.sampled_from([Graph(Discrete(3), None), Graph(Box(0, 1, (2,)), Discrete(2))]).map(
            deepcopy
        ),
        st.builds(zoo.CustomSpace),
        st.builds(lambda: zoo.CustomBox(0, 1, (2,))),
    )
    return nested(st.one_of(arrays(), arrays(), texts(), dynamic))


JUNK = [
    None,
    "ab",
    "",
    "3",
    b"a",
    0,
    1,
    -1,
    2,
    300,
    -129,
    2**31,
    2**63,
    10**30,
    True,
    0.5,
    -0.0,
    1e39,
    1e300,
    1e-46,
    float("nan"),
    float("inf"),
    1j,
    [],
    [1],
    [1, 2],
    [[1, 2, 3], [4, 5, 6]],
    [[1], [2, 3]],
    (),
    (0, 1),
    (1, 0),
    {},
    {"a": 1},
    {"a": 1, "b": 2, "c": 3, "d": 4},
    object(),
    np.float64(1.5),
    np.float64(1e300),
    np.float32(0.1),
    np.int64(7),
    np.int8(-1),
    np.uint8(200),
    np.uint64(2**63),
    np.bool_(True),
    np.array(3),
    np.array(0.25),
    np.zeros(2),
    np.zeros(2, "f4"),
    np.ones((2, 3)),
    np.ones((2, 3), "f4"),
    np.ones((2, 3), ">f4"),
    np.ones((3, 2), "i1"),
    np.ones((2, 3), order="F"),
    np.ones((4, 3), "f4")[::2],
    np.full(2, 1e300),
    np.full((2, 3), np.nan),
    np.zeros((0,)),
    np.zeros((3, 0), "i8"),
    np.array(["1", "2"]),
    np.array([1, None], object),
    np.ones(2, "M8[s]"),
    np.ones(70),
    np.ones((1, 1, 4), "g"),
    np.ma.masked,
    np.ma.masked_array([1.0, 2.0], [True, False]),
    np.ones(2, ">i8").view(Subclass),
    *(laid_out(np.ones((2, 3), "f4"), layout) for layout in LAYOUTS),
]


def corrupted(draw, value):
    """The value, with something else put at a random place of it."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(value, key=repr)))
        what = draw(st.integers(0, 5))
        if what == 0:
            return {k: v for k, v in value.items() if k != key}
        if what == 1:
            return {**value, "extra": 1}
        return {**value, key: corrupted(draw, value[key])}
    if type(value) is tuple and value and draw(st.integers(0, 4)):
        place = draw(st.integers(0, len(value) - 1))
        if draw(st.integers(0, 5)) == 0:
            return value[:place] + value[place + 1 :]
        return (*value[:place], corrupted(draw, value[place]), *value[place + 1 :])
    # Objects are junk that a round before has put there, which has no other dtype.
    objects = isinstance(value, np.ndarray) and value.dtype == object
    if isinstance(value, np.ndarray) and value.ndim and not objects and draw(st.booleans()):
        if draw(st.booleans()):
            return laid_out(value, draw(st.sampled_from(list(LAYOUTS))))
        change = draw(
            st.sampled_from(
                [
                    lambda a: a.tolist(),
                    lambda a: a.astype("f8"),
                    np.ravel,
                    lambda a: a.T,
                    lambda a: a[None],
                    lambda a: a.astype(a.dtype.newbyteorder()),
                    lambda a: a[:1],
                    lambda a: a.astype("i8"),
                    lambda a: a.astype("f4"),
                ]
            )
        )
        # A cast of numbers that are too large is what it may be.
        with np.errstate(all="ignore"):
            return change(value)
    return draw(st.sampled_from(JUNK))


@st.composite
def spaces_and_items(draw, spaces, max_size=4):
    """A space, and items of it of which some may not fit."""
    space = draw(spaces)
    seed = draw(st.integers(0, 2**16))
    items = zoo.samples(space, draw(st.integers(1, max_size)), seed)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(items) - 1))
        items[place] = corrupted(draw, items[place])
    return space, items
