"""What both sides of the control words share: sizes, the hold on the memory, waiting.

The C files do the work (``csrc/control.h`` says what it is). This module and those of the two sides
check arguments, hold the mapping, and turn statuses into exceptions. One thread at a time uses an
object: while ``wait`` is without the GIL, every other method raises. The GIL guards that flag.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from cpython.number cimport PyNumber_Index
from libc.stdint cimport int64_t, uint32_t, uint64_t


LINE = GV_LINE
"""Alignment of header and queues in bytes."""
MAX_OPCODE = GV_MAX_OPCODE
ORPHANED_EXIT = GV_ORPHANED
"""Exit code of a worker whose parent is gone."""
HAS_FUTEX = bool(gv_has_futex())
"""Whether this platform sleeps on futexes; elsewhere it polls, as with ``polling=True``."""

# Longest sleep between two looks at Python's signals where no signal ends the sleep itself: another
# thread than the main one got it, or the wait spins.
cdef uint64_t SIGNALS_NS = 100_000_000


cdef int raise_status(gv_status status, object kind) except -1:
    """The one mapping of statuses to exceptions; `kind` names what is at fault."""
    if status == GV_NO_MEMORY:
        raise MemoryError()
    if status == GV_BAD_SIZE:
        raise ValueError(f"{kind} must have between 1 and {GV_MAX_ENVS} environments")
    if status == GV_MISALIGNED:
        raise ValueError(f"{kind} is not aligned to {GV_LINE} bytes of memory")
    if status == GV_OUTSIDE:
        raise ValueError(f"{kind} does not fit into the buffer")
    if status == GV_OVERLAP:
        raise ValueError(f"{kind} overlaps the header or another queue")
    if status == GV_BAD_ENV:
        raise ValueError(f"{kind} is out of range")
    if status == GV_BAD_QUEUE:
        raise IndexError(f"{kind} is out of range")
    if status == GV_DUPLICATE:
        raise ValueError(f"{kind} is named twice")
    if status == GV_PENDING:
        raise ValueError(f"{kind} has not answered its last command")
    if status == GV_NOT_PENDING:
        raise ValueError(f"{kind} is not due")
    if status == GV_DEAD:
        raise ValueError(f"{kind} belongs to a worker that was given up")
    if status == GV_CORRUPT:
        raise RuntimeError(f"the control words of {kind} are corrupt")
    raise SystemError(f"unexpected status {<int>status} for {kind}")


cdef int fill_policy(object wait, bint polling, uint64_t spin_ns, gv_policy *policy) except -1:
    policy.polling = polling
    if wait == "auto":
        policy.spin_ns = spin_ns
    elif wait == "spin":
        policy.spin_ns = GV_NO_LIMIT
    elif wait == "block":
        policy.spin_ns = 0
    else:
        raise ValueError(f"wait must be 'auto', 'spin' or 'block', got {wait!r}")
    return 0


cdef uint64_t nanoseconds(double seconds) except? 1:
    if seconds != seconds:
        raise ValueError("the time-out must be a number, got nan")
    if seconds <= 0:
        return 0
    # Below 2**63: the limit is 292 years.
    return <uint64_t>(seconds * 1e9) if seconds < 9e9 else GV_NO_LIMIT


cdef uint64_t _slice(uint64_t until) noexcept nogil:
    cdef uint64_t now = gv_now()
    if now >= until:
        return 0
    return min(until - now, SIGNALS_NS)


cdef int64_t as_integer(object value) except? -1:
    # A bare conversion would take a float and cut it.
    return PyNumber_Index(value)


cdef uint32_t as_num_envs(object num_envs) except? 1:
    cdef int64_t value = as_integer(num_envs)
    if value < 1 or value > GV_MAX_ENVS:
        raise ValueError(f"num_envs must be between 1 and {GV_MAX_ENVS}, got {num_envs}")
    return <uint32_t>value


cdef size_t as_offset(object offset) except? 1:
    cdef int64_t value = as_integer(offset)
    if value < 0:
        raise ValueError(f"an offset must not be negative, got {offset}")
    return <size_t>value


def header_size() -> int:
    """Bytes of the parent's control words, a multiple of ``LINE``."""
    return gv_header_size()


def queue_size(num_envs) -> int:
    """Bytes of the control words of a worker of `num_envs` environments, a multiple of ``LINE``."""
    return gv_queue_size(as_num_envs(num_envs))


def parent_alive(pid) -> bool:
    """Whether process `pid` is there; one that is dead and not reaped is.

    For a worker to ask between steps where no thread watches (see ``Worker.watch_parent``).
    """
    cdef int64_t value = as_integer(pid)
    return gv_parent_alive(value)


cdef class _Mapping:
    """Holds the caller's buffer, and says whether the object can be used."""

    cdef int _acquire(self, object buffer) except -1:
        PyObject_GetBuffer(buffer, &self._view, PyBUF_SIMPLE | PyBUF_WRITABLE)
        self._held = True
        return 0

    cdef void _release(self) noexcept:
        if self._held:
            self._held = False
            PyBuffer_Release(&self._view)

    cdef int _check(self) except -1:
        if not self._held:
            raise ValueError(f"this {type(self).__name__} is closed")
        if self._busy:
            raise RuntimeError(f"this {type(self).__name__} is in use by another call")
        return 0

    cdef void _free(self) noexcept:
        self._release()

    cdef gv_counts _counts(self) noexcept:
        return gv_counts(0, 0)

    cdef gv_status _wait_once(
        self, uint32_t count, uint64_t ns, bint gil_held, uint32_t *available
    ) noexcept nogil:
        return GV_OK

    cdef int _wait(self, uint32_t count, uint64_t limit, uint32_t *available) except -1:
        """Wait at first with the GIL and then without. A status; signal handlers run."""
        cdef gv_status status = self._wait_once(count, limit, True, available)
        cdef uint64_t until
        if status == GV_TIMEOUT and limit > 0:
            until = gv_later(gv_now(), limit)
            while True:
                self._busy = True
                with nogil:
                    status = self._wait_once(count, _slice(until), False, available)
                self._busy = False
                if status != GV_TIMEOUT and status != GV_INTERRUPTED:
                    break
                PyErr_CheckSignals()
                self._check()  # a handler may have closed it
                if gv_now() >= until:
                    break
        return status

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return not self._held

    @property
    def wakes(self) -> int:
        """System calls so far that woke the other side."""
        self._check()
        return self._counts().wakes

    @property
    def sleeps(self) -> int:
        """System calls so far that slept."""
        self._check()
        return self._counts().sleeps

    def close(self) -> None:
        """Lets go of the buffer. Idempotent; every later call of another method is a ValueError."""
        if self._held:
            self._check()
            self._free()
