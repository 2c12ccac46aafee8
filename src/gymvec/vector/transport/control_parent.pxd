"""What other extension modules may use of the parent's side of the control words."""

from libc.stdint cimport int64_t, uint32_t

from gymvec.vector.transport.control cimport _Mapping, gv_parent


cdef class Parent(_Mapping):
    cdef gv_parent *_handle
    cdef int64_t *_ids
    cdef uint32_t _num_envs
    cdef Py_ssize_t _convert(self, object env_ids) except -1
    cdef Py_ssize_t _copy_ids(self, Py_buffer *view) except -2
    cdef uint32_t _queue(self, object worker) except? 1
    cdef int send_to_all(self, uint32_t opcode, bint immediate) except -1
    cdef uint32_t wait_for(self, Py_ssize_t count, double timeout_s) except? 0
    cdef uint32_t take_all(self) except? 0
    cdef uint32_t due(self) except? 0
    cdef uint32_t lacking(self, uint32_t queue) except? 1
    cdef uint32_t num_queues(self) except? 0
    cdef uint32_t _take(self, Py_ssize_t limit) except? 0
