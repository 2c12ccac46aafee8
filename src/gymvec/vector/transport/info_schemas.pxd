"""What other extension modules may use of info slots."""

from libc.stdint cimport uint32_t


cpdef enum:
    # Of one worker; further infos go by message. Number 0 stands for no info.
    MAX_SCHEMAS = 255


cdef class Schema:
    cdef readonly tuple columns
    cdef readonly tuple signature
    cdef bint write(self, object info, char* slot) noexcept


cdef class SlotWriter:
    cdef object _slots
    cdef char* _data
    cdef Py_ssize_t _n
    cdef Py_ssize_t _size
    cdef list _schemas
    cdef list _latest
    cdef dict _numbers
    cdef int put_number(self, Py_ssize_t env, uint32_t number) except -1
    cdef object put_info(self, Py_ssize_t env, object info)
    cdef object learn(self, Schema schema)
