"""Values that no caller should pass: liars, breakers, and callbacks that change what is in use."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, OneOf, Sequence, Text, Tuple
from hypothesis import strategies as st
from layouts import LAYOUTS, laid_out

# What lies on both sides of a guarded array.
GUARD, GUARD_BYTES = 0xA5, 128
_guarded: list[np.ndarray] = []


def guarded(shape: tuple[int, ...], dtype: Any, fill: Any = 0) -> np.ndarray:
    """An aligned array between guard bytes, see :func:`check_guards`."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.full(size + 3 * GUARD_BYTES, GUARD, np.uint8)
    begin = GUARD_BYTES - raw.ctypes.data % 64
    array = raw[begin : begin + size].view(dtype).reshape(shape)
    array[...] = fill
    _guarded.append((raw, begin, begin + size))
    return array


def check_guards() -> None:
    """Nothing was written outside of a guarded array. Forgets them."""
    guards, _guarded[:] = list(_guarded), []
    for raw, begin, end in guards:
        assert (raw[:begin] == GUARD).all() and (raw[end:] == GUARD).all(), "written outside"


# --- liars ------------------------------------------------------------------------------


class LyingArray(np.ndarray):
    """Says that it is larger than it is, of another dtype, and writable."""

    shape = property(lambda self: (1000, 2))
    ndim = property(lambda self: 2)
    size = property(lambda self: 2000)
    dtype = property(lambda self: np.dtype(np.uint8))
    flags = property(lambda self: np.zeros(1).flags)
    nbytes = property(lambda self: 2000)

    def __len__(self):
        return 1000

    def view(self, *args):
        return "a view"

    def reshape(self, *args):
        return self


class LyingList(list):
    def __len__(self):
        return 1000

    def __iter__(self):
        return itertools.islice(itertools.repeat(1.0), 3)

    def __getitem__(self, index):
        return self


class LyingTuple(tuple):
    __len__ = LyingList.__len__
    __iter__ = LyingList.__iter__
    __getitem__ = LyingList.__getitem__


class LyingDict(dict):
    __len__ = LyingList.__len__

    def __getitem__(self, key):
        return 7

    def items(self):
        return [("a", 1), ("b",), 3]

    def keys(self):
        return ["z"]


class LyingInt(int):
    def __index__(self):
        return 10**6

    __int__ = __index__

    def __mul__(self, other):
        return 1

    __rmul__ = __mul__


class LyingFloat(float):
    def __float__(self):
        return "no number"


class LyingSpace(Box):
    """Another shape and dtype each time it is asked."""

    def __init__(self, answers):
        super().__init__(-1, 1, (2,), np.float32)
        self.__dict__["answers"] = itertools.cycle(answers)

    @property
    def shape(self):
        return next(self.__dict__["answers"])[0] if "answers" in self.__dict__ else (2,)

    @property
    def dtype(self):
        return next(self.__dict__["answers"])[1] if "answers" in self.__dict__ else np.dtype("f4")

    @dtype.setter
    def dtype(self, value):
        pass


class Plain:
    """No space, but with the attributes of one."""

    def __init__(self, shape, dtype):
        self.shape = shape
        self.dtype = dtype


class Memory:
    def __init__(self, buffer):
        self.buffer = buffer

    def get_obj(self):
        return self.buffer


class Replies:
    """A number, an array and a truth value, by a function that may do anything."""

    def __init__(self, answer):
        self.answer = answer

    def __array__(self, dtype=None, copy=None):
        return self.answer("array")

    def __index__(self):
        return self.answer("index")

    def __float__(self):
        return self.answer("float")

    def __len__(self):
        return self.answer("index")

    def __bool__(self):
        return self.answer("bool")

    def __eq__(self, other):
        return self.answer("bool")

    def __hash__(self):
        return 3

    def __iter__(self):
        return iter([self.answer("float")] * 2)

    def __getitem__(self, key):
        return self.answer("array")

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **kwargs: self.answer("array")


def honest(kind: str) -> Any:
    return {"array": np.zeros(2, np.float32), "index": 1, "float": 0.5, "bool": True}[kind]


def breaks(kind: str) -> Any:
    raise ArithmeticError(kind)


def wrong(kind: str) -> Any:
    return {"array": [None, {}], "index": 1.5, "float": "x", "bool": 3}[kind]


class Changes:
    """Other answers from call to call."""

    def __init__(self):
        self.arrays = itertools.cycle([np.zeros(2, np.float32), np.zeros(9), np.zeros((2, 2), "O")])
        self.numbers = itertools.cycle([0, 10**9, -1, 1])

    def __call__(self, kind):
        return {"array": next(self.arrays), "bool": True}.get(kind, next(self.numbers))


class Mutates:
    """Changes the arguments of the call that it is part of, then answers honestly.

    Attributes:
        victims: The arguments, set before the call.
    """

    def __init__(self, how: int):
        self.how = how
        self.victims: list[Any] = []

    at_work = False

    def __call__(self, kind):
        # One at a time: each may be among the victims of the others.
        if not Mutates.at_work:
            Mutates.at_work = True
            try:
                for victim in self.victims:
                    # Not every object can be changed so.
                    with contextlib.suppress(Exception):
                        self._change(victim)
            finally:
                Mutates.at_work = False
        return honest(kind)

    def _change(self, victim):
        if isinstance(victim, np.ndarray):
            if self.how % 3 == 0:
                victim.shape = (victim.size,)
            elif self.how % 3 == 1:
                victim.shape = (1, victim.size)
            else:
                victim.resize((1,))
        elif isinstance(victim, list):
            victim.clear() if self.how % 2 else victim.extend([None] * 100)
        elif isinstance(victim, dict):
            victim.clear() if self.how % 2 else victim.update({n: n for n in range(100)})
        elif hasattr(victim, "close"):
            victim.close()
        else:
            type(victim).__init__(victim, *[np.zeros(1)] * (self.how % 4))


# --- strategies -------------------------------------------------------------------------

_DTYPES = ["?", "i1", "u1", "i4", "u4", "i8", "u8", "f2", "f4", ">f4", "f8", ">i8", "g", "O",
           "c8", "M8[s]", "U3", "S2", [("a", "i4"), ("b", "f8")]]  # fmt: skip
_SHAPES = [(), (0,), (1,), (2,), (3,), (2, 2), (4, 2), (0, 3), (2, 0), (2, 1, 2), (3, 16)]


def _array(shape, dtype, layout):
    array = np.zeros(shape, dtype)
    if layout == "broadcast" and not array.dtype.hasobject:
        array = np.broadcast_to(np.zeros((), dtype), (1 << 40, *shape))
    elif layout == "overlapping" and array.size and not array.dtype.hasobject:
        array = np.lib.stride_tricks.as_strided(array, shape, [0] * len(shape))
    elif layout == "lying" and shape:
        array = array.view(LyingArray)
    elif layout in LAYOUTS:
        array = laid_out(array, layout)
    return array


_LAYOUTS = ["plain", "broadcast", "overlapping", "lying", *LAYOUTS]
arrays = st.builds(
    _array, st.sampled_from(_SHAPES), st.sampled_from(_DTYPES), st.sampled_from(_LAYOUTS)
)

numbers = st.one_of(
    st.sampled_from([0, 1, -1, 2, 255, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**30]),
    st.sampled_from([0.0, -0.0, 1.5, 1e39, 1e-320, float("nan"), float("inf")]),
    st.booleans(),
    st.sampled_from(
        [np.int8(1), np.uint64(2**64 - 1), np.float16(1), np.longdouble(1), np.bool_(True)]
    ),
    st.builds(LyingInt, st.integers(-1, 2)),
    st.builds(LyingFloat, st.just(1.0)),
)

answering = st.one_of(
    st.sampled_from([honest, breaks, wrong]).map(Replies),
    st.builds(Changes).map(Replies),
    st.integers(0, 11).map(lambda how: Replies(Mutates(how))),
)

_PLACES = st.tuples(
    st.sampled_from([(), (2,), (0,), (1,) * 65, (2**62, 4), (-1,), None, [2], ("x",), (2.0,)]),
    st.sampled_from([np.dtype("f4"), np.dtype("O"), np.dtype("c8"), None, "f4", np.float32]),
)
spaces = st.one_of(
    st.sampled_from(
        [
            Box(-1, 1, (2,), np.float32),
            Discrete(3),
            MultiBinary(2),
            Text(3),
            Tuple([Discrete(2), Box(-1, 1, (2,))]),
            Dict({"a": Discrete(2)}),
            OneOf([Discrete(2), Text(1)]),
            Sequence(Discrete(2)),
            None,
            3,
            Box,
        ]
    ),  # fmt: skip
    _PLACES.map(lambda place: Plain(*place)),
    st.lists(_PLACES, min_size=2, max_size=3).map(LyingSpace),
)

_BUFFERS = st.sampled_from(
    [bytearray, bytes, lambda n: (ctypes.c_char * n)(), lambda n: memoryview(bytearray(2 * n))[::2]]
)
memories = st.one_of(
    st.builds(lambda make, n: Memory(make(n)), _BUFFERS, st.sampled_from([0, 1, 8, 16, 24])),
    st.just(Memory(None)),
)

_leaves = st.one_of(
    st.none(), numbers, arrays, answering, spaces, memories,
    st.sampled_from(["", "a", "\0é", b"", b"abc", bytearray(8), "auto", object(), ..., int, len]),
)  # fmt: skip
anything = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.lists(inner, max_size=3).map(LyingList),
        st.lists(inner, max_size=3).map(LyingTuple),
        st.dictionaries(st.sampled_from(["a", "b", "_a", "final_obs", 0, 1]), inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2).map(LyingDict),
    ),
    max_leaves=6,
)


def mutators_in(value: Any, depth: int = 4) -> list[Mutates]:
    """The mutators anywhere in a value."""
    if depth == 0:
        return []
    if isinstance(value, Replies):
        return [value.answer] if isinstance(value.answer, Mutates) else []
    if isinstance(value, dict):
        return [found for part in dict.values(value) for found in mutators_in(part, depth - 1)]
    if isinstance(value, list):
        return [found for part in list.__iter__(value) for found in mutators_in(part, depth - 1)]
    if isinstance(value, tuple):
        return [found for part in tuple.__iter__(value) for found in mutators_in(part, depth - 1)]
    return []


def contained_in(value: Any) -> list[Any]:
    """A value and the values in it, one level deep."""
    if isinstance(value, dict):
        return [value, *dict.values(value)]
    if isinstance(value, list):
        return [value, *list.__iter__(value)]
    if isinstance(value, tuple):
        return [value, *tuple.__iter__(value)]
    return [value]
