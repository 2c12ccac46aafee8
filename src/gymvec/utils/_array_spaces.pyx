"""Compiled handlers of the four array spaces: Box, Discrete, MultiDiscrete, MultiBinary."""

cimport numpy as cnp
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.list cimport PyList_CheckExact
from cpython.tuple cimport PyTuple_CheckExact

from gymvec.kernels.rows cimport (
    Row, as_index, assign_row, checked_index, describe_row, npy_intp, put_row, stack, view_block,
)

import numpy as np

from gymvec.kernels.rows import RowSizeError

cnp.import_array()

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX


def concatenate(space, items, out):
    """Stack one item of each environment into ``out``: ``np.stack(list(items), out=out)``.

    An error leaves ``out`` as it was.
    """
    if not PyList_CheckExact(items) and not PyTuple_CheckExact(items):
        items = list(items)
    if cnp.PyArray_CheckExact(out) and stack(items, <cnp.ndarray>out):
        return out
    return stack_by_numpy(items, out)


cdef object stack_by_numpy(items, out):
    cdef list arrays = [np.asanyarray(item) for item in items]
    if not isinstance(out, np.ndarray) or all([array.dtype == out.dtype for array in arrays]):
        return np.stack(arrays, axis=0, out=out)
    # A cast may fail when rows before it are already written.
    saved = out.copy()
    try:
        return np.stack(arrays, axis=0, out=out)
    except BaseException:
        if out.flags.writeable:
            out[...] = saved
        raise


cdef object shared_buffer(space, shared_memory):
    try:
        return shared_memory.get_obj()
    except AttributeError:
        raise ValueError(
            f"expected the shared memory that create_shared_memory makes for {space}, "
            f"got {type(shared_memory)}"
        ) from None


def write(space, index, value, shared_memory):
    """Write one environment's value into its row of the shared memory.

    Raises:
        IndexError: ``index`` is outside the rows that the memory holds.
        ValueError: The value has another number of elements than a row, or the memory is not
            a whole number of rows.
    """
    cdef Row row
    cdef npy_intp[cnp.NPY_MAXDIMS] dims
    cdef tuple shape = space.shape
    cdef cnp.dtype dtype = space.dtype
    cdef Py_buffer view
    cdef Py_ssize_t position = as_index(index)
    cdef bint done = False
    cdef int ndim = 0
    buffer = shared_buffer(space, shared_memory)
    for size in shape:
        if ndim == cnp.NPY_MAXDIMS:
            raise ValueError(f"expected at most {cnp.NPY_MAXDIMS} dimensions, got {len(shape)}")
        dims[ndim] = size
        ndim += 1
    if not describe_row(&row, dtype, ndim, dims):
        raise ValueError(f"expected a space with a dtype of numbers, got {dtype} of {space}")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE | PyBUF_WRITABLE)
    try:
        if row.nbytes == 0:
            # Rows without bytes cannot be counted.
            checked_index(position, PY_SSIZE_T_MAX)
        elif <size_t>view.len % row.nbytes != 0:
            raise ValueError(
                f"expected shared memory of whole rows of {row.nbytes} bytes for {space}, "
                f"got {view.len} bytes"
            )
        else:
            checked_index(position, view.len // <Py_ssize_t>row.nbytes)
            done = put_row(<char*>view.buf + <size_t>position * row.nbytes, &row, value)
        if not done:
            write_by_numpy(space, position, value, buffer)
    finally:
        PyBuffer_Release(&view)


cdef object write_by_numpy(space, Py_ssize_t position, value, buffer):
    cdef Py_ssize_t n = 1
    size = int(np.prod(space.shape)) * space.dtype.itemsize
    if size == 0:
        position = 0
        target = np.empty(space.shape, space.dtype)
    else:
        n = memoryview(buffer).nbytes // size
        target = view_block(buffer, space.dtype, space.shape, n)[position, ...]
    try:
        assign_row(target, value)
    except RowSizeError as error:
        raise ValueError(f"{error} for {space}") from None


def read(space, shared_memory, n=1):
    """The rows of all environments, as an array on the shared memory.

    Raises:
        ValueError: The memory does not hold exactly ``n`` rows.
    """
    return view_block(shared_buffer(space, shared_memory), space.dtype, space.shape, n)


def view(space, shared_memory, dtype, shape, n):
    """The rows in a shared memory that is not laid out by the space's own dtype and shape.

    Args:
        space: Named in errors.
        shared_memory: A ``multiprocessing.Array``.
        dtype: dtype of an element.
        shape: Shape of one row.
        n: Number of rows; ``None`` for as many as there are.

    Raises:
        ValueError: The memory does not hold exactly ``n`` rows.
    """
    buffer = shared_buffer(space, shared_memory)
    if n is None:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        n = memoryview(buffer).nbytes // size if size else 0
    return view_block(buffer, np.dtype(dtype), shape, n)


def row_index(index, Py_ssize_t n):
    """``index``, any integer type, as a row in ``[0, n)``; IndexError outside."""
    return checked_index(as_index(index), n)
