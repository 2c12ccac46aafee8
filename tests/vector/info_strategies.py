"""Random infos: values and keys of every kind, nested; and what Gymnasium makes of them."""

import warnings
from collections import OrderedDict, UserDict, defaultdict
from fractions import Fraction

import numpy as np
from gymnasium.vector import VectorEnv
from hypothesis import strategies as st
from layouts import LAYOUTS, laid_out

N = 4


class Named:
    """An object that is itself again after it was pickled."""

    def __reduce__(self):
        return "OBJECT"


OBJECT = Named()


def gymnasiums(items, n=N):
    envs = VectorEnv()
    envs.num_envs = n
    infos = {}
    for index, info in items:
        infos = envs._add_info(infos, info, index)
    return infos


def outcome(function, items):
    """Result, error and warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result, error = function(items), None
        except Exception as raised:
            result, error = None, (type(raised), str(raised))
    return result, error, [(w.category, str(w.message)) for w in caught]


numbers = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(-300, 300),
    st.floats(),
    st.booleans(),
    st.sampled_from([np.True_, np.False_]),
    st.floats(width=16).map(np.float16),
    st.floats(width=32).map(np.float32),
    st.floats().map(np.float64),
    st.floats(width=32).map(np.longdouble),
    st.integers(-128, 127).map(np.int8),
    st.integers(0, 2**64 - 1).map(np.uint64),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.complex_numbers(),
    st.sampled_from([np.complex64(1j), np.timedelta64(3, "s"), np.datetime64("2020")]),
)
arrays = st.builds(
    lambda shape, dtype, value, layout: laid_out(np.full(shape, value).astype(dtype), layout),
    st.sampled_from([(), (1,), (2,), (2, 1), (0,), (N,)]),
    st.sampled_from(["f4", "f8", ">f8", "f2", "i8", "u1", "?", "O", "U3", "g"]),
    st.integers(0, 200),
    st.sampled_from(["C"] * 20 + list(LAYOUTS)),
)
others = st.one_of(
    st.none(),
    st.text(max_size=3),
    st.sampled_from(["12", "1.5", b"7", OBJECT, np.str_("a"), Fraction(1, 2), {1, 2}, int, ()]),
    st.lists(st.integers(0, 9), max_size=3),
    st.tuples(st.floats(), st.text(max_size=1)),
    st.sampled_from(list(LAYOUTS)).map(lambda layout: laid_out(np.ones((2, 2)), layout)),
    st.sampled_from([UserDict(a=1), OrderedDict(a=1), defaultdict(int, a=1), np.ma.masked]),
)
keys = st.one_of(
    st.sampled_from(["a", "b", "_a", "__a", "final_obs", "_final_obs", "final_info"]),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from([1, True, 1.0, "1", "_1", None, ("a",), "True"]),
)
infos = st.recursive(
    st.dictionaries(keys, st.one_of(numbers, arrays, others), max_size=4),
    lambda inner: st.dictionaries(keys, st.one_of(numbers, others, inner), max_size=3),
    max_leaves=8,
)
# What is no dict, some of it false, some of it with items; its types differ between environments.
odd_infos = st.one_of(
    others,
    numbers,
    arrays,
    st.sampled_from([None, 0, 0.0, False, "", b"", (), frozenset(), np.float32(0), np.zeros(0)]),
    st.builds(list),
    infos.map(UserDict),
    infos.map(OrderedDict),
    infos.map(lambda info: list(info.items())),
)
# The infos of one call.
calls = st.one_of(
    st.lists(infos, min_size=N, max_size=N),
    st.lists(st.one_of(infos, infos, infos, odd_infos), min_size=N, max_size=N),
)
