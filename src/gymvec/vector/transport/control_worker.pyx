"""A worker's side of the control words: commands come in, answers go out."""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from gymvec.vector.transport.control cimport (
    _Mapping, GV_BAD_ENV, GV_MAX_ENVS, GV_OK, GV_WORKER_SPIN_NS, as_integer, as_num_envs,
    as_offset, fill_policy, gv_complete, gv_counts, gv_flush, gv_region, gv_policy, gv_status,
    gv_take, gv_watch_parent, gv_worker_close, gv_worker_counts, gv_worker_open, gv_worker_wait,
    nanoseconds, raise_status,
)


cdef class Worker(_Mapping):
    """A worker's side. Environments are numbered from 0 within its queue.

    Args:
        buffer: The parent's shared memory as this process has it; held until ``close``.
        header_offset: As for ``Parent``.
        queue_offset: Where this worker's queue begins.
        num_envs: How many environments it has.
        wait: As for ``Parent``.
        polling: As for ``Parent``; also ``watch_parent`` then polls.

    Attributes:
        opcode: Of the command that ``take`` returned last.
    """

    def __cinit__(self, buffer, header_offset, queue_offset, num_envs, *, wait="auto",
                  bint polling=False):
        cdef gv_policy policy
        cdef gv_region place
        cdef gv_status status
        cdef size_t header = as_offset(header_offset)
        place.offset = as_offset(queue_offset)
        place.envs = as_num_envs(num_envs)
        fill_policy(wait, polling, GV_WORKER_SPIN_NS, &policy)
        self._polling = polling
        self._acquire(buffer)
        status = gv_worker_open(self._view.buf, <size_t>self._view.len, header, place, policy,
                                &self._handle)
        if status != GV_OK:
            raise_status(status, "the header or the queue")

    def __dealloc__(self):
        self._free()

    cdef void _free(self) noexcept:
        gv_worker_close(self._handle)
        self._handle = NULL
        self._release()

    cdef gv_counts _counts(self) noexcept:
        return gv_worker_counts(self._handle)

    cdef gv_status _wait_once(
        self, uint32_t count, uint64_t ns, bint gil_held, uint32_t *available
    ) noexcept nogil:
        return gv_worker_wait(self._handle, ns, gil_held)

    def wait(self, double timeout_s=float("inf")) -> bool:
        """Waits until there may be something to do, or the time is over.

        Announces first what is not published. Signal handlers run; what they raise ends the wait.

        Returns:
            Whether the parent rang since the last pass began, with or without a command.
        """
        cdef uint64_t limit = nanoseconds(timeout_s)
        self._check()
        return self._wait(0, limit, NULL) == GV_OK

    def take(self) -> int:
        """The next environment of this pass with a new command, in order; -1 at the pass's end."""
        return self.next_env()

    cdef int32_t next_env(self) except -2:
        cdef uint32_t opcode = 0
        cdef int32_t env
        self._check()
        env = gv_take(self._handle, &opcode)
        if env >= 0:
            self.opcode = opcode
        return env

    def answer(self, env) -> None:
        """Replies an environment's command, whose results are written.

        Raises:
            ValueError: There is no such environment, or it owes no answer.
        """
        self.give(env)

    cdef int give(self, Py_ssize_t env) except -1:
        cdef gv_status status
        self._check()
        if env < 0 or env >= <Py_ssize_t>GV_MAX_ENVS:
            raise_status(GV_BAD_ENV, f"environment {env}")
        status = gv_complete(self._handle, <uint32_t>env)
        if status != GV_OK:
            raise_status(
                status, f"environment {env}" if status == GV_BAD_ENV
                else f"an answer of environment {env}")
        return 0

    def flush(self) -> None:
        """Announces the answers of this pass that were not published at once."""
        self.publish()

    cdef int publish(self) except -1:
        self._check()
        gv_flush(self._handle)
        return 0

    def watch_parent(self, pid) -> None:
        """Ends this process with ``ORPHANED_EXIT`` once process `pid` is gone.

        At once if it is gone already. A C thread watches, so a stuck environment is no obstacle; on
        Windows there is none, and ``parent_alive`` is to be asked between steps.
        """
        cdef int64_t value = as_integer(pid)
        cdef gv_status status
        self._check()
        status = gv_watch_parent(value, self._polling)
        if status != GV_OK:
            raise_status(status, f"process {pid}")
