"""Kernels on whole blocks of rows: views of memory, and gathering. They decline as `_rows` does."""

cimport numpy as cnp
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.object cimport PyObject, PyObject_TypeCheck, PyTypeObject
from cpython.ref cimport Py_INCREF
from libc.stdint cimport int64_t

from gymvec.kernels.rows cimport Row, describe_block, describe_row, npy_intp

import ctypes

import numpy as np

cdef object CTYPES_ARRAY = ctypes.Array

cnp.import_array()

cdef extern from "rows.h" nogil:
    ctypedef enum gv_status:
        GV_OK
        GV_INDEX
    gv_status gv_total_bytes(size_t count, size_t size, size_t* total)
    gv_status gv_gather_rows(
        char* out, const char* block, size_t block_rows, const int64_t* index, size_t n,
        size_t row_bytes)

cdef extern from *:
    object PyArray_NewFromDescr(
        PyTypeObject* subtype, cnp.dtype descr, int ndim, const npy_intp* dims,
        const npy_intp* strides, void* data, int flags, PyObject* obj)


cdef inline bint apart(cnp.ndarray one, cnp.ndarray other) noexcept:
    """Whether two contiguous arrays share no byte."""
    cdef const char* first = <const char*>cnp.PyArray_DATA(one)
    cdef const char* second = <const char*>cnp.PyArray_DATA(other)
    return (
        first + cnp.PyArray_NBYTES(one) <= second or second + cnp.PyArray_NBYTES(other) <= first
    )


def gather_rows(cnp.ndarray block not None, index, cnp.ndarray out not None):
    """Copy ``block[index[i]]`` into ``out[i]``, as ``np.take(block, index, 0, out)`` does.

    Args:
        block: Array of shape ``(m, *row_shape)``.
        index: One-dimensional int64 array of ``n`` rows in ``[0, m)``.
        out: Array of shape ``(n, *row_shape)`` and the block's dtype.

    Returns:
        Whether it was done. Where not, nothing was touched.

    Raises:
        IndexError: An index is outside ``[0, m)``.
    """
    cdef Row row
    cdef int64_t* positions
    cdef size_t n
    cdef cnp.ndarray where
    if not describe_block(&row, out) or not cnp.PyArray_CheckExact(block):
        return False
    if not cnp.PyArray_CheckExact(index) or cnp.PyArray_NDIM(block) == 0:
        return False
    where = index
    if (
        cnp.PyArray_NDIM(where) != 1
        or cnp.PyArray_TYPE(where) != cnp.NPY_INT64
        or not cnp.PyArray_CHKFLAGS(where, cnp.NPY_ARRAY_CARRAY_RO)
        or not cnp.PyArray_ISNOTSWAPPED(where)
        or not cnp.PyArray_CHKFLAGS(block, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_ALIGNED)
        or cnp.PyArray_TYPE(block) != row.type_num
        or cnp.PyArray_ISNOTSWAPPED(block) != row.native
        or np.shape(block)[1:] != np.shape(out)[1:]
    ):
        return False
    n = <size_t>cnp.PyArray_DIM(where, 0)
    if n != <size_t>cnp.PyArray_DIM(out, 0):
        return False
    # Written rows would change what is still to be read, the checked index included.
    if not apart(block, out) or not apart(where, out):
        return False
    positions = <int64_t*>cnp.PyArray_DATA(where)
    if gv_gather_rows(
        <char*>cnp.PyArray_DATA(out), <const char*>cnp.PyArray_DATA(block),
        <size_t>cnp.PyArray_DIM(block, 0), positions, n, row.nbytes,
    ) == GV_INDEX:
        raise IndexError(f"an index of {index!r} is outside [0, {len(block)})")
    return True


def view_rows(buffer, dtype, shape, n):
    """The ``n`` rows that lie in a buffer, as an array on the same memory.

    Args:
        buffer: Any object with the buffer protocol. The array keeps it alive.
        dtype: dtype of an element.
        shape: Shape of one row.
        n: Number of rows.

    Returns:
        Array of shape ``(n, *shape)``, writable where the buffer is.

    Raises:
        ValueError: The buffer's size is not that of ``n`` rows.
    """
    return view_block(buffer, np.dtype(dtype), tuple(shape), n)


cdef cnp.ndarray view_block(object buffer, cnp.dtype dtype, tuple shape, Py_ssize_t n):
    cdef npy_intp[cnp.NPY_MAXDIMS] dims
    cdef int ndim = <int>len(shape)
    cdef int i
    cdef Py_ssize_t size  # As an index: a float is none.
    cdef Row row
    cdef size_t total
    cdef object memory = buffer
    cdef Py_buffer view
    cdef cnp.ndarray rows
    if ndim >= cnp.NPY_MAXDIMS:
        raise ValueError(f"expected at most {cnp.NPY_MAXDIMS - 1} dimensions, got {ndim}")
    dims[0] = n
    for i in range(ndim):
        size = shape[i]
        dims[i + 1] = size
    if not describe_row(&row, dtype, ndim, dims + 1):
        raise ValueError(f"expected a dtype of numbers, got {dtype}")
    if n < 0 or gv_total_bytes(<size_t>n, row.nbytes, &total) != GV_OK:
        raise ValueError(f"expected a number of rows that fit memory, got {n}")
    if not PyObject_TypeCheck(buffer, <PyTypeObject*>CTYPES_ARRAY):
        # Holding the memory still; a ctypes array does not count who looks at it anyway.
        memory = memoryview(buffer)
    PyObject_GetBuffer(memory, &view, PyBUF_SIMPLE)
    PyBuffer_Release(&view)
    if total != <size_t>view.len:
        raise ValueError(
            f"expected memory for {n} rows of shape {shape} and dtype {dtype}, which "
            f"is {total} bytes, got {view.len} bytes"
        )
    Py_INCREF(dtype)  # PyArray_NewFromDescr takes a reference away.
    rows = PyArray_NewFromDescr(
        <PyTypeObject*>cnp.ndarray, dtype, ndim + 1, dims, NULL, view.buf,
        0 if view.readonly else cnp.NPY_ARRAY_WRITEABLE, NULL)
    cnp.set_array_base(rows, memory)
    return rows
