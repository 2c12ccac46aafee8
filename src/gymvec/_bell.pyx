"""Control words shared by the parent and its workers: commands, answers, waiting and waking.

The C files do the work (``csrc/bell.h`` says what it is); here arguments are checked, the mapping
is held, and statuses become exceptions. An object is used by one thread at a time: while ``wait``
is without the GIL, every other method raises. The GIL guards that flag.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT,
    PyBUF_SIMPLE,
    PyBUF_STRIDED_RO,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_CheckBuffer,
    PyObject_GetBuffer,
)
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.number cimport PyNumber_Index
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t

from libc.string cimport memcpy


LINE = GV_LINE
"""Alignment of hub and lanes in bytes."""
MAX_OPCODE = GV_MAX_OPCODE
ORPHANED_EXIT = GV_ORPHANED
"""Exit code of a worker whose parent is gone."""
HAS_FUTEX = bool(gv_has_futex())
"""Whether this platform sleeps on futexes; elsewhere it polls, as with ``polling=True``."""

# Longest sleep between two looks at Python's signals where no signal ends the sleep itself: another
# thread than the main one got it, or the wait spins.
cdef uint64_t SIGNALS_NS = 100_000_000


cdef int _raise(gv_status status, object subject) except -1:
    """The one mapping of statuses to exceptions; `subject` names what is at fault."""
    if status == GV_NO_MEMORY:
        raise MemoryError()
    if status == GV_BAD_SIZE:
        raise ValueError(f"{subject} must have between 1 and {GV_MAX_ENVS} environments")
    if status == GV_MISALIGNED:
        raise ValueError(f"{subject} is not aligned to {GV_LINE} bytes of memory")
    if status == GV_OUTSIDE:
        raise ValueError(f"{subject} does not fit into the buffer")
    if status == GV_OVERLAP:
        raise ValueError(f"{subject} overlaps the hub or another lane")
    if status == GV_BAD_ENV:
        raise ValueError(f"{subject} is out of range")
    if status == GV_BAD_LANE:
        raise IndexError(f"{subject} is out of range")
    if status == GV_DUPLICATE:
        raise ValueError(f"{subject} is named twice")
    if status == GV_PENDING:
        raise ValueError(f"{subject} has not answered its last command")
    if status == GV_NOT_PENDING:
        raise ValueError(f"{subject} is not due")
    if status == GV_ABANDONED:
        raise ValueError(f"{subject} belongs to a worker that was given up")
    if status == GV_CORRUPT:
        raise RuntimeError(f"the control words of {subject} are corrupt")
    raise SystemError(f"unexpected status {<int>status} for {subject}")


cdef int _policy(object wait, bint polling, uint64_t spin_ns, gv_policy *policy) except -1:
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


cdef uint64_t _nanoseconds(double seconds) except? 1:
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


cdef int64_t _integer(object value) except? -1:
    # A bare conversion would take a float and cut it.
    return PyNumber_Index(value)


cdef uint32_t _opcode(object opcode) except? 1:
    cdef int64_t value = _integer(opcode)
    if value < 0 or value > GV_MAX_OPCODE:
        raise ValueError(f"opcode must be between 0 and {GV_MAX_OPCODE}, got {opcode}")
    return <uint32_t>value


cdef uint32_t _envs(object num_envs) except? 1:
    cdef int64_t value = _integer(num_envs)
    if value < 1 or value > GV_MAX_ENVS:
        raise ValueError(f"num_envs must be between 1 and {GV_MAX_ENVS}, got {num_envs}")
    return <uint32_t>value


cdef size_t _offset(object offset) except? 1:
    cdef int64_t value = _integer(offset)
    if value < 0:
        raise ValueError(f"an offset must not be negative, got {offset}")
    return <size_t>value


def hub_size() -> int:
    """Bytes of the parent's control words, a multiple of ``LINE``."""
    return gv_hub_size()


def lane_size(num_envs) -> int:
    """Bytes of the control words of a worker of `num_envs` environments, a multiple of ``LINE``."""
    return gv_lane_size(_envs(num_envs))


def parent_alive(pid) -> bool:
    """Whether process `pid` is there; one that is dead and not reaped is.

    For a worker to ask between steps where no thread watches (see ``Worker.watch_parent``).
    """
    cdef int64_t value = _integer(pid)
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

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return not self._held


cdef class Parent(_Mapping):
    """The parent's side.

    Puts all control words into their first state, so it is made before any ``Worker``.
    Environments are numbered lane by lane.

    Args:
        buffer: Writable, contiguous shared memory; held until ``close``.
        hub_offset: Where in `buffer` the ``hub_size()`` bytes of the hub begin.
        lanes: For each worker, where its ``lane_size(num_envs)`` bytes begin, and `num_envs`.
        wait: ``"auto"`` spins for a moment and then sleeps, ``"spin"`` never
            sleeps, ``"block"`` never spins.
        polling: Sleep in naps of up to a millisecond instead of on a futex.
        crowded: Whether there is no core more than workers, so that a parent that spins keeps one
            of them from its core.

    Raises:
        ValueError: Hub or lanes do not fit into the buffer, overlap, or are not aligned.
    """

    def __cinit__(
        self, buffer, hub_offset, lanes, *, wait="auto", bint polling=False, bint crowded=False
    ):
        cdef gv_policy policy
        cdef gv_place *places
        cdef gv_status status
        cdef uint32_t culprit = 0
        cdef Py_ssize_t i
        cdef size_t hub = _offset(hub_offset)
        cdef list pairs = [(offset, num_envs) for offset, num_envs in lanes]
        cdef Py_ssize_t count = len(pairs)
        _policy(
            wait, polling, GV_CROWDED_SPIN_NS if crowded else GV_PARENT_SPIN_NS, &policy)
        if not 0 < count <= <Py_ssize_t>GV_MAX_ENVS:
            raise ValueError(f"there must be between 1 and {GV_MAX_ENVS} lanes, got {count}")
        self._acquire(buffer)
        places = <gv_place *>PyMem_Malloc(<size_t>count * sizeof(gv_place))
        if places == NULL:
            raise MemoryError()
        try:
            for i in range(count):
                places[i].offset = _offset(pairs[i][0])
                places[i].envs = _envs(pairs[i][1])
            status = gv_parent_open(self._view.buf, <size_t>self._view.len, hub, places,
                                    <uint32_t>count, policy, &self._handle, &culprit)
        finally:
            PyMem_Free(places)
        if status != GV_OK:
            _raise(status, "the hub" if culprit == <uint32_t>count else f"lane {culprit}")
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

    def close(self) -> None:
        """Lets go of the buffer. Idempotent; every later call of another method is a ValueError."""
        if self._held:
            self._check()
            self._free()

    @property
    def num_envs(self) -> int:
        """Environments of all lanes."""
        self._check()
        return self._num_envs

    @property
    def num_workers(self) -> int:
        """Number of lanes."""
        return self.num_lanes()

    cdef uint32_t num_lanes(self) except? 0:
        self._check()
        return gv_num_lanes(self._handle)

    @property
    def num_pending(self) -> int:
        """Commands sent whose answers were not drained."""
        self._check()
        return gv_num_pending(self._handle)

    @property
    def wakes(self) -> int:
        """System calls so far that woke a worker."""
        self._check()
        return gv_parent_counts(self._handle).wakes

    @property
    def sleeps(self) -> int:
        """System calls so far that slept."""
        self._check()
        return gv_parent_counts(self._handle).sleeps

    def send_all(self, opcode, bint eager=False) -> None:
        """Sends a command to every environment.

        Args:
            opcode: Number from 0 to ``MAX_OPCODE`` that ``Worker.take`` hands on.
            eager: Each answer is announced at once, not with the worker's whole pass.

        Raises:
            ValueError: An environment has not answered its last command; nothing was sent.
        """
        self.send_to_all(_opcode(opcode), eager)

    cdef int send_to_all(self, uint32_t opcode, bint eager) except -1:
        cdef uint32_t culprit = 0
        cdef gv_status status
        self._check()
        status = gv_send_all(self._handle, opcode, eager, &culprit)
        if status != GV_OK:
            _raise(status, f"environment {culprit}")
        return 0

    def send(self, env_ids, opcode, bint eager=False) -> None:
        """Sends a command to some environments.

        Args:
            env_ids: One-dimensional int64 buffer, or an iterable of integers.
            opcode: As in ``send_all``.
            eager: As in ``send_all``.

        Raises:
            ValueError: An environment does not exist, is named twice, or has not answered its last
                command; nothing was sent.
        """
        cdef uint32_t code = _opcode(opcode)
        cdef size_t culprit = 0
        cdef Py_ssize_t count
        cdef gv_status status
        self._check()
        # Converting may run the caller's code, which must not use the ids meanwhile.
        self._busy = True
        try:
            count = self._convert(env_ids)
            status = gv_send(self._handle, self._ids, <size_t>count, code, eager, &culprit)
            if status != GV_OK:
                _raise(status, f"environment {self._ids[culprit]}")
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
            self._ids[count] = _integer(env)
            count += 1
        return count

    cdef Py_ssize_t _copy_ids(self, Py_buffer *view) except -2:
        """How many ids the buffer held, or -1 when it is not one of native 64-bit integers."""
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
        cdef int64_t value = _integer(env)
        cdef c_bool pending = False
        self._check()
        if value < 0 or gv_pending(self._handle, <uint32_t>min(value, GV_MAX_ENVS),
                                   &pending) != GV_OK:
            raise IndexError(f"environment {env} is out of range")
        return pending

    def lane_pending(self, worker) -> int:
        """How many environments of one worker are pending."""
        cdef uint32_t count = 0
        cdef uint32_t lane = self._lane(worker)
        gv_lane_pending(self._handle, lane, &count)
        return count

    cdef uint32_t _lane(self, object worker) except? 1:
        # First: a number of the caller's own class may close this object.
        cdef int64_t value = _integer(worker)
        self._check()
        if value < 0 or value >= gv_num_lanes(self._handle):
            raise IndexError(f"worker {worker} is out of range")
        return <uint32_t>value

    def ring(self, worker) -> None:
        """Wakes a worker without a command, for a message that came by another way."""
        cdef uint32_t lane = self._lane(worker)
        gv_ring(self._handle, lane)

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
        cdef uint32_t wanted
        cdef uint64_t limit = _nanoseconds(timeout_s)
        cdef uint64_t until
        cdef gv_status status
        self._check()
        if count > <Py_ssize_t>self._num_envs:
            raise ValueError(f"there are {self._num_envs} environments, not {count} to wait for")
        wanted = <uint32_t>count if count > 0 else 0
        status = gv_parent_wait(self._handle, wanted, limit, True, &available)
        if status == GV_TIMEOUT and limit > 0:
            until = gv_later(gv_now(), limit)
            while True:
                self._busy = True
                with nogil:
                    status = gv_parent_wait(self._handle, wanted, _slice(until), False, &available)
                self._busy = False
                if status != GV_TIMEOUT and status != GV_INTERRUPTED:
                    break
                PyErr_CheckSignals()
                self._check()  # a handler may have closed it
                if gv_now() >= until:
                    break
        if status == GV_CORRUPT:
            _raise(status, "a worker")
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

    cdef uint32_t lacking(self, uint32_t lane) except? 1:
        cdef uint32_t lacking = 0
        cdef gv_status status
        self._check()
        status = gv_lane_lacking(self._handle, lane, &lacking)
        if status != GV_OK:
            _raise(status, f"worker {lane}")
        return lacking

    cdef uint32_t _take(self, Py_ssize_t limit) except? 0:
        cdef uint32_t count = 0
        cdef uint32_t lane = 0
        cdef gv_status status
        limit = min(max(limit, 0), <Py_ssize_t>self._num_envs)
        status = gv_drain(self._handle, self._ids, <uint32_t>limit, &count, &lane)
        if status != GV_OK:
            _raise(status, f"worker {lane}")
        return count

    def abandon(self, worker) -> list[int]:
        """Gives up a worker that is dead: drain its answers first.

        Returns:
            The environments whose command it leaves unanswered. They are no longer pending, and
            nothing can be sent to the worker's environments any more.
        """
        cdef uint32_t count = 0
        cdef uint32_t i
        cdef uint32_t lane = self._lane(worker)
        self._busy = True
        try:
            gv_abandon(self._handle, lane, self._ids, &count)
            return [self._ids[i] for i in range(count)]
        finally:
            self._busy = False

    def revive(self, worker) -> None:
        """Puts the words of a worker that is dead and reaped into their first state, for a new one.

        Nothing of its environments is pending any more, and answers that were not drained are
        dropped. The new worker opens its lane after this; commands may be sent before it does.
        """
        self._check()
        gv_revive(self._handle, self._lane(worker))


cdef class Worker(_Mapping):
    """A worker's side. Environments are numbered from 0 within its lane.

    Args:
        buffer: The parent's shared memory as this process has it; held until ``close``.
        hub_offset: As for ``Parent``.
        lane_offset: Where this worker's lane begins.
        num_envs: How many environments it has.
        wait: As for ``Parent``.
        polling: As for ``Parent``; also ``watch_parent`` then polls.

    Attributes:
        opcode: Of the command that ``take`` returned last.
    """

    def __cinit__(self, buffer, hub_offset, lane_offset, num_envs, *, wait="auto",
                  bint polling=False):
        cdef gv_policy policy
        cdef gv_place place
        cdef gv_status status
        cdef size_t hub = _offset(hub_offset)
        place.offset = _offset(lane_offset)
        place.envs = _envs(num_envs)
        _policy(wait, polling, GV_WORKER_SPIN_NS, &policy)
        self._polling = polling
        self._acquire(buffer)
        status = gv_worker_open(self._view.buf, <size_t>self._view.len, hub, place, policy,
                                &self._handle)
        if status != GV_OK:
            _raise(status, "the hub or the lane")

    def __dealloc__(self):
        self._free()

    cdef void _free(self) noexcept:
        gv_worker_close(self._handle)
        self._handle = NULL
        self._release()

    def close(self) -> None:
        """Lets go of the buffer. Idempotent; every later call of another method is a ValueError."""
        if self._held:
            self._check()
            self._free()

    @property
    def wakes(self) -> int:
        """System calls so far that woke the parent."""
        self._check()
        return gv_worker_counts(self._handle).wakes

    @property
    def sleeps(self) -> int:
        """System calls so far that slept."""
        self._check()
        return gv_worker_counts(self._handle).sleeps

    def wait(self, double timeout_s=float("inf")) -> bool:
        """Waits until there may be something to do, or the time is over.

        Announces first what is not announced. Signal handlers run; what they raise ends the wait.

        Returns:
            Whether the parent rang since the last pass began, with or without a command.
        """
        cdef uint64_t limit = _nanoseconds(timeout_s)
        cdef uint64_t until
        cdef gv_status status
        self._check()
        status = gv_worker_wait(self._handle, limit, True)
        if status == GV_TIMEOUT and limit > 0:
            until = gv_later(gv_now(), limit)
            while True:
                self._busy = True
                with nogil:
                    status = gv_worker_wait(self._handle, _slice(until), False)
                self._busy = False
                if status == GV_OK:
                    break
                PyErr_CheckSignals()
                self._check()  # a handler may have closed it
                if gv_now() >= until:
                    break
        return status == GV_OK

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
        """Answers an environment's command, whose results are written.

        Raises:
            ValueError: There is no such environment, or it owes no answer.
        """
        self.give(env)

    cdef int give(self, Py_ssize_t env) except -1:
        cdef gv_status status
        self._check()
        if env < 0 or env >= <Py_ssize_t>GV_MAX_ENVS:
            _raise(GV_BAD_ENV, f"environment {env}")
        status = gv_answer(self._handle, <uint32_t>env)
        if status != GV_OK:
            _raise(status, f"environment {env}" if status == GV_BAD_ENV
                   else f"an answer of environment {env}")
        return 0

    def flush(self) -> None:
        """Announces the answers of this pass that were not announced at once."""
        self.announce()

    cdef int announce(self) except -1:
        self._check()
        gv_flush(self._handle)
        return 0

    def watch_parent(self, pid) -> None:
        """Ends this process with ``ORPHANED_EXIT`` once process `pid` is gone.

        At once if it is gone already. A C thread watches, so a stuck environment is no obstacle; on
        Windows there is none, and ``parent_alive`` is to be asked between steps.
        """
        cdef int64_t value = _integer(pid)
        cdef gv_status status
        self._check()
        status = gv_watch_parent(value, self._polling)
        if status != GV_OK:
            _raise(status, f"process {pid}")
