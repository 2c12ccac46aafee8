"""What other extension modules may use of the exchange of actions."""

cimport numpy as cnp


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
    cdef int put_array(self, cnp.ndarray array, int type_num) except -1
    cdef bint put_numbers(self, tuple actions) except -1
    cdef object action(self, Py_ssize_t index)
