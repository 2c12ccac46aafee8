"""The control words of ``csrc/control.h``, and what the modules of both sides share."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t


cpdef enum:
    # An opcode is a command and flags. The command:
    COMMAND_BITS = 0xff
    # The message that belongs to the answer does not wait for the rest of the pass.
    IMMEDIATE = 0x100
    # Observations go into the second set of blocks.
    SECOND_SET = 0x200


cdef extern from "<stdbool.h>" nogil:
    ctypedef bint c_bool "bool"


cdef extern from "control.h" nogil:
    const uint32_t GV_LINE
    const uint32_t GV_MAX_ENVS
    const uint32_t GV_MAX_OPCODE
    const uint64_t GV_NO_LIMIT
    const uint64_t GV_CROWDED_SPIN_NS
    const uint64_t GV_PARENT_SPIN_NS
    const uint64_t GV_WORKER_SPIN_NS
    const int GV_ORPHANED

    ctypedef enum gv_status:
        GV_OK
        GV_TIMEOUT
        GV_INTERRUPTED
        GV_NO_MEMORY
        GV_BAD_SIZE
        GV_MISALIGNED
        GV_OUTSIDE
        GV_OVERLAP
        GV_BAD_ENV
        GV_BAD_QUEUE
        GV_DUPLICATE
        GV_PENDING
        GV_NOT_PENDING
        GV_DEAD
        GV_CORRUPT

    ctypedef struct gv_region:
        size_t offset
        uint32_t envs

    ctypedef struct gv_policy:
        uint64_t spin_ns
        c_bool polling

    ctypedef struct gv_counts:
        uint64_t wakes
        uint64_t sleeps

    ctypedef struct gv_parent:
        pass
    ctypedef struct gv_worker:
        pass

    size_t gv_header_size()
    size_t gv_queue_size(uint32_t envs)
    c_bool gv_has_futex()
    uint64_t gv_now()
    uint64_t gv_later(uint64_t time, uint64_t ns)
    gv_status gv_parent_open(void *base, size_t length, size_t header, const gv_region *places,
                             uint32_t queues, gv_policy policy, gv_parent **out,
                             uint32_t *bad_index)
    void gv_parent_close(gv_parent *parent)
    gv_status gv_send_all(gv_parent *parent, uint32_t opcode, c_bool immediate, uint32_t *bad_index)
    gv_status gv_send(gv_parent *parent, const int64_t *envs, size_t count, uint32_t opcode,
                      c_bool immediate, size_t *bad_index)
    gv_status gv_notify_worker(gv_parent *parent, uint32_t queue)
    gv_status gv_parent_wait(gv_parent *parent, uint32_t count, uint64_t ns, c_bool gil_held,
                             uint32_t *available)
    gv_status gv_drain(gv_parent *parent, int64_t *envs, uint32_t limit, uint32_t *count,
                       uint32_t *queue)
    gv_status gv_mark_dead(gv_parent *parent, uint32_t queue, int64_t *envs, uint32_t *count)
    gv_status gv_reset_queue(gv_parent *parent, uint32_t queue)
    uint32_t gv_num_envs(const gv_parent *parent)
    uint32_t gv_num_queues(const gv_parent *parent)
    uint32_t gv_num_pending(const gv_parent *parent)
    gv_status gv_pending(const gv_parent *parent, uint32_t env, c_bool *pending)
    gv_status gv_queue_pending(const gv_parent *parent, uint32_t queue, uint32_t *pending)
    gv_status gv_queue_lacking(const gv_parent *parent, uint32_t queue, uint32_t *lacking)
    gv_counts gv_parent_counts(const gv_parent *parent)
    gv_status gv_worker_open(void *base, size_t length, size_t header, gv_region place,
                             gv_policy policy, gv_worker **out)
    void gv_worker_close(gv_worker *worker)
    gv_status gv_worker_wait(gv_worker *worker, uint64_t ns, c_bool gil_held)
    int32_t gv_take(gv_worker *worker, uint32_t *opcode)
    gv_status gv_complete(gv_worker *worker, uint32_t env)
    void gv_flush(gv_worker *worker)
    gv_counts gv_worker_counts(const gv_worker *worker)
    c_bool gv_parent_alive(int64_t pid)
    gv_status gv_watch_parent(int64_t pid, c_bool polling)


# The one mapping of statuses to exceptions; `kind` names what is at fault.
cdef int raise_status(gv_status status, object kind) except -1

cdef int fill_policy(object wait, bint polling, uint64_t spin_ns, gv_policy *policy) except -1
cdef uint64_t nanoseconds(double seconds) except? 1

# Arguments as numbers: any integer type, within bounds.
cdef int64_t as_integer(object value) except? -1
cdef uint32_t as_num_envs(object num_envs) except? 1
cdef size_t as_offset(object offset) except? 1


cdef class _Mapping:
    cdef Py_buffer _view
    cdef bint _held
    cdef bint _busy
    cdef int _acquire(self, object buffer) except -1
    cdef void _release(self) noexcept
    cdef int _check(self) except -1
    cdef int _wait(self, uint32_t count, uint64_t limit, uint32_t *available) except -1
    # What each side does in its own way.
    cdef void _free(self) noexcept
    cdef gv_counts _counts(self) noexcept
    cdef gv_status _wait_once(
        self, uint32_t count, uint64_t ns, bint gil_held, uint32_t *available) noexcept nogil
