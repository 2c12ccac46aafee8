"""What other extension modules may use of a worker's side of the control words."""

from libc.stdint cimport int32_t, uint32_t

from gymvec.vector.transport.control cimport _Mapping, gv_worker


cdef class Worker(_Mapping):
    cdef gv_worker *_handle
    cdef bint _polling
    cdef readonly uint32_t opcode
    cdef int32_t next_env(self) except -2
    cdef int give(self, Py_ssize_t env) except -1
    cdef int publish(self) except -1
