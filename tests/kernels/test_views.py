"""The kernels that look at whole blocks: gather_rows and view_rows."""

import mmap
import multiprocessing as mp

import numpy as np
import pytest
from equality import assert_same
from kernels.test_rows import OTHER, PLAIN, SHAPES, Subclass, declines, misaligned, numbers
from names import name_of

from gymvec.kernels.rows import gather_rows, view_rows


class TestGatherRows:
    """gather_rows(block, index, out)."""

    @pytest.mark.parametrize("shape", SHAPES, ids=name_of)
    @pytest.mark.parametrize("dtype", PLAIN)
    def test_copies_bytes(self, dtype, shape):
        block, index = numbers((5, *shape), dtype), np.array([4, 0, 0, 2])
        out = np.zeros((4, *shape), dtype)
        assert gather_rows(block, index, out) is True
        assert_same(out, block[index])

    def test_no_rows_and_read_only_sources(self):
        block, index = np.arange(6).reshape(3, 2), np.array([2, 1])
        block.flags.writeable = index.flags.writeable = False
        out = np.zeros((2, 2), int)
        assert gather_rows(block, index, out) and out.tolist() == [[4, 5], [2, 3]]
        assert gather_rows(block, np.zeros(0, int), np.zeros((0, 2), int)) is True

    @pytest.mark.parametrize("bad", [3, -1, 2**62, -(2**63)])
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_an_index_outside(self, bad, place):
        block, out, index = np.ones((3, 2)), np.full((3, 2), 7.0), np.zeros(3, int)
        index[place] = bad
        with pytest.raises(IndexError):
            gather_rows(block, index, out)
        assert (out == 7).all()

    def test_odd_arguments(self):
        block, index, out = np.ones((3, 2)), np.array([2, 1]), np.zeros((2, 2))
        read_only = np.zeros((2, 2))
        read_only.flags.writeable = False
        for arguments in (
            (np.ones((6, 2))[::2], index, out),
            (np.ones((2, 3)).T, index, out),
            (misaligned((3, 2), "f8"), index, out),
            (block.view(Subclass), index, out),
            (block.astype("f4"), index, out),
            (block.astype(">f8"), index, out),
            (np.ones(3), index, out),
            (np.ones((3, 3)), index, out),
            (block, [2, 1], out),
            (block, index.astype("i4"), out),
            (block, index.astype("u8"), out),
            (block, index[::-1], out),
            (block, index[:1], out),
            (block, np.array([[2, 1]]), out),
            (block, index.view(Subclass), out),
            (block, np.array(1), out),
            (block, misaligned((2,), "i8"), out),
            (block, index.astype(">i8"), out),
            (block, None, out),
            (block, index, read_only),
            (block, index, np.zeros((4, 2))[::2]),
            (block, index, np.zeros((2, 4))[:, ::2]),
            (block, index, misaligned((2, 2), "f8")),
            (block, index, out.view(Subclass)),
            (block, index, np.zeros((3, 2))),
            (block, index, np.zeros((2, 2), "f4")),
            (np.ones(()), index, out),
            (block, index, np.zeros(())),
        ):
            assert declines(gather_rows, *arguments, touched=arguments[2])
        for arguments in ((None, index, out), (block, index, None), ([1.0], index, out)):
            with pytest.raises(TypeError):
                gather_rows(*arguments)

    @pytest.mark.parametrize("dtype", OTHER, ids=name_of)
    def test_other_dtypes(self, dtype):
        out = np.zeros((1, 2), dtype)
        assert gather_rows(np.zeros((3, 2), dtype), np.array([1]), out) is False

    def test_a_target_that_overlaps_the_block(self):
        for first, order in ((0, [1, 0, 2]), (1, [0, 0, 1]), (0, [2, 1, 0])):
            memory, reference = np.arange(12), np.arange(12)
            block, out = memory[:6].reshape(3, 2), memory[2 * first : 2 * first + 6].reshape(3, 2)
            expected = reference[:6].reshape(3, 2)[order]
            if gather_rows(block, np.array(order), out):
                assert_same(out.copy(), expected)
            else:
                assert_same(memory, reference)

    def test_a_target_that_overlaps_the_index(self):
        block = np.arange(100, 103)
        for start in (0, 1, 2):
            memory = np.array([2, 1, 0, 1, 2, 0])
            index, out = memory[start : start + 3], memory[1:4]
            expected = block[index]
            if gather_rows(block, index, out):
                assert_same(out.copy(), expected)
            else:
                assert memory.tolist() == [2, 1, 0, 1, 2, 0]


class TestViewRows:
    """view_rows(buffer, dtype, shape, n)."""

    @pytest.mark.parametrize("n", [0, 1, 4])
    @pytest.mark.parametrize("shape", SHAPES, ids=name_of)
    @pytest.mark.parametrize("dtype", PLAIN)
    def test_rows_of_a_buffer(self, dtype, shape, n):
        rows = numbers((n, *shape), dtype)
        buffer = bytearray(rows.tobytes())
        view = view_rows(buffer, dtype, shape, n)
        assert_same(view, rows)
        if view.size:
            view[...] = 1
            again = np.frombuffer(buffer, dtype).reshape(n, *shape)
            assert_same(again, np.ones((n, *shape), dtype))

    def test_other_buffers(self, tmp_path):
        for buffer in (
            mp.Array("i", 6).get_obj(),
            mp.RawArray("i", 6),
            mmap.mmap(-1, 24),
            np.zeros((2, 3), np.int32),
            memoryview(bytearray(24)),
            np.zeros((3, 2), np.float32),
            np.memmap(tmp_path / "m", "u1", "w+", shape=24),
        ):
            view = view_rows(buffer, np.int32, (3,), np.int8(2))
            assert view.shape == (2, 3) and view.dtype == np.int32 and view.flags.writeable
            view[1, 2] = -1
            assert bytes(memoryview(buffer).cast("B"))[-4:] == b"\xff" * 4
            assert view.flags.c_contiguous and not view.flags.owndata
        assert not view_rows(bytes(8), np.int32, (), 2).flags.writeable

    def test_alignment(self):
        view = view_rows(memoryview(bytearray(9))[1:], np.float64, (), 1)
        assert view.flags.aligned is (view.ctypes.data % 8 == 0)

    def test_the_buffer_is_kept(self):
        buffer = bytearray(8)
        view = view_rows(buffer, "u1", (4,), 2)
        with pytest.raises(BufferError):
            buffer.extend(b"x")
        buffer[0] = 9
        del buffer
        assert view[0, 0] == 9

    @pytest.mark.parametrize("size", [0, 23, 25, 48, 4])
    def test_another_size(self, size):
        with pytest.raises(ValueError):
            view_rows(bytearray(size), np.int32, (3,), 2)

    @pytest.mark.parametrize(
        "shape, n",
        [
            ((-1,), 1),
            ((3,), -2),
            ((2**62, 2**62), 2),
            ((2**63 - 1,), 2**63 - 1),
            ((0,), 2),
            ((1,) * 64, 6),
            ((3, 0), 2),
        ],
        ids=name_of,
    )
    def test_impossible_sizes(self, shape, n):
        with pytest.raises(ValueError):
            view_rows(bytearray(24), np.int32, shape, n)

    @pytest.mark.parametrize(
        "arguments, error",
        [
            ((None, "i4", (3,), 2), TypeError),
            ((object(), "i4", (3,), 2), TypeError),
            (("text", "i4", (3,), 2), TypeError),
            ((bytearray(24), "i4", 3, 2), TypeError),
            ((bytearray(24), "i4", (3.0,), 2), TypeError),
            ((bytearray(24), "i4", (3,), 2.0), TypeError),
            ((bytearray(24), "i4", (3,), None), TypeError),
            ((bytearray(24), "nonsense", (3,), 2), TypeError),
            ((bytearray(24)[::2], "i4", (3,), 2), ValueError),
            ((memoryview(bytearray(48))[::2], "i4", (3,), 2), (ValueError, BufferError)),
            ((np.zeros((2, 6), "i4")[:, ::2], "i4", (3,), 2), (ValueError, BufferError)),
        ],
        ids=name_of,
    )
    def test_wrong_arguments(self, arguments, error):
        with pytest.raises(error):
            view_rows(*arguments)

    def test_objects_are_never_made_of_bytes(self):
        with pytest.raises(ValueError):
            view_rows(bytearray(8), object, (), 1)
        with pytest.raises(ValueError):
            view_rows(bytearray(8), [("a", object)], (), 1)

    def test_many_dimensions(self):
        # One less than NumPy's most, which was 32 before NumPy 2.
        shape = (1,) * (62 if np.__version__ >= "2" else 31)
        view = view_rows(bytearray(8), "u1", shape, 8)
        assert view.shape == (8, *shape)
