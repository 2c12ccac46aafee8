"""Kernels on rows of arrays. They know arrays, not spaces.

A kernel looks at its arguments first and then does the whole job (``True``), or touches
nothing and returns ``False``, or raises for a wrong index, size or count, which it checks
before declining. What is declined goes to the NumPy expression that defines the result.
"""

cimport cython
cimport numpy as cnp
from cpython.bool cimport PyBool_Check
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport Py_TYPE, PyObject, PyObject_TypeCheck, PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove

from gymvec.kernels.arrays cimport READ, WRITE, is_array, is_contiguous
from gymvec.kernels.capi cimport NPY_HALF, PyLong_AsLongLongAndOverflow

import ctypes

import numpy as np

cnp.import_array()

cdef object CTYPES_ARRAY = ctypes.Array

ctypedef const char* const_bytes

cdef extern from "rows.h" nogil:
    bint gv_total_bytes(size_t count, size_t size, size_t* total)
    void gv_stack_rows(char* block, const char* const* rows, size_t n, size_t row_bytes)
    bint gv_gather_rows(
        char* out, const char* block, size_t block_rows, const int64_t* index, size_t n,
        size_t row_bytes)
    bint gv_narrow_row(float* out, const double* values, size_t n)
    bint gv_put_integer(char* out, size_t size, bint is_signed, int64_t value)

cdef extern from *:
    """
    #include <numpy/arrayscalars.h>

    #ifdef Py_GIL_DISABLED
    #define GV_FREE_THREADED 1
    #else
    #define GV_FREE_THREADED 0
    #endif

    /* Where a NumPy scalar keeps its value; NULL for a kind that is not copied as bytes. */
    static const char *gv_scalar_value(PyObject *scalar, int type_num)
    {
    #define GV_VALUE(name) return (const char *)&PyArrayScalar_VAL(scalar, name)
        switch (type_num) {
        case NPY_BOOL: GV_VALUE(Bool);
        case NPY_BYTE: GV_VALUE(Byte);
        case NPY_UBYTE: GV_VALUE(UByte);
        case NPY_SHORT: GV_VALUE(Short);
        case NPY_USHORT: GV_VALUE(UShort);
        case NPY_INT: GV_VALUE(Int);
        case NPY_UINT: GV_VALUE(UInt);
        case NPY_LONG: GV_VALUE(Long);
        case NPY_ULONG: GV_VALUE(ULong);
        case NPY_LONGLONG: GV_VALUE(LongLong);
        case NPY_ULONGLONG: GV_VALUE(ULongLong);
        case NPY_HALF: GV_VALUE(Half);
        case NPY_FLOAT: GV_VALUE(Float);
        case NPY_DOUBLE: GV_VALUE(Double);
        case NPY_LONGDOUBLE: GV_VALUE(LongDouble);
        default: return NULL;
        }
    #undef GV_VALUE
    }
    """
    const bint FREE_THREADED "GV_FREE_THREADED"
    const char* gv_scalar_value(PyObject* scalar, int type_num) noexcept
    PyObject** PySequence_Fast_ITEMS(object list_or_tuple) noexcept
    Py_ssize_t PyNumber_AsSsize_t(object index, object error) except? -1
    object PyArray_NewFromDescr(
        PyTypeObject* subtype, cnp.dtype descr, int ndim, const npy_intp* dims,
        const npy_intp* strides, void* data, int flags, PyObject* obj)

cdef enum:
    # What fits these needs no allocation: 256 environments, a row of 256 doubles.
    LOCAL_ROWS = 256
    LOCAL_SCRATCH = 2048


# --- one row ---------------------------------------------------------------------------

cdef bint describe_row(Row* row, cnp.dtype dtype, int ndim, const npy_intp* dims) except -1:
    cdef int i
    cdef size_t count = 1
    row.nbytes = 0
    if dtype is None:
        raise TypeError("expected a dtype, got None")
    if dtype.type_num > cnp.NPY_LONGDOUBLE and dtype.type_num != NPY_HALF:
        return False
    row.type_num = dtype.type_num
    row.ndim = ndim
    row.dims = dims
    row.itemsize = <size_t>dtype.itemsize
    for i in range(ndim):
        if dims[i] < 0 or not gv_total_bytes(count, <size_t>dims[i], &count):
            raise ValueError(f"shape dimension {dims[i]} is not a possible size")
    if not gv_total_bytes(count, row.itemsize, &row.nbytes):
        raise ValueError(f"a row of {count} elements of {dtype} is larger than memory")
    row.native = cnp.PyArray_ISNBO(dtype.byteorder)
    row.scalar = dtype.typeobj
    return True


cdef inline bint is_row(cnp.ndarray array, const Row* row) noexcept:
    cdef int i
    cdef const npy_intp* dims = cnp.PyArray_DIMS(array)
    if not cnp.PyArray_CHKFLAGS(array, READ):
        return False
    if cnp.PyArray_NDIM(array) != row.ndim:
        return False
    for i in range(row.ndim):
        if dims[i] != row.dims[i]:
            return False
    return True


cdef const char* row_of(
    object item, const Row* row, char* scratch, bint stacking
) noexcept:
    cdef cnp.ndarray array
    cdef int type_num
    if cnp.PyArray_CheckExact(item):
        array = <cnp.ndarray>item
        if not is_row(array, row):
            return NULL
        type_num = cnp.PyArray_TYPE(array)
        if cnp.PyArray_ISNOTSWAPPED(array) != row.native:
            return NULL
        if type_num == row.type_num:
            return <const char*>cnp.PyArray_DATA(array)
        if (
            type_num == cnp.NPY_DOUBLE
            and row.type_num == cnp.NPY_FLOAT
            and row.native
            and scratch is not NULL
        ):
            if gv_narrow_row(
                <float*>scratch, <const double*>cnp.PyArray_DATA(array),
                row.nbytes // row.itemsize,
            ):
                return scratch
        return NULL
    if not row.native or row.nbytes != row.itemsize or (stacking and row.ndim != 0):
        return NULL
    if Py_TYPE(item) == row.scalar:
        return gv_scalar_value(<PyObject*>item, row.type_num)
    if scratch is not NULL and number_row(item, row, scratch, stacking):
        return scratch
    return NULL


cdef bint number_row(object item, const Row* row, char* scratch, bint stacking) noexcept:
    """Put a Python bool, int or float into ``scratch`` where NumPy's result is the same."""
    cdef int overflow = 0
    cdef long long integer
    cdef double real
    cdef bint is_bool = PyBool_Check(item)
    if PyFloat_CheckExact(item):
        real = PyFloat_AS_DOUBLE(item)
        return real_row(real, row, scratch)
    if not is_bool and not PyLong_CheckExact(item):
        return False
    integer = PyLong_AsLongLongAndOverflow(item, &overflow)
    if overflow:
        return False
    if row.type_num == cnp.NPY_BOOL:
        scratch[0] = <char>integer
        return is_bool
    if row.type_num == cnp.NPY_FLOAT and not -(1 << 24) <= integer <= 1 << 24:
        # Not exact in float32, so the way of rounding would matter.
        return False
    if row.type_num == cnp.NPY_FLOAT or row.type_num == cnp.NPY_DOUBLE:
        return real_row(<double>integer, row, scratch)
    if row.type_num > cnp.NPY_ULONGLONG:
        return False
    # NumPy numbers the integer types in pairs, the signed one first.
    if row.type_num % 2 == cnp.NPY_BYTE % 2:
        return gv_put_integer(scratch, row.itemsize, True, integer)
    # np.stack refuses to cast signed to unsigned; np.asarray takes what fits.
    return not stacking and gv_put_integer(scratch, row.itemsize, False, integer)


cdef inline bint real_row(double value, const Row* row, char* scratch) noexcept:
    if row.type_num == cnp.NPY_DOUBLE:
        memcpy(scratch, &value, sizeof(value))
        return True
    return row.type_num == cnp.NPY_FLOAT and gv_narrow_row(<float*>scratch, &value, 1)


cdef bint put_row(char* target, const Row* row, object value) except -1:
    """Write one row; False declines."""
    cdef char[LOCAL_SCRATCH] local
    cdef char* scratch = local
    cdef const char* source
    if row.nbytes > LOCAL_SCRATCH:
        scratch = NULL
        if row.type_num == cnp.NPY_FLOAT:
            scratch = <char*>PyMem_RawMalloc(row.nbytes)
            if scratch is NULL:
                raise MemoryError()
    source = row_of(value, row, scratch, False)
    if source is not NULL:
        memmove(target, source, row.nbytes)
    if scratch is not local:
        PyMem_RawFree(scratch)
    return source is not NULL


cdef Py_ssize_t as_index(object index) except? -1:
    # A number too large for Py_ssize_t is an IndexError too.
    return PyNumber_AsSsize_t(index, IndexError)


cdef Py_ssize_t checked_index(Py_ssize_t i, Py_ssize_t n) except -1:
    if not 0 <= i < n:
        raise IndexError(f"index {i} is outside [0, {n})")
    return i


class RowSizeError(ValueError):
    """A value has another number of elements than its row."""


cdef object assign_row(cnp.ndarray target, object value):
    """Write one row as NumPy does, after the count of elements is checked."""
    row = np.asarray(value, dtype=target.dtype)
    if row.size != target.size:
        raise RowSizeError(
            f"expected one row of shape {np.shape(target)}, got a value of shape {row.shape}"
        )
    np.copyto(target, row.reshape(np.shape(target)))


# --- blocks ----------------------------------------------------------------------------

cdef inline cnp.dtype dtype_of(cnp.ndarray array):
    return <cnp.dtype><PyObject*>cnp.PyArray_DESCR(array)


cdef bint describe_block(Row* row, cnp.ndarray block) except -1:
    """Describe the rows of a writable block that can be copied as bytes."""
    return (
        is_contiguous(block, WRITE)
        and cnp.PyArray_NDIM(block) > 0
        and describe_row(
            row, dtype_of(block), cnp.PyArray_NDIM(block) - 1,
            cnp.PyArray_DIMS(block) + 1,
        )
    )


cdef bint stack(object items, cnp.ndarray out) except -1:
    """Copy each item of a list or tuple into its row of ``out``; False declines."""
    cdef Row row
    cdef const_bytes[LOCAL_ROWS] local_rows
    cdef char[LOCAL_SCRATCH] local_scratch
    cdef const_bytes* rows = local_rows
    cdef char* scratch = NULL
    cdef char* block = <char*>cnp.PyArray_DATA(out)
    cdef PyObject** values
    cdef size_t n, i, total
    cdef bint fits = True
    if not describe_block(&row, out):
        return False
    n = <size_t>cnp.PyArray_DIM(out, 0)
    total = n * row.nbytes
    if FREE_THREADED or total >= GIL_FREE_BYTES:
        # Own each item: it may vanish from a list that others can reach.
        items = tuple(items)
    if n == 0 or n != <size_t>len(items):
        return False
    values = PySequence_Fast_ITEMS(items)
    try:
        if n > LOCAL_ROWS:
            rows = <const_bytes*>PyMem_RawMalloc(n * sizeof(char*))
            if rows is NULL:
                raise MemoryError()
        # Where the first item needs no conversion, one that needs it later is declined.
        if not is_plain(<object>values[0], &row):
            scratch = local_scratch
            if total > LOCAL_SCRATCH:
                scratch = <char*>PyMem_RawMalloc(total)
                if scratch is NULL:
                    raise MemoryError()
        for i in range(n):
            rows[i] = row_of(
                <object>values[i], &row,
                NULL if scratch is NULL else scratch + i * row.nbytes, True)
            if rows[i] is NULL:
                fits = False
                break
        if fits and total >= GIL_FREE_BYTES:
            with nogil:
                gv_stack_rows(block, rows, n, row.nbytes)
        elif fits:
            gv_stack_rows(block, rows, n, row.nbytes)
    finally:
        if rows is not local_rows:
            PyMem_RawFree(rows)
        if scratch is not local_scratch:
            PyMem_RawFree(scratch)
    return fits


cdef inline bint is_plain(object item, const Row* row) noexcept:
    return (
        cnp.PyArray_CheckExact(item)
        and cnp.PyArray_TYPE(<cnp.ndarray>item) == row.type_num
    )


def stack_rows(items not None, cnp.ndarray out not None):
    """Copy ``items[i]`` into ``out[i]``, as ``np.stack(items, axis=0, out=out)`` does.

    Args:
        items: A list or tuple of ``n`` values of the row's shape and dtype.
        out: The block, of shape ``(n, *row_shape)``.

    Returns:
        Whether it was done. Where not, nothing was touched.
    """
    if not PyList_CheckExact(items) and not PyTuple_CheckExact(items):
        return False
    return stack(items, out)


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
    if not describe_block(&row, out) or not is_array(index, cnp.NPY_INT64, 1, READ):
        return False
    where = index
    if (
        not is_contiguous(block, READ)
        or cnp.PyArray_NDIM(block) == 0
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
    if not gv_gather_rows(
        <char*>cnp.PyArray_DATA(out), <const char*>cnp.PyArray_DATA(block),
        <size_t>cnp.PyArray_DIM(block, 0), positions, n, row.nbytes,
    ):
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
    if n < 0 or not gv_total_bytes(<size_t>n, row.nbytes, &total):
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


def write_row(cnp.ndarray block not None, index, value):
    """Write ``value`` into ``block[index]``.

    Args:
        block: Array of shape ``(n, *row_shape)``.
        index: Row, any integer type, in ``[0, n)``.
        value: Array or number of the row's shape and dtype.

    Returns:
        Whether it was done. Where not, nothing was touched.

    Raises:
        IndexError: ``index`` is outside ``[0, n)``, whatever the value.
    """
    cdef Row row
    # First: an index of the caller's own class may give the block another shape.
    cdef Py_ssize_t i = as_index(index)
    if cnp.PyArray_NDIM(block) == 0:
        raise ValueError("expected a block of rows, got an array without dimensions")
    checked_index(i, cnp.PyArray_DIM(block, 0))
    if not describe_block(&row, block):
        return False
    return put_row(<char*>cnp.PyArray_DATA(block) + <size_t>i * row.nbytes, &row, value)


@cython.final
cdef class RowWriter:
    """Writes values into one row of a block: everything but the value is known beforehand.

    Args:
        block: Writable array of shape ``(n, *row_shape)``. The writer keeps it alive.
        index: Row in ``[0, n)``.
    """

    def __cinit__(self, cnp.ndarray block not None, index):
        cdef Py_ssize_t i = as_index(index)
        if block.ndim == 0:
            raise ValueError("expected a block of rows, got an array without dimensions")
        checked_index(i, block.shape[0])
        # A view of its own: no other code can change its shape.
        self._target = np.asarray(block)[i, ...]
        self._plain = (
            is_contiguous(self._target, WRITE)
            and describe_row(
                &self._row, dtype_of(self._target), self._target.ndim,
                cnp.PyArray_DIMS(self._target))
        )

    def __call__(self, value):
        """Write ``value`` into the row.

        Raises:
            ValueError: The value does not have the row's number of elements.
        """
        self.put(value)

    cdef int put(self, object value) except -1:
        if not self._plain or not put_row(
            <char*>cnp.PyArray_DATA(self._target), &self._row, value
        ):
            assign_row(self._target, value)
        return 0
