"""What other extension modules may use of info slots."""

cimport numpy as cnp
from libc.stdint cimport uint32_t


cpdef enum:
    # Of one worker; further infos go by message. Number 0 stands for no info.
    MAX_SCHEMAS = 255


cpdef enum InfoPut:
    # Where the info of an environment is, or how it goes to the parent.
    IN_SLOT
    WITH_MESSAGE
    WITH_SCHEMA


cdef class Schema:
    cdef readonly tuple fields
    cdef readonly tuple signature
    cdef bint write(self, object info, char* slot) noexcept


cdef class SlotWriter:
    cdef readonly tuple new_schema
    cdef cnp.ndarray _slots
    cdef char* _data
    cdef Py_ssize_t _n
    cdef Py_ssize_t _size
    cdef list _schemas
    cdef list _latest
    cdef dict _numbers
    cdef int put_number(self, Py_ssize_t env, uint32_t number) except -1
    cdef InfoPut put_info(self, Py_ssize_t env, object info) except? WITH_MESSAGE
    cdef bint learn(self, Schema schema) except -1
