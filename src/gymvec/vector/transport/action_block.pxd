"""What other extension modules may use of actions in the segment."""

cimport numpy as cnp
from libc.stdint cimport int64_t


# The numbers of a contiguous int64 array, each in [0, n); another array is a ValueError.
cdef const int64_t* checked_envs(object envs, cnp.npy_intp n) except NULL


cdef class ActionBlock:
    cdef object _rows
    cdef object _codes
    cdef tuple _shape
    cdef char* _data
    cdef cnp.npy_uint8* _code
    cdef cnp.npy_intp _n
    cdef cnp.npy_intp _elements
    cdef int _ndim
    cdef cnp.npy_intp[cnp.NPY_MAXDIMS] _dims
    cdef list _descrs
    cdef dict _views
    cdef int put_array(
        self, cnp.ndarray array, int type_num, cnp.npy_intp count, const int64_t* where, object envs
    ) except -1
    cdef bint put_numbers(
        self, tuple actions, cnp.npy_intp count, const int64_t* where) except -1
    cdef object action(self, Py_ssize_t index)
