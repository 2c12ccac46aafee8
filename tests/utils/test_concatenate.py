"""concatenate: what NumPy's stack gives, for every kind of item and target."""

import gymnasium.vector.utils as theirs
import numpy as np
import pytest
import spaces_zoo as zoo
from equality import assert_same, assert_same_outcome, leaves, outcome, value_bytes
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from names import name_of

import gymvec.utils as ours


def empty(space, n):
    """A batch to write to, full of a pattern that no test writes."""
    out = theirs.create_empty_array(space, n)
    for leaf in leaves(out):
        leaf.view(np.uint8).fill(0b101) if leaf.size and leaf.ndim else None
    return out


@pytest.mark.parametrize("n", [1, 2, 8])
@pytest.mark.parametrize("name", zoo.ZOO)
def test_concatenate(name, n):
    space = zoo.make(name)
    items = zoo.samples(space, n)
    out = theirs.create_empty_array(space, n)
    actual = ours.concatenate(space, items, out)
    assert_same(actual, theirs.concatenate(space, items, theirs.create_empty_array(space, n)))
    if name in zoo.ARRAYS:
        assert actual is out


@pytest.mark.parametrize("n", [255, 256, 257, 1024])
@pytest.mark.parametrize("name", [name for name in zoo.KINDS if name not in ("graph", "sequence")])
def test_concatenate_many(name, n):
    space = zoo.make(name)
    items = zoo.samples(space, n)
    assert_same(
        ours.concatenate(space, items, theirs.create_empty_array(space, n)),
        theirs.concatenate(space, items, theirs.create_empty_array(space, n)),
    )


def test_concatenate_more_than_a_megabyte():
    space = Box(0, 255, (600, 600, 3), np.uint8)
    items = [np.random.default_rng(i).integers(0, 256, space.shape, np.uint8) for i in range(3)]
    out = np.zeros((3, *space.shape), np.uint8)
    assert ours.concatenate(space, items, out) is out
    assert_same(out, np.stack(items))


@pytest.mark.parametrize(
    "name", [n for n in zoo.SHAREABLE if isinstance(zoo.make(n), (Dict, Tuple))]
)
def test_the_leaves_are_those_of_out(name):
    space = zoo.make(name)
    out = theirs.create_empty_array(space, 2)
    result = ours.concatenate(space, zoo.samples(space, 2), out)
    assert result is not out or out == () == result
    expected = theirs.concatenate(space, zoo.samples(space, 2), out)
    kept = [any(leaf is other for other in leaves(out)) for leaf in leaves(result)]
    assert kept == [any(leaf is other for other in leaves(out)) for leaf in leaves(expected)]


F32, F64, I8, U8 = (
    Box(-9, 9, (2, 3), np.float32),
    Box(-9, 9, (2, 3), np.float64),
    Box(-9, 9, (2, 3), np.int8),
    Box(0, 9, (2, 3), np.uint8),
)
BOOL, I64 = Box(0, 1, (2, 3), np.bool_), Box(-9, 9, (2, 3), np.int64)
F16, BIG = Box(-9, 9, (2, 3), np.float16), Box(-9, 9, (2, 3), ">f4")
LONG = Box(-9, 9, (2, 3), np.longdouble)
SPACES = {
    "f4": F32,
    "f8": F64,
    "i1": I8,
    "u1": U8,
    "?": BOOL,
    "i8": I64,
    "f2": F16,
    ">f4": BIG,
    "g": LONG,
}
ROW = np.arange(6).reshape(2, 3) % 4


class HasArray:
    """An object with ``__array__``."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


class Subclass(np.ndarray):
    """An array of a class of its own."""


def _misaligned(array):
    raw = bytearray(b"x" + array.tobytes())
    return np.frombuffer(raw, array.dtype, offset=1).reshape(array.shape)


def _read_only(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def _memmap(array, tmp_path):
    one = np.memmap(tmp_path / "row", array.dtype, "w+", shape=array.shape)
    one[...] = array
    return one


ITEMS = {
    "same": lambda row: row.copy(),
    "fortran": np.asfortranarray,
    "strided": lambda row: np.repeat(row, 2, axis=1)[:, ::2],
    "reversed": lambda row: row[::-1, ::-1].copy()[::-1, ::-1],
    "broadcast": lambda row: np.broadcast_to(row[:1, :1], row.shape),
    "read only": _read_only,
    "misaligned": _misaligned,
    "swapped": lambda row: row.astype(row.dtype.newbyteorder()),
    "list": lambda row: row.tolist(),
    "tuple of rows": lambda row: tuple(row),
    "subclass": lambda row: row.view(Subclass),
    "masked": lambda row: np.ma.masked_less(row, 2),
    "object": lambda row: row.astype(object),
    "has array": HasArray,
    "string": lambda row: row.astype(str),
    "complex": lambda row: row.astype(complex),
    "float64": lambda row: row.astype(np.float64),
    "float32": lambda row: row.astype(np.float32),
    "float16": lambda row: row.astype(np.float16),
    "longdouble": lambda row: row.astype(np.longdouble),
    "int64": lambda row: row.astype(np.int64),
    "int8": lambda row: row.astype(np.int8),
    "uint8": lambda row: row.astype(np.uint8),
    "uint64": lambda row: row.astype(np.uint64),
    "bool": lambda row: row.astype(bool),
    "wrong shape": lambda row: row.T,
    "flat": np.ravel,
    "one more axis": lambda row: row[None],
    "scalar": lambda row: row[0, 0],
    "0-d": lambda row: np.array(row[0, 0]),
    "none": lambda row: None,
    "dict": lambda row: {"a": row},
    "memoryview": lambda row: memoryview(row),
}


@pytest.mark.parametrize("mixed", [False, True], ids=["all", "last"])
@pytest.mark.parametrize("kind", ITEMS)
@pytest.mark.parametrize("name", SPACES)
def test_kinds_of_items(name, kind, mixed):
    space = SPACES[name]
    row = ROW.astype(space.dtype)
    if kind == "memoryview" and name in ("f2", ">f4", "g"):
        pytest.skip("not a format that memoryview reads")
    odd = ITEMS[kind](row)
    items = [row, odd] if mixed else [odd, odd]
    out, expected = empty(space, 2), empty(space, 2)
    result = outcome(ours.concatenate, space, items, out)
    reference = outcome(theirs.concatenate, space, items, expected)
    assert_same_outcome(result, reference)
    # An error leaves all as it was, where NumPy may have written the first rows.
    assert_same(out, expected if reference.error is None else empty(space, 2))


def test_an_item_that_is_a_memmap(tmp_path):
    row = ROW.astype(np.float32)
    out = empty(F32, 2)
    assert_same(ours.concatenate(F32, [_memmap(row, tmp_path), row], out), np.stack([row, row]))


NUMBERS = [
    0,
    1,
    -1,
    True,
    False,
    127,
    128,
    255,
    256,
    300,
    -129,
    2**31,
    2**63 - 1,
    2**63,
    2**64 - 1,
    2**64,
    -(2**63),
    10**30,
    2**24 + 1,
    0.0,
    -0.0,
    0.1,
    1.5,
    3e38,
    3.5e38,
    1e300,
    1e-40,
    1e-46,
    5e-324,
    float("nan"),
    float("inf"),
    float("-inf"),
    1j,
    "1",
    "x",
    None,
    *(np.dtype(code).type(1) for code in "?bBhHiIlLqQefdg"),
    np.float64(1e300),
    np.float64(1e-300),
    np.float64("nan"),
    np.float32(0.1),
    np.float64(0.1),
    np.float16(0.1),
    np.longdouble(1) / 3,
    np.uint64(2**63),
    np.int64(-1),
    np.int64(300),
    np.array(1.5),
    np.array([1.5]),
    [1],
    [[1]],
]
SCALARS = [
    "box scalar",
    "box scalar float64",
    "box scalar uint8",
    "box scalar bool",
    "box >u2",
    "discrete",
    "discrete int8",
    "discrete uint8",
    "discrete int32",
]


def _scalar_spaces():
    yield from ((name, zoo.make(name)) for name in SCALARS)
    for dtype in ("float16", "longdouble", "int16", "uint16", "uint32", "uint64", ">f8", ">i4"):
        yield dtype, Box(0, 1, (), dtype)


@pytest.mark.parametrize("first", [False, True], ids=["alone", "after a plain one"])
@pytest.mark.parametrize(
    "name, space", list(_scalar_spaces()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_numbers(name, space, first):
    for number in NUMBERS:
        items = [np.zeros((), space.dtype), number] if first else [number, number]
        out, expected = empty(space, 2), empty(space, 2)
        result = outcome(ours.concatenate, space, items, out)
        reference = outcome(theirs.concatenate, space, items, expected)
        assert_same_outcome(result, reference)
        assert_same(out, expected if reference.error is None else empty(space, 2))


@pytest.mark.skipif(not zoo.DISCRETE_HAS_DTYPE, reason="Gymnasium's Discrete has no dtype")
def test_numbers_by_hand():
    discrete, out = Discrete(9, dtype=np.uint8), np.zeros(2, np.uint8)
    with pytest.raises(TypeError):
        ours.concatenate(discrete, [1, 2], out)
    assert out.tolist() == [0, 0]
    narrow = Discrete(9, dtype=np.int8)
    assert ours.concatenate(narrow, [300, -1], np.zeros(2, np.int8)).tolist() == [44, -1]
    assert ours.concatenate(discrete, [True, np.uint8(7)], out).tolist() == [1, 7]


@pytest.mark.parametrize("row", [[1e300] * 6, [0, 0, 0, 0, 0, 1e300], [1e-46] * 6, [5e-324] * 6])
def test_overflow_and_underflow(row):
    row = np.array(row).reshape(2, 3)
    items = [np.zeros((2, 3)), row]
    out, expected = empty(F32, 2), empty(F32, 2)
    assert_same_outcome(
        outcome(ours.concatenate, F32, items, out),
        outcome(theirs.concatenate, F32, items, expected),
    )
    assert_same(out, expected)
    out = empty(F32, 2)
    with np.errstate(all="raise"):
        result = outcome(ours.concatenate, F32, items, out)
        reference = outcome(theirs.concatenate, F32, items, expected)
    assert isinstance(reference.error, FloatingPointError)
    assert_same_outcome(result, reference)
    assert_same(out, empty(F32, 2))


def test_a_warning_that_is_an_error_leaves_out_as_it_was():
    out = empty(F32, 2)
    with pytest.raises(RuntimeWarning, match="overflow"):
        ours.concatenate(F32, [np.ones((2, 3)), np.full((2, 3), 1e300)], out)
    assert_same(out, empty(F32, 2))


def test_an_item_that_cannot_be_cast_leaves_out_as_it_was():
    out = empty(F32, 3)
    rows = [np.ones((2, 3), np.float32), np.ones((2, 3), np.float32), np.full((2, 3), "x", object)]
    expected = outcome(theirs.concatenate, F32, rows, empty(F32, 3))
    assert expected.error is not None
    assert_same_outcome(outcome(ours.concatenate, F32, rows, out), expected)
    assert_same(out, empty(F32, 3))


ITERABLES = {
    "list": list,
    "tuple": tuple,
    "generator": lambda rows: (row for row in rows),
    "iterator": iter,
    "array": np.array,
    "dict": lambda rows: dict.fromkeys(range(len(rows))),
    "none": lambda rows: None,
    "number": lambda rows: 3,
    "empty": lambda rows: [],
    "one less": lambda rows: rows[:-1],
    "one more": lambda rows: [*rows, rows[0]],
    "values": lambda rows: dict(enumerate(rows)).values(),
    "object array": lambda rows: np.array([*rows, None], dtype=object)[:-1],
}


@pytest.mark.parametrize("kind", ITERABLES)
@pytest.mark.parametrize(
    "space", [F32, Discrete(5), MultiDiscrete([3, 4]), MultiBinary(3)], ids=name_of
)
def test_iterables_of_items(space, kind):
    rows = zoo.samples(space, 3)
    out, expected = empty(space, 3), empty(space, 3)
    assert_same_outcome(
        outcome(ours.concatenate, space, ITERABLES[kind](rows), out),
        outcome(theirs.concatenate, space, ITERABLES[kind](rows), expected),
    )
    assert_same(out, expected)


def test_an_iterable_that_fails():
    def rows():
        yield np.ones((2, 3), np.float32)
        raise KeyError("lost")

    out = empty(F32, 2)
    with pytest.raises(KeyError, match="lost"):
        ours.concatenate(F32, rows(), out)
    assert_same(out, empty(F32, 2))


@pytest.mark.parametrize(
    "name", ["tuple", "dict", "dict nested", "tuple nested", "tuple one of", "dict text"]
)
def test_nested_spaces_from_a_generator(name):
    space = zoo.make(name)
    items = zoo.samples(space, 3)
    assert_same(
        ours.concatenate(space, (item for item in items), theirs.create_empty_array(space, 3)),
        theirs.concatenate(space, items, theirs.create_empty_array(space, 3)),
    )


def test_a_nested_space_from_a_generator_by_hand():
    space = Dict({"a": Discrete(9), "b": Tuple([Discrete(9)])})
    items = ({"a": i, "b": (i + 1,)} for i in range(3))
    result = ours.concatenate(space, items, theirs.create_empty_array(space, 3))
    assert result["a"].tolist() == [0, 1, 2]
    assert result["b"][0].tolist() == [1, 2, 3]


def test_value_bytes_tells_zeros_apart():
    assert value_bytes(0.0) != value_bytes(-0.0)
    assert value_bytes(np.longdouble("nan")) != value_bytes(-np.longdouble("nan"))
