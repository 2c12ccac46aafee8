"""What other extension modules may use of the gathering of infos."""

cimport numpy as cnp

from gymvec.kernels.rows cimport Row


cdef class InfoColumn:
    cdef object key
    cdef object array
    cdef InfoBatch nested
    cdef object mask
    cdef cnp.npy_bool* marks
    cdef char* data
    cdef cnp.npy_intp* dims
    cdef int ndim
    cdef Row row
    cdef bint plain
    cdef bint is_double
    cdef Py_ssize_t position
    cdef bint is_bound(self) noexcept


cdef class InfoBatch:
    cdef readonly dict infos
    cdef Py_ssize_t _n
    cdef list _columns
    cdef dict _by_key
    cdef int put(self, object info, Py_ssize_t index) except -1
    cdef int put_in_column(
        self, InfoColumn column, object value, Py_ssize_t index, object position) except -1
    cdef InfoColumn first(self, object key, object value, Py_ssize_t index, object position)
