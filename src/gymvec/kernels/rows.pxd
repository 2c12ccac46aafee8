"""What other extension modules may use of the row kernels."""

cimport numpy as cnp
from cpython.object cimport PyTypeObject

ctypedef cnp.npy_intp npy_intp

cdef enum:
    # Giving the GIL up and taking it back costs what copying tens of kilobytes costs, and
    # far more where another thread takes it meanwhile.
    GIL_FREE_BYTES = 1 << 20


cdef struct Row:
    # Shape and element of one row of a block. `dims` is borrowed from an array or a shape
    # that outlives the struct.
    int type_num
    int ndim
    const npy_intp* dims
    size_t itemsize
    size_t nbytes
    bint native
    PyTypeObject* scalar


# Whether rows of this dtype can be copied as bytes, and how. False declines.
cdef bint describe_row(Row* row, cnp.dtype dtype, int ndim, const npy_intp* dims) except -1

# The same of the rows of a writable block.
cdef bint describe_block(Row* row, cnp.ndarray block) except -1

# The bytes of `item` as a row; a converted value is put into `scratch`, which holds one row.
# NULL declines.
cdef const char* row_of(object item, const Row* row, char* scratch, bint stacking) noexcept

# Any integer type as a number. It may run the caller's code: before anything is looked at.
cdef Py_ssize_t as_index(object index) except? -1

# IndexError outside [0, n).
cdef Py_ssize_t checked_index(Py_ssize_t i, Py_ssize_t n) except -1

cdef bint stack(object items, cnp.ndarray out) except -1
cdef bint put_row(char* target, const Row* row, object value) except -1
cdef object assign_row(cnp.ndarray target, object value)

# The `n` rows that lie in a buffer, as an array on the same memory.
cdef cnp.ndarray view_block(object buffer, cnp.dtype dtype, tuple shape, Py_ssize_t n)


cdef class RowWriter:
    cdef Row _row
    cdef cnp.ndarray _target
    cdef bint _plain
    cdef int put(self, object value) except -1
