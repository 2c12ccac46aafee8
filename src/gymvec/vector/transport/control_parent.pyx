"""The parent's side of the control words: commands go out, answers come in."""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_STRIDED_RO, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from gymvec.vector.transport.control cimport (
    _Mapping, GV_CORRUPT, GV_CROWDED_SPIN_NS, GV_MAX_ENVS, GV_MAX_OPCODE, GV_NOT_PENDING, GV_OK,
    GV_PARENT_SPIN_NS, as_integer, as_num_envs, as_offset, c_bool, fill_policy, gv_mark_dead,
    gv_counts, gv_drain, gv_queue_lacking, gv_queue_pending, gv_num_envs, gv_num_queues,
    gv_num_pending, gv_parent_close, gv_parent_counts, gv_parent_open, gv_parent_wait, gv_pending,
    gv_region, gv_policy, gv_reset_queue, gv_notify_worker, gv_send, gv_send_all, gv_status,
    nanoseconds, raise_status,
)


cdef uint32_t _opcode(object opcode) except? 1:
    cdef int64_t value = as_integer(opcode)
    if value < 0 or value > GV_MAX_OPCODE:
        raise ValueError(f"opcode must be between 0 and {GV_MAX_OPCODE}, got {opcode}")
    return <uint32_t>value


cdef class Parent(_Mapping):
    """The parent's side.

    Puts all control words into their first state, so it is made before any ``Worker``.
    Environments are numbered queue by queue.

    Args:
        buffer: Writable, contiguous shared memory; held until ``close``.
        header_offset: Where in `buffer` the ``header_size()`` bytes of the header begin.
        queues: For each worker, where its ``queue_size(num_envs)`` bytes begin, and `num_envs`.
        wait: ``"auto"`` spins for a moment and then sleeps, ``"spin"`` never
            sleeps, ``"block"`` never spins.
        polling: Sleep in naps of up to a millisecond instead of on a futex.
        crowded: Whether there is no core more than workers, so that a parent that spins keeps one
            of them from its core.

    Raises:
        ValueError: Hub or queues do not fit into the buffer, overlap, or are not aligned.
    """

    def __cinit__(
        self, buffer, header_offset, queues, *, wait="auto", bint polling=False, bint crowded=False
    ):
        cdef gv_policy policy
        cdef gv_region *places
        cdef gv_status status
        cdef uint32_t bad_index = 0
        cdef Py_ssize_t i
        cdef size_t header = as_offset(header_offset)
        cdef list pairs = [(offset, num_envs) for offset, num_envs in queues]
        cdef Py_ssize_t count = len(pairs)
        fill_policy(
            wait, polling, GV_CROWDED_SPIN_NS if crowded else GV_PARENT_SPIN_NS, &policy)
        if not 0 < count <= <Py_ssize_t>GV_MAX_ENVS:
            raise ValueError(f"there must be between 1 and {GV_MAX_ENVS} queues, got {count}")
        self._acquire(buffer)
        places = <gv_region *>PyMem_Malloc(<size_t>count * sizeof(gv_region))
        if places == NULL:
            raise MemoryError()
        try:
            for i in range(count):
                places[i].offset = as_offset(pairs[i][0])
                places[i].envs = as_num_envs(pairs[i][1])
            status = gv_parent_open(self._view.buf, <size_t>self._view.len, header, places,
                                    <uint32_t>count, policy, &self._handle, &bad_index)
        finally:
            PyMem_Free(places)
        if status != GV_OK:
            at_fault = "the header" if bad_index == <uint32_t>count else f"queue {bad_index}"
            raise_status(status, at_fault)
        self._num_envs = gv_num_envs(self._handle)
        self._ids = <int64_t *>PyMem_Malloc(self._num_envs * sizeof(int64_t))
        if self._ids == NULL:
            raise MemoryError()

    def __dealloc__(self):
        self._free()

    cdef void _free(self) noexcept:
        gv_parent_close(self._handle)
        self._handle = NULL
        PyMem_Free(self._ids)
        self._ids = NULL
        self._release()

    cdef gv_counts _counts(self) noexcept:
        return gv_parent_counts(self._handle)

    cdef gv_status _wait_once(
        self, uint32_t count, uint64_t ns, bint gil_held, uint32_t *available
    ) noexcept nogil:
        return gv_parent_wait(self._handle, count, ns, gil_held, available)

    @property
    def num_envs(self) -> int:
        """Environments of all queues."""
        self._check()
        return self._num_envs

    @property
    def num_workers(self) -> int:
        """Number of queues."""
        return self.num_queues()

    cdef uint32_t num_queues(self) except? 0:
        self._check()
        return gv_num_queues(self._handle)

    @property
    def num_pending(self) -> int:
        """Commands sent whose answers were not drained."""
        self._check()
        return gv_num_pending(self._handle)

    def send_all(self, opcode, bint immediate=False) -> None:
        """Sends a command to every environment.

        Args:
            opcode: Number from 0 to ``MAX_OPCODE`` that ``Worker.take`` hands on.
            immediate: Each answer is published at once, not with the worker's whole pass.

        Raises:
            ValueError: An environment has not answered its last command; nothing was sent.
        """
        self.send_to_all(_opcode(opcode), immediate)

    cdef int send_to_all(self, uint32_t opcode, bint immediate) except -1:
        cdef uint32_t bad_index = 0
        cdef gv_status status
        self._check()
        status = gv_send_all(self._handle, opcode, immediate, &bad_index)
        if status != GV_OK:
            raise_status(status, f"environment {bad_index}")
        return 0

    def send(self, env_ids, opcode, bint immediate=False) -> None:
        """Sends a command to some environments.

        Args:
            env_ids: One-dimensional int64 buffer, or an iterable of integers.
            opcode: As in ``send_all``.
            immediate: As in ``send_all``.

        Raises:
            ValueError: An environment does not exist, is named twice, or has not answered its last
                command; nothing was sent.
        """
        cdef uint32_t code = _opcode(opcode)
        cdef size_t bad_index = 0
        cdef Py_ssize_t count
        cdef gv_status status
        self._check()
        # Converting may run the caller's code, which must not use the ids meanwhile.
        self._busy = True
        try:
            count = self._convert(env_ids)
            status = gv_send(self._handle, self._ids, <size_t>count, code, immediate, &bad_index)
            if status != GV_OK:
                raise_status(status, f"environment {self._ids[bad_index]}")
        finally:
            self._busy = False

    cdef Py_ssize_t _convert(self, object env_ids) except -1:
        cdef Py_buffer view
        cdef Py_ssize_t count
        if PyObject_CheckBuffer(env_ids):
            PyObject_GetBuffer(env_ids, &view, PyBUF_STRIDED_RO | PyBUF_FORMAT)
            try:
                count = self._copy_ids(&view)
            finally:
                PyBuffer_Release(&view)
            if count >= 0:
                return count
        count = 0
        for env in env_ids:
            if count == self._num_envs:
                raise ValueError(f"more than {self._num_envs} environments are named")
            self._ids[count] = as_integer(env)
            count += 1
        return count

    cdef Py_ssize_t _copy_ids(self, Py_buffer *view) except -2:
        """How many ids the buffer holds, or -1 when it is not one of native 64-bit integers."""
        cdef Py_ssize_t i
        cdef char *format = view.format
        cdef const char *data = <const char *>view.buf
        if format == NULL or view.itemsize != sizeof(int64_t):
            return -1
        if format[0] in b"@=":
            format += 1
        if format[0] not in b"lqn" or format[1] != 0:
            return -1
        if view.ndim != 1:
            raise ValueError(f"env_ids must have one dimension, got {view.ndim}")
        if view.shape[0] > <Py_ssize_t>self._num_envs:
            raise ValueError(f"more than {self._num_envs} environments are named")
        for i in range(view.shape[0]):
            memcpy(&self._ids[i], data + i * view.strides[0], sizeof(int64_t))
        return view.shape[0]

    def pending(self, env) -> bool:
        """Whether an environment's last command is not yet answered and drained."""
        cdef int64_t value = as_integer(env)
        cdef c_bool pending = False
        self._check()
        if value < 0 or gv_pending(self._handle, <uint32_t>min(value, GV_MAX_ENVS),
                                   &pending) != GV_OK:
            raise IndexError(f"environment {env} is out of range")
        return pending

    def queue_pending(self, worker) -> int:
        """How many environments of one worker are pending."""
        cdef uint32_t count = 0
        cdef uint32_t queue = self._queue(worker)
        gv_queue_pending(self._handle, queue, &count)
        return count

    cdef uint32_t _queue(self, object worker) except? 1:
        # First: a number of the caller's own class may close this object.
        cdef int64_t value = as_integer(worker)
        self._check()
        if value < 0 or value >= gv_num_queues(self._handle):
            raise IndexError(f"worker {worker} is out of range")
        return <uint32_t>value

    def ring(self, worker) -> None:
        """Wakes a worker without a command, for a message that came by another way."""
        cdef uint32_t queue = self._queue(worker)
        gv_notify_worker(self._handle, queue)

    def wait(self, Py_ssize_t count, double timeout_s=float("inf")) -> int:
        """Waits until `count` answers can be drained, or the time is over.

        The GIL is kept for the first moment and then given up. Signal handlers run; what they
        raise ends the wait.

        Returns:
            How many answers there are, below `count` if the time ran out.

        Raises:
            ValueError: Fewer than `count` answers are due.
            RuntimeError: A worker overwrote its control words with nonsense.
        """
        return self.wait_for(count, timeout_s)

    cdef uint32_t wait_for(self, Py_ssize_t count, double timeout_s) except? 0:
        cdef uint32_t available = 0
        cdef uint64_t limit = nanoseconds(timeout_s)
        cdef int status
        self._check()
        if count > <Py_ssize_t>self._num_envs:
            raise ValueError(f"there are {self._num_envs} environments, not {count} to wait for")
        status = self._wait(<uint32_t>count if count > 0 else 0, limit, &available)
        if status == GV_CORRUPT:
            raise_status(GV_CORRUPT, "a worker")
        if status == GV_NOT_PENDING:
            raise ValueError(
                f"{count} answers are wanted, only {gv_num_pending(self._handle)} are due")
        return available

    def drain(self, Py_ssize_t limit=GV_MAX_ENVS) -> list[int]:
        """Takes up to `limit` answers that are there; never waits.

        Returns:
            The environments that answered, each worker's in the order of their answers, and another
            worker's first at each call.

        Raises:
            RuntimeError: A worker overwrote its control words with nonsense.
        """
        cdef uint32_t count
        cdef uint32_t i
        self._check()
        # A new list may start the garbage collector, and that anyone's code.
        self._busy = True
        try:
            count = self._take(limit)
            return [self._ids[i] for i in range(count)]
        finally:
            self._busy = False

    def drain_all(self) -> int:
        """Takes all answers that are there and returns only how many: for a full step."""
        return self.take_all()

    cdef uint32_t take_all(self) except? 0:
        self._check()
        return self._take(GV_MAX_ENVS)

    cdef uint32_t due(self) except? 0:
        self._check()
        return gv_num_pending(self._handle)

    cdef uint32_t lacking(self, uint32_t queue) except? 1:
        cdef uint32_t lacking = 0
        cdef gv_status status
        self._check()
        status = gv_queue_lacking(self._handle, queue, &lacking)
        if status != GV_OK:
            raise_status(status, f"worker {queue}")
        return lacking

    cdef uint32_t _take(self, Py_ssize_t limit) except? 0:
        cdef uint32_t count = 0
        cdef uint32_t queue = 0
        cdef gv_status status
        limit = min(max(limit, 0), <Py_ssize_t>self._num_envs)
        status = gv_drain(self._handle, self._ids, <uint32_t>limit, &count, &queue)
        if status != GV_OK:
            raise_status(status, f"worker {queue}")
        return count

    def mark_dead(self, worker) -> list[int]:
        """Gives up a worker that is dead: drain its answers first.

        Returns:
            The environments whose command it leaves unanswered. They are no longer pending, and
            nothing can be sent to the worker's environments any more.
        """
        cdef uint32_t count = 0
        cdef uint32_t i
        cdef uint32_t queue = self._queue(worker)
        self._busy = True
        try:
            gv_mark_dead(self._handle, queue, self._ids, &count)
            return [self._ids[i] for i in range(count)]
        finally:
            self._busy = False

    def reset_queue(self, worker) -> None:
        """Puts the words of a worker that is dead and reaped into their first state, for a new one.

        Nothing of its environments is pending any more, and answers that were not drained are
        dropped. The new worker opens its queue after this; commands may be sent before it does.
        """
        self._check()
        gv_reset_queue(self._handle, self._queue(worker))
