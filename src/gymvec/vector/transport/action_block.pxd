"""What other extension modules may use of actions in the segment."""

cimport numpy as cnp
from libc.stdint cimport int64_t


# The numbers of a contiguous int64 array, each in [0, n); another array is a ValueError.
cdef const int64_t* checked_envs(object envs, cnp.npy_intp n) except NULL


cdef class ActionBlock:
    cdef cnp.ndarray _rows
    cdef cnp.ndarray _codes
    cdef char* _data
    cdef cnp.npy_uint8* _code
    cdef cnp.npy_intp _n
    cdef cnp.npy_intp _elements
    cdef int _ndim
    cdef cnp.npy_intp[cnp.NPY_MAXDIMS] _dims
    cdef list _descrs
    cdef bint has_kind(self, int type_num) noexcept
    cdef bint has_shape(self, cnp.ndarray array, cnp.npy_intp count) noexcept
    cdef void put_array(
        self, cnp.ndarray array, cnp.npy_intp count, const int64_t* where) noexcept
    cdef void put_numbers(
        self, tuple actions, cnp.npy_intp count, const int64_t* where) noexcept
    cdef object action(self, Py_ssize_t index)
