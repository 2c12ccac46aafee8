"""The row kernels: do it all, decline and touch nothing, or raise."""

import warnings

import numpy as np
import pytest
from equality import assert_same, outcome
from names import name_of

from gymvec.kernels.rows import RowWriter, stack_rows, write_row
from gymvec.kernels.trees import gather_key

# Copied as bytes: every dtype of numbers, in both byte orders.
PLAIN = [
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
    "g",
    ">i2",
    ">u4",
    ">i8",
    ">f2",
    ">f4",
    ">f8",
]
# Never copied by a kernel.
OTHER = ["O", "c8", "c16", "U3", "S3", "M8[s]", "m8[s]", [("a", "i4"), ("b", "f4")], "V4"]
SHAPES = [(), (1,), (3,), (2, 3), (0,), (3, 0, 2), (5, 1, 1), (40,)]


def numbers(shape, dtype, seed=0):
    """Random bytes that are values of the dtype."""
    raw = np.random.default_rng(seed).integers(0, 100, shape)
    return np.asarray(raw).astype(dtype)


def declines(function, *arguments, touched):
    """The kernel says no and has touched nothing."""
    before = touched.copy()
    assert function(*arguments) is False
    assert_same(touched.copy(), before)
    return True


def misaligned(shape, dtype):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(bytearray(size + 1), np.uint8)[1:].view(dtype).reshape(shape)


class Subclass(np.ndarray):
    """An array of a class of its own."""


class TestStackRows:
    """stack_rows(items, out)."""

    @pytest.mark.parametrize("n", [1, 2, 5, 300])
    @pytest.mark.parametrize("shape", SHAPES, ids=name_of)
    @pytest.mark.parametrize("dtype", PLAIN)
    def test_copies_bytes(self, dtype, shape, n):
        rows = [numbers(shape, dtype, i) for i in range(n)]
        for items in (rows, tuple(rows)):
            out = np.full((n, *shape), 7).astype(dtype)
            assert stack_rows(items, out) is True
            assert_same(out, np.array(rows, dtype))

    def test_arrays_without_dimensions_as_rows(self):
        out = np.zeros(3, np.int8)
        assert stack_rows([np.array(1, np.int8), np.array(2, np.int8), np.int8(3)], out)
        assert out.tolist() == [1, 2, 3]
        assert stack_rows([4, np.array(5, np.int8), np.int8(6)], out)
        assert out.tolist() == [4, 5, 6]

    def test_large_blocks(self):
        rows = [numbers((1 << 18,), "f4", i) for i in range(5)]
        out = np.zeros((5, 1 << 18), np.float32)
        assert stack_rows(rows, out)
        assert_same(out, np.stack(rows))

    @pytest.mark.parametrize("dtype", OTHER, ids=name_of)
    def test_other_dtypes(self, dtype):
        row = np.zeros(2, dtype)
        assert declines(stack_rows, [row, row], np.zeros((2, 2), dtype), touched=np.zeros(1))

    ROW = np.arange(6, dtype=np.int16).reshape(2, 3)

    @pytest.mark.parametrize(
        "odd",
        [
            ROW.astype(np.int32),
            ROW.astype(np.uint16),
            ROW.astype(">i2"),
            ROW.astype(np.float16),
            ROW.T,
            ROW.reshape(-1),
            ROW[None],
            ROW[:, :2],
            ROW[:1],
            np.asfortranarray(ROW),
            np.repeat(ROW, 2, 1)[:, ::2],
            ROW[::-1],
            ROW[:, ::-1],
            np.broadcast_to(ROW[0], (2, 3)),
            ROW.view(Subclass),
            ROW.tolist(),
            misaligned((2, 3), np.int16),
            ROW.astype(object),
            0,
            np.int16(0),
            None,
            "abcdef",
            (1, 2),
            np.ma.masked_equal(ROW, 2),
            memoryview(ROW),
            True,
        ],
        ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
    )
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_odd_items(self, odd, place):
        items = [self.ROW + 1, self.ROW + 2, self.ROW + 3]
        items[place] = odd
        out = np.full((3, 2, 3), 7, np.int16)
        assert declines(stack_rows, items, out, touched=out)

    def test_read_only_items(self):
        row = self.ROW.copy()
        row.flags.writeable = False
        out = np.zeros((1, 2, 3), np.int16)
        assert stack_rows([row], out) and out[0].tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_odd_targets(self):
        rows = [np.ones(4, np.float32)] * 2
        read_only = np.zeros((2, 4), np.float32)
        read_only.flags.writeable = False
        for out in (
            read_only,
            np.zeros((4, 4), np.float32)[::2],
            np.zeros((2, 8), np.float32)[:, ::2],
            np.zeros((4, 2), np.float32).T,
            np.zeros((2, 4), np.float32)[::-1],
            misaligned((2, 4), np.float32),
            np.zeros((2, 4), np.float32).view(Subclass),
            np.zeros((1, 4), np.float32),
            np.zeros((3, 4), np.float32),
            np.zeros((2, 3), np.float32),
            np.zeros((0, 4), np.float32),
            np.zeros((2, 2, 2), np.float32),
            np.zeros(8, np.float32),
            np.zeros((), np.float32),
            np.zeros((2, 4), ">f4"),
            np.zeros((2, 4), np.float16),
        ):
            assert declines(stack_rows, rows, out, touched=out), out

    @pytest.mark.parametrize(
        "items",
        [
            iter([1]),
            {0: 1},
            {1},
            range(1),
            "a",
            5,
            np.ones(1),
            (i for i in [1]),
            b"a",
        ],
        ids=name_of,
    )
    def test_what_is_neither_list_nor_tuple(self, items):
        assert stack_rows(items, np.zeros(1, np.int64)) is False

    def test_subclasses_of_list(self):
        class Items(list):
            def __iter__(self):
                return iter([7, 7])

        assert stack_rows(Items([1, 2]), np.zeros(2, np.int64)) is False

    def test_empty(self):
        assert stack_rows([], np.zeros((0, 2))) is False
        assert stack_rows([], np.zeros((2, 2))) is False

    @pytest.mark.parametrize(
        "arguments", [(None, np.zeros(1)), ([1], None), ([1], [1]), ([1], 3)], ids=name_of
    )
    def test_wrong_types(self, arguments):
        with pytest.raises(TypeError):
            stack_rows(*arguments)

    @pytest.mark.parametrize("order", [[1, 2, 0], [2, 2, 2], [0, 1, 2], [2, 0, 0]])
    def test_items_that_are_rows_of_the_target(self, order):
        for shape in ((3,), (40,), (3, 5)):
            out, reference = (np.arange(3 * np.prod(shape)).reshape(3, *shape) for _ in range(2))
            assert stack_rows([out[i] for i in order], out)
            np.stack([reference[i] for i in order], out=reference)
            assert_same(out, reference)

    def test_items_that_overlap_rows_of_the_target(self):
        out, reference = np.arange(60.0), np.arange(60.0)
        assert stack_rows([out[5:25], out[7:27], out[0:20]], out.reshape(3, 20))
        np.stack([reference[5:25], reference[7:27], reference[0:20]], out=reference.reshape(3, 20))
        assert_same(out, reference)

    @pytest.mark.parametrize("n", [2, 300])
    def test_float64_into_float32(self, n):
        rows = [np.array([0.1, -0.0, 3.4e38, 1.2e-38]) * (i % 2 + 0.5) for i in range(n)]
        out = np.zeros((n, 4), np.float32)
        done = stack_rows(rows, out)
        with np.errstate(all="ignore"):
            assert_same(out, np.stack(rows).astype(np.float32)) if done else None
        rows = [np.array([0.1, -0.0, 3e38, 1.2e-38])] * n
        assert stack_rows(rows, out)
        assert_same(out, np.stack(rows).astype(np.float32))

    @pytest.mark.parametrize("value", [3.5e38, -1e300, np.inf, np.nan, 1e-40, 5e-324, -1e-46])
    def test_float64_that_might_warn(self, value):
        out = np.full((2, 3), 7, np.float32)
        rows = [np.ones(3), np.array([1, value, 1])]
        assert declines(stack_rows, rows, out, touched=out)

    def test_other_casts(self):
        for row, dtype in (
            (np.ones(3, np.float32), "f8"),
            (np.ones(3), ">f4"),
            (np.ones(3, ">f8"), "f4"),
            (np.ones(3), "f2"),
            (np.ones(3, "g"), "f4"),
            (np.ones(3, bool), "i1"),
        ):
            out = np.zeros((2, 3), dtype)
            assert declines(stack_rows, [row, row], out, touched=out)


class TestNumbers:
    """Python's numbers and NumPy's scalars as rows of one element."""

    @pytest.mark.parametrize("dtype", PLAIN)
    @pytest.mark.parametrize(
        "value",
        [
            0,
            1,
            -1,
            True,
            127,
            128,
            255,
            256,
            2**63 - 1,
            2**63,
            -(2**63),
            2**24,
            2**24 + 1,
            0.5,
            -0.0,
            1e39,
            1e-40,
            float("nan"),
        ],
        ids=name_of,
    )
    def test_stack_as_numpy_or_decline(self, dtype, value):
        out, reference = np.full(2, 1).astype(dtype), np.full(2, 1).astype(dtype)
        if stack_rows([value, value], out):
            expected = outcome(np.stack, [value, value], out=reference)
            assert expected.error is None and expected.warnings == []
        assert_same(out, reference)

    def test_what_is_done(self):
        for dtype, value in (
            ("i1", -128),
            ("i8", 2**63 - 1),
            ("f8", 0.1),
            ("f4", 2**24),
            ("?", True),
            ("i2", True),
            ("f4", 0.1),
            ("f8", 3),
        ):
            assert stack_rows([value], np.zeros(1, dtype)), (dtype, value)
        for dtype, value in (
            ("i1", 128),
            ("u1", 1),
            ("i8", 2**63),
            ("f4", 2**24 + 1),
            ("?", 1),
            ("i4", 1.0),
            ("f2", 1.0),
            (">i4", 1),
            ("f4", 1e39),
            ("u8", True),
        ):
            out = np.zeros(1, dtype)
            assert declines(stack_rows, [value], out, touched=out), (dtype, value)

    @pytest.mark.parametrize("dtype", [d for d in PLAIN if d[0] != ">"])
    def test_numpy_scalars(self, dtype):
        scalar = np.dtype(dtype).type(1)
        out = np.zeros(2, dtype)
        assert stack_rows([scalar, scalar], out)
        assert_same(out, np.ones(2, dtype))
        block = np.zeros((2, 1, 1), dtype)
        assert write_row(block, 1, scalar)
        assert_same(block, np.array([0, 1]).reshape(2, 1, 1).astype(dtype))

    def test_scalars_of_other_dtypes(self):
        for scalar in (np.float32(1), np.int32(1), np.uint64(1), np.longdouble(1), np.bool_(1)):
            out = np.zeros(1, np.int64)
            assert declines(stack_rows, [scalar], out, touched=out)
            assert declines(write_row, out, 0, scalar, touched=out)

    def test_subclasses_of_numbers(self):
        class Int(int):
            pass

        class Float(float):
            pass

        for value, dtype in ((Int(3), "i8"), (Float(3), "f8")):
            out = np.zeros(1, dtype)
            assert declines(stack_rows, [value], out, touched=out)
            assert declines(write_row, out, 0, value, touched=out)


class TestWriteRow:
    """write_row(block, index, value)."""

    @pytest.mark.parametrize("shape", SHAPES, ids=name_of)
    @pytest.mark.parametrize("dtype", PLAIN)
    def test_copies_bytes(self, dtype, shape):
        block, expected = numbers((3, *shape), dtype), numbers((3, *shape), dtype)
        row = numbers(shape, dtype, 9)
        assert write_row(block, 1, row) is True
        expected[1] = row
        assert_same(block, expected)

    @pytest.mark.parametrize(
        "index", [3, -1, 2**63 - 1, 2**63, -(10**30), np.int8(-1), np.uint64(2**64 - 1)]
    )
    def test_an_index_outside(self, index):
        read_only = np.zeros((3, 2))
        read_only.flags.writeable = False
        for block in (np.zeros((3, 2)), np.zeros((6, 2))[::2], read_only, np.zeros((3, 2), object)):
            for value in (np.zeros(2), None, "x", np.zeros(5)):
                with pytest.raises(IndexError):
                    write_row(block, index, value)

    @pytest.mark.parametrize("index", [1.0, "1", None, [1], np.float32(1)], ids=name_of)
    def test_what_is_no_index(self, index):
        with pytest.raises(TypeError):
            write_row(np.zeros((3, 2)), index, np.zeros(2))

    def test_odd_blocks(self):
        read_only = np.zeros((3, 2))
        read_only.flags.writeable = False
        for block in (
            read_only,
            np.zeros((6, 2))[::2],
            np.zeros((3, 4))[:, ::2],
            misaligned((3, 2), "f8"),
            np.zeros((3, 2)).view(Subclass),
            np.zeros((2, 3)).T,
            np.zeros((3, 2), object),
        ):
            assert declines(write_row, block, 1, np.ones(2), touched=block)
        with pytest.raises(ValueError, match="dimensions"):
            write_row(np.zeros(()), 0, 1.0)
        for block in (None, [1.0], 3):
            with pytest.raises(TypeError):
                write_row(block, 0, 1.0)
        with pytest.raises(IndexError):
            write_row(np.zeros((0, 2)), 0, np.zeros(2))

    @pytest.mark.parametrize(
        "value",
        [
            np.zeros(3),
            np.zeros((1, 2)),
            np.zeros(1),
            1.0,
            [1.0, 2.0],
            np.zeros(4)[::2],
            None,
            np.zeros(2, "i8"),
            np.zeros(2, ">f8"),
            np.zeros(2).view(Subclass),
            misaligned((2,), "f8"),
        ],
        ids=lambda value: f"{type(value).__name__} {getattr(value, 'dtype', '')}",
    )
    def test_odd_values(self, value):
        block = np.full((3, 2), 7.0)
        assert declines(write_row, block, 1, value, touched=block)

    def test_a_large_row(self):
        for source, done in ((np.arange(5000.0), True), (np.full(5000, 1e300), False)):
            block = np.zeros((2, 5000), np.float32)
            assert write_row(block, 1, source) is done
            assert_same(block[1], source.astype(np.float32) if done else np.zeros(5000, np.float32))

    def test_overlap(self):
        block = np.arange(12).reshape(3, 4)
        assert write_row(block, 0, block.reshape(-1)[2:6])
        assert block.tolist() == [[2, 3, 4, 5], [4, 5, 6, 7], [8, 9, 10, 11]]


class TestRowWriter:
    """RowWriter(block, index)(value)."""

    def test_writes(self):
        block = np.zeros((3, 2), np.float32)
        writer = RowWriter(block, np.int8(1))
        for value, expected in (
            (np.array([1, 2], np.float32), [1, 2]),
            ([3, 4], [3, 4]),
            (np.array([[5.0], [6.0]]), [5, 6]),
            (np.array(["7", "8"]), [7, 8]),
            (np.arange(8)[::4], [0, 4]),
        ):
            writer(value)
            assert block.tolist() == [[0, 0], expected, [0, 0]]
        for value in (1.0, [1], [1, 2, 3], np.zeros((2, 2)), "x", {}, None):
            with pytest.raises((ValueError, TypeError)):
                writer(value)
            assert block.tolist() == [[0, 0], [0, 4], [0, 0]]

    def test_other_blocks(self):
        for block in (
            np.zeros((6, 2))[::2],
            np.zeros((3, 4))[:, ::2],
            misaligned((3, 2), "f8"),
            np.zeros((3, 2)).view(Subclass),
            np.zeros((3, 2), object),
            np.zeros((3, 2), ">f4"),
        ):
            RowWriter(block, 2)([1, 2])
            assert np.asarray(block).tolist() == [[0, 0], [0, 0], [1, 2]]
        block = np.zeros(3, np.int16)
        RowWriter(block, 0)(7)
        assert block.tolist() == [7, 0, 0]

    def test_a_read_only_block(self):
        block = np.zeros((3, 2))
        block.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            RowWriter(block, 0)(np.ones(2))

    def test_wrong_arguments(self):
        for index in (3, -1, 10**30):
            with pytest.raises(IndexError):
                RowWriter(np.zeros((3, 2)), index)
        for arguments, error in (
            ((np.zeros(()), 0), ValueError),
            ((None, 0), TypeError),
            (([1], 0), TypeError),
            ((np.zeros(2), 1.0), TypeError),
            ((), TypeError),
        ):
            with pytest.raises(error):
                RowWriter(*arguments)
        with pytest.raises((AttributeError, TypeError, ValueError)):
            RowWriter.__new__(RowWriter)(1)

    def test_the_block_is_kept_and_its_shape_is_the_writers(self):
        block = np.zeros((3, 2))
        writer = RowWriter(block, 1)
        view = block[:]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # since NumPy 2.5
            block.shape = (2, 3)
        writer([1.0, 2.0])
        assert view.tolist() == [[0, 0], [1, 2], [0, 0]]
        del block, view
        writer(np.ones(2))


class TestGatherKey:
    """gather_key(items, key)."""

    def test_dicts_tuples_and_others(self):
        class Missing(dict):
            def __missing__(self, key):
                return "made up"

        class Odd(tuple):
            def __getitem__(self, key):
                return "odd"

        assert gather_key([{"a": 1, "b": 2}, {"a": 3}], "a") == [1, 3]
        assert gather_key(({"a": 1}, Missing()), "a") == [1, "made up"]
        assert gather_key([(1, 2), [3, 4], "56", np.array([7, 8]), Odd((9,))], 1) == [
            2,
            4,
            "6",
            8,
            "odd",
        ]
        assert gather_key([(1, 2)], -1) == [2] and gather_key([(1, 2)], True) == [2]
        assert gather_key([(1, 2), [1, 2]], slice(0, 1)) == [(1,), [1]]
        assert gather_key([{10**30: 1}, {10**30: 2}], 10**30) == [1, 2]
        assert gather_key([], "a") == [] and gather_key([{None: 1}], None) == [1]

    @pytest.mark.parametrize(
        "items, key",
        [
            ([{"a": 1}, {"b": 1}], "a"),
            ([{}], 0),
            ([{}], (1, 2)),
            ([(1,)], 1),
            ([(1,)], -2),
            ([(1,)], "a"),
            ([3], 0),
            ([None], "a"),
            ([{}], []),
            ([(1,)], 10**30),
            ([[1]], 5),
            ([{"a": 1}], "long key"),
            (5, 0),
        ],
        ids=name_of,
    )
    def test_errors(self, items, key):
        expected = outcome(lambda: [item[key] for item in items])
        actual = outcome(gather_key, items, key)
        assert type(actual.error) is type(expected.error) is not None
        assert actual.error.args == expected.error.args

    def test_a_key_that_cannot_be_compared(self):
        class Key:
            def __hash__(self):
                return hash("a")

            def __eq__(self, other):
                raise ArithmeticError("no")

        with pytest.raises(ArithmeticError):
            gather_key([{"a": 1}], Key())
