"""Random arrays, views and numbers through the row kernels: NumPy's result, or untouched."""

import numpy as np
from equality import assert_same, outcome
from hypothesis import given
from hypothesis import strategies as st
from layouts import LAYOUTS, laid_out

from gymvec.kernels.rows import RowWriter, gather_rows, stack_rows, view_rows, write_row

DTYPES = ["?", "i1", "u4", "i8", "f2", "f4", ">f4", "f8", ">f8", "i8", "f4", "O", "c8", "M8[s]"]


@st.composite
def arrays(draw, shape, dtype):
    """An array of this shape and dtype, laid out in some way or other."""
    # Mostly what the kernels take: one odd array is enough to be declined.
    layout = draw(st.sampled_from(["C"] * 60 + list(LAYOUTS)))
    seed = draw(st.integers(0, 99))
    values = np.asarray(np.random.default_rng(seed).integers(0, 100, shape)).astype(dtype)
    return laid_out(values, layout)


SHAPES = st.sampled_from([(), (1,), (3,), (2, 3), (0,), (2, 0), (4, 1)])


@st.composite
def rows_and_block(draw):
    shape, dtype = draw(SHAPES), draw(st.sampled_from(DTYPES))
    n = draw(st.integers(0, 4))
    block = draw(arrays((n, *shape), dtype))
    rows = []
    for _ in range(max(n + draw(st.sampled_from([0, 0, 0, 0, -1, 1])), 0)):
        kind = draw(st.integers(0, 9))
        if kind == 0:
            rows.append(draw(st.one_of(st.integers(), st.floats(), st.booleans(), st.none())))
        elif kind == 1:
            same = draw(st.booleans())
            other = (
                dtype if same else draw(st.sampled_from([*DTYPES, np.dtype(dtype).newbyteorder()]))
            )
            rows.append(draw(arrays(draw(SHAPES) if same else shape, other)))
        elif kind == 2 and n and block.dtype != object:
            rows.append(block[draw(st.integers(0, n - 1))])
        elif kind == 3 and not shape and dtype != "O":
            rows.append(np.ones((), dtype)[()])
        else:
            rows.append(draw(arrays(shape, dtype)))
    return rows, block


@given(rows_and_block())
def test_stack_rows(drawn):
    rows, block = drawn
    before, reference = block.copy(), block.copy()
    copies = [row.copy() if isinstance(row, np.ndarray) else row for row in rows]
    shares = any(isinstance(row, np.ndarray) and np.shares_memory(row, block) for row in rows)
    if stack_rows(rows, block):
        expected = outcome(np.stack, copies, out=reference)
        assert expected.error is None and expected.warnings == []
        # What is read after it was written is tested with the kernels.
        assert shares or np.array_equal(block, reference, equal_nan=block.dtype.kind == "f")
    else:
        assert_same(block.copy(), before)


@given(rows_and_block(), st.integers(-2, 5))
def test_write_row(drawn, index):
    rows, block = drawn
    for row in rows:
        value = row.copy() if isinstance(row, np.ndarray) else row
        before, reference = block.copy(), block.copy()
        result = outcome(write_row, block, index, row)
        if not 0 <= index < len(block):
            assert isinstance(result.error, IndexError)
        elif result.result:
            reference[index, ...] = np.asarray(value, block.dtype).reshape(block.shape[1:])
            assert_same(block.copy(), reference)
            continue
        assert_same(block.copy(), before)


@given(rows_and_block(), st.integers(0, 3))
def test_row_writer(drawn, index):
    rows, block = drawn
    if index >= len(block):
        return
    writer = RowWriter(block, index)
    # It writes the memory, whose values a mask may hide.
    block = np.asarray(block)
    for row in rows:
        reference, before = block.copy(), block.copy()
        cast = outcome(np.asarray, row, block.dtype)
        result = outcome(writer, row)
        if (
            not block.flags.writeable
            and cast.error is None
            and (cast.result.size == 0 or np.shares_memory(cast.result, block))
        ):
            # NumPy says nothing of a row that is written to itself, which one of no bytes may be.
            pass
        elif cast.error is not None or not block.flags.writeable:
            assert result.error is not None
        elif cast.result.size != np.prod(block.shape[1:]):
            assert isinstance(result.error, ValueError)
        else:
            # Without the dots NumPy 2.5 puts a 0-d array of objects into the block as it is.
            reference[index, ...] = cast.result.copy().reshape(block.shape[1:])
            assert result.error is None
            assert_same(block.copy(), reference)
            continue
        assert_same(block.copy(), before)


@given(st.data(), SHAPES, st.sampled_from(DTYPES))
def test_gather_rows(data, shape, dtype):
    block = data.draw(arrays((data.draw(st.integers(0, 4)), *shape), dtype))
    index = data.draw(st.lists(st.integers(-1, 4), max_size=5))
    positions = np.array(
        index,
        data.draw(st.sampled_from(["i8", "i8", "i8", ">i8", "i4", "u1"]))
        if min(index, default=0) >= 0
        else "i8",
    )
    out = data.draw(arrays((len(index), *shape), data.draw(st.sampled_from([dtype, dtype, "f4"]))))
    before = out.copy()
    result = outcome(gather_rows, block, positions, out)
    inside = all(0 <= i < len(block) for i in index)
    if result.error is not None:
        assert isinstance(result.error, IndexError) and not inside
    elif result.result:
        assert inside
        assert_same(out.copy(), block[positions.astype("i8")].copy())
        return
    assert_same(out.copy(), before)


@given(
    st.integers(0, 64),
    SHAPES,
    st.sampled_from(["i1", "i4", ">f8", "g", "?"]),
    st.integers(-1, 9),
    st.integers(0, 3),
)
def test_view_rows(size, shape, dtype, n, offset):
    buffer = memoryview(bytearray(range(size + offset)))[offset:]
    fits = n >= 0 and n * int(np.prod(shape)) * np.dtype(dtype).itemsize == size
    result = outcome(view_rows, buffer, dtype, shape, n)
    if fits:
        expected = (
            np.frombuffer(buffer, dtype).reshape(n, *shape)
            if size
            else np.zeros((n, *shape), dtype)
        )
        assert_same(result.result, expected)
        assert result.result.flags.aligned == expected.flags.aligned or not size
    else:
        assert isinstance(result.error, ValueError)
