"""A plain step in one call, and the gate before it.

What the workers wrote of a step beside observations and infos becomes arrays of the parent.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy

from gymvec.vector.transport.action_block cimport checked_envs
from gymvec.kernels.arrays cimport READ, checked_array, is_contiguous
from gymvec.vector.transport.control_parent cimport Parent
from gymvec.kernels.capi cimport empty_array
from gymvec.kernels.rows cimport GIL_FREE_BYTES

cnp.import_array()

cdef enum Outcome:
    OUTCOME_DONE
    OUTCOME_NOT_SENT
    OUTCOME_SENT

DONE = OUTCOME_DONE
"""All answers were taken; :meth:`StepResults.take` hands over what came of them."""
NOT_SENT = OUTCOME_NOT_SENT
"""The actions did not fit, and no environment was sent anything."""
SENT = OUTCOME_SENT
"""The step was sent, and no answer was taken: one takes long, or a message has to be read."""


cdef enum:
    # The least share of a worker whose rows are copied while others are at work. It takes longer
    # than to be woken for it.
    SHARE_BYTES = 1 << 16


cdef struct Part:
    cnp.npy_intp count
    const double* rewards
    const cnp.npy_bool* terminations
    const cnp.npy_bool* truncations
    const cnp.npy_bool* messages


cdef void copy_bytes(void* target, const void* source, size_t nbytes) noexcept:
    if nbytes < GIL_FREE_BYTES:
        memcpy(target, source, nbytes)
    else:
        with nogil:
            memcpy(target, source, nbytes)


@cython.final
cdef class CallGate:
    """The reasons why a step cannot be sent and waited for at once. Each owner sets its own.

    An attribute is set without a call: no signal is handled between two of them.

    Args:
        idle: The ``state`` in which no call of all environments is under way.
        stepping: The ``state`` while a step is.

    Attributes:
        state: The call of all environments that is under way.
        closed: The environment is not built yet, or is being closed.
        forked: This process is a fork of the one that started the workers.
        dead: A worker died and was not replaced.
        replaced: A worker was replaced, or is to be, since the last call was collected.
        timed_out: Answers are due of a call that no caller waits for.
        drained: Answers were taken and not handed on.
        unwritten: A pipe has not taken all messages.
        ready_first: Environments were sent to that answer each by itself.
        indirect: A step is more than its two halves: a subclass has its own, autoreset is
            disabled, or a batch has fewer environments.
    """

    cdef object idle
    cdef object stepping
    cdef public object state
    cdef public bint closed
    cdef public bint forked
    cdef public bint dead
    cdef public bint replaced
    cdef public bint timed_out
    cdef public bint drained
    cdef public bint unwritten
    cdef public bint ready_first
    cdef public bint indirect

    def __cinit__(self, idle, stepping):
        self.state = self.idle = idle
        self.stepping = stepping
        self.closed = True

    @property
    def is_shut(self):
        """Whether there is any reason."""
        return (
            self.state is not self.idle or self.closed or self.ready_first or self.indirect
            or self.needs_care()
        )

    cdef bint needs_care(self) noexcept:
        """Whether a wait has more to do than to wait for the answers of all environments."""
        return (
            self.forked or self.dead or self.replaced or self.timed_out or self.drained
            or self.unwritten
        )


@cython.final
cdef class StepResults:
    """Rewards, flags and messages of all workers, read as arrays of all environments.

    Args:
        parts: For each worker its rewards (float64), terminations, truncations and messages
            (bool), arrays of shape ``(count,)``; kept alive.
        blocks: C-contiguous arrays of numbers of shape ``(n, ...)`` that :meth:`finish` copies;
            kept alive. Their rows are written by the workers, each of whom has those of its
            environments.
    """

    cdef tuple _taken
    cdef list _arrays
    cdef object _table
    cdef Part* _parts
    cdef Py_ssize_t _num_parts
    cdef cnp.npy_intp _n
    cdef list _blocks
    cdef size_t _nbytes

    def __cinit__(self, parts, blocks=()):
        cdef Py_ssize_t i, count
        self._arrays = []
        self._n = 0
        for arrays in parts:
            rewards, terminations, truncations, messages = arrays
            rewards = checked_array(rewards, cnp.NPY_DOUBLE, 1, -1, READ, "rewards")
            count = len(rewards)
            self._arrays.append((
                rewards,
                checked_array(terminations, cnp.NPY_BOOL, 1, count, READ, "terminations"),
                checked_array(truncations, cnp.NPY_BOOL, 1, count, READ, "truncations"),
                checked_array(messages, cnp.NPY_BOOL, 1, count, READ, "messages"),
            ))
            self._n += count
        self._num_parts = len(self._arrays)
        self._blocks = []
        for block in blocks:
            if (
                not is_contiguous(block, READ)
                or block.dtype.hasobject
                or block.ndim == 0
                or len(block) != self._n
            ):
                raise ValueError(
                    f"expected a contiguous array of {self._n} rows of numbers, got {block!r}"
                )
            # A view of its own: no other code can change its shape.
            kept_block = block.view()
            self._blocks.append(kept_block)
            self._nbytes += <size_t>cnp.PyArray_NBYTES(<cnp.ndarray>kept_block)
        self._table = bytearray(<size_t>self._num_parts * sizeof(Part))
        self._parts = <Part*><char*>self._table
        for i in range(self._num_parts):
            rewards, terminations, truncations, messages = self._arrays[i]
            self._parts[i].count = len(rewards)
            self._parts[i].rewards = <const double*>cnp.PyArray_DATA(<cnp.ndarray>rewards)
            self._parts[i].terminations = <const cnp.npy_bool*>cnp.PyArray_DATA(
                <cnp.ndarray>terminations)
            self._parts[i].truncations = <const cnp.npy_bool*>cnp.PyArray_DATA(
                <cnp.ndarray>truncations)
            self._parts[i].messages = <const cnp.npy_bool*>cnp.PyArray_DATA(<cnp.ndarray>messages)

    def collect(self):
        """New arrays of rewards (float64), terminations and truncations (bool), ``(n,)`` each."""
        cdef tuple results = self.empty()
        self.fill(results)
        return results

    cdef tuple empty(self):
        return (
            cnp.PyArray_EMPTY(1, &self._n, cnp.NPY_DOUBLE, 0),
            cnp.PyArray_EMPTY(1, &self._n, cnp.NPY_BOOL, 0),
            cnp.PyArray_EMPTY(1, &self._n, cnp.NPY_BOOL, 0),
        )

    cdef void fill(self, tuple results) noexcept:
        cdef Py_ssize_t i
        cdef size_t count
        cdef const Part* part
        cdef double* rewards = <double*>cnp.PyArray_DATA(<cnp.ndarray>results[0])
        cdef cnp.npy_bool* terminations = <cnp.npy_bool*>cnp.PyArray_DATA(<cnp.ndarray>results[1])
        cdef cnp.npy_bool* truncations = <cnp.npy_bool*>cnp.PyArray_DATA(<cnp.ndarray>results[2])
        for i in range(self._num_parts):
            part = &self._parts[i]
            count = <size_t>part.count
            memcpy(rewards, part.rewards, count * sizeof(double))
            memcpy(terminations, part.terminations, count)
            memcpy(truncations, part.truncations, count)
            rewards += count
            terminations += count
            truncations += count

    def step(
        self,
        CallGate gate not None,
        Parent doorbell not None,
        put,
        actions,
        uint32_t opcode,
        double timeout_s,
    ):
        """Let all environments take a step, and :meth:`finish` it.

        ``gate.state`` says that a step is under way from before the actions are put; it is reset
        where nothing was sent.

        Args:
            gate: Is not shut.
            doorbell: The control words of the same environments.
            put: As :meth:`gymvec.vector.transport.action_block.ActionBlock.put`.
            actions: What ``put`` takes.
            opcode: That of a step whose actions were put.
            timeout_s: Seconds to wait.

        Returns:
            ``DONE``, ``NOT_SENT`` or ``SENT``.

        Raises:
            RuntimeError: A worker overwrote its control words with nonsense.
            ValueError: An environment has not answered its last command; nothing was sent.
        """
        cdef bint sent = False
        gate.state = gate.stepping
        try:
            if put(actions, None):
                doorbell.send_to_all(opcode, False)
                sent = True
        finally:
            # A signal handler runs at no moment between sending and this.
            if not sent:
                gate.state = gate.idle
        return self.finish_step(gate, doorbell, timeout_s) if sent else OUTCOME_NOT_SENT

    def finish(self, CallGate gate not None, Parent doorbell not None, double timeout_s):
        """Wait for every answer that is due and take all, unless a message belongs to one.

        Args:
            gate: That of the step.
            doorbell: The control words of the same environments.
            timeout_s: Seconds to wait; where the blocks are large, for each worker in turn.

        Returns:
            ``DONE``; or ``SENT``, with nothing taken, where the time is over, there is a message to
            read first, or the wait needs care.

        Raises:
            RuntimeError: A worker overwrote its control words with nonsense.
        """
        return self.finish_step(gate, doorbell, timeout_s)

    def take(self):
        """What the last step that is ``DONE`` has left here, once.

        Returns:
            What :meth:`collect` returned then, and copies of the blocks.
        """
        taken, self._taken = self._taken, None
        return taken

    cdef Outcome finish_step(
        self, CallGate gate, Parent doorbell, double timeout_s
    ) except? OUTCOME_NOT_SENT:
        if gate.needs_care():
            return OUTCOME_SENT
        # Made while the workers are at work.
        cdef tuple results = self.empty()
        cdef list copies = self.empty_blocks()
        cdef uint32_t due
        cdef bint in_shares = (
            self._num_parts > 1
            and self._nbytes // <size_t>self._num_parts >= SHARE_BYTES
            and doorbell.num_queues() == <size_t>self._num_parts
        )
        if in_shares:
            if not self.copy_shares(doorbell, copies, timeout_s):
                return OUTCOME_SENT
        else:
            due = doorbell.due()
            if doorbell.wait_for(due, timeout_s) < due or self.has_messages(0, self._num_parts):
                return OUTCOME_SENT
        self.fill(results)
        if not in_shares:
            self.copy_rows(copies, 0, self._n)
        doorbell.take_all()
        self._taken = results, copies
        return OUTCOME_DONE

    cdef list empty_blocks(self):
        cdef list arrays = []
        cdef cnp.ndarray block
        for block in self._blocks:
            arrays.append(
                empty_array(cnp.PyArray_NDIM(block), cnp.PyArray_DIMS(block), block.dtype))
        return arrays

    cdef int copy_rows(self, list copies, cnp.npy_intp start, cnp.npy_intp stop) except -1:
        cdef Py_ssize_t i
        cdef size_t row
        cdef cnp.ndarray source, target
        for i in range(len(copies)):
            source = self._blocks[i]
            target = copies[i]
            row = <size_t>(cnp.PyArray_NBYTES(source) // max(self._n, 1))
            copy_bytes(
                <char*>cnp.PyArray_DATA(target) + <size_t>start * row,
                <const char*>cnp.PyArray_DATA(source) + <size_t>start * row,
                <size_t>(stop - start) * row,
            )
        return 0

    cdef bint copy_shares(self, Parent doorbell, list copies, double timeout_s) except -1:
        """Copy the rows of each worker as soon as it has answered, without messages. Whether all
        have."""
        cdef Py_ssize_t i
        cdef uint32_t due, lacking, least, left
        cdef cnp.npy_intp start
        cdef bytearray copied = bytearray(self._num_parts)
        cdef char* is_copied = copied
        while True:
            due = least = doorbell.due()
            left = 0
            start = 0
            for i in range(self._num_parts):
                if not is_copied[i]:
                    lacking = doorbell.lacking(<uint32_t>i)
                    if lacking == 0:
                        if self.has_messages(i, i + 1):
                            return False
                        self.copy_rows(copies, start, start + self._parts[i].count)
                        is_copied[i] = True
                    else:
                        left += lacking
                        least = min(least, lacking)
                start += self._parts[i].count
            if left == 0:
                return True
            # No worker can be done before as many more answers are there.
            if doorbell.wait_for(due - left + least, timeout_s) < due - left + least:
                return False

    cdef bint has_messages(self, Py_ssize_t first, Py_ssize_t stop) noexcept:
        cdef Py_ssize_t i
        cdef cnp.npy_intp j
        for i in range(first, stop):
            for j in range(self._parts[i].count):
                if self._parts[i].messages[j]:
                    return True
        return False

    def gather(self, envs):
        """New arrays of rewards, terminations and truncations of some environments.

        Args:
            envs: Contiguous int64 array of environments, ascending.

        Raises:
            IndexError: An environment is outside ``[0, n)``.
            ValueError: They do not ascend.
        """
        cdef Py_ssize_t part = 0
        cdef cnp.npy_intp i, at, first = 0
        cdef const int64_t* where = checked_envs(envs, self._n)
        cdef cnp.npy_intp count = len(envs)
        rewards = cnp.PyArray_EMPTY(1, &count, cnp.NPY_DOUBLE, 0)
        terminations = cnp.PyArray_EMPTY(1, &count, cnp.NPY_BOOL, 0)
        truncations = cnp.PyArray_EMPTY(1, &count, cnp.NPY_BOOL, 0)
        cdef double* to_rewards = <double*>cnp.PyArray_DATA(<cnp.ndarray>rewards)
        cdef cnp.npy_bool* to_terminations = <cnp.npy_bool*>cnp.PyArray_DATA(
            <cnp.ndarray>terminations)
        cdef cnp.npy_bool* to_truncations = <cnp.npy_bool*>cnp.PyArray_DATA(
            <cnp.ndarray>truncations)
        for i in range(count):
            while where[i] - first >= self._parts[part].count:
                first += self._parts[part].count
                part += 1
            at = where[i] - first
            if at < 0:
                raise ValueError(f"expected ascending environments, got {envs!r}")
            to_rewards[i] = self._parts[part].rewards[at]
            to_terminations[i] = self._parts[part].terminations[at]
            to_truncations[i] = self._parts[part].truncations[at]
        return rewards, terminations, truncations

    def has_message(self, Py_ssize_t env):
        """Whether the answer of one environment comes with a message.

        Raises:
            IndexError: The environment is outside ``[0, n)``.
        """
        cdef Py_ssize_t part = 0
        if not 0 <= env < self._n:
            raise IndexError(f"environment {env} is outside [0, {self._n})")
        while env >= self._parts[part].count:
            env -= self._parts[part].count
            part += 1
        return self._parts[part].messages[env] != 0

    def messages(self):
        """The environments whose answer comes with a message, in order."""
        cdef Py_ssize_t i
        cdef cnp.npy_intp j
        cdef Py_ssize_t first = 0
        cdef list envs = []
        for i in range(self._num_parts):
            for j in range(self._parts[i].count):
                if self._parts[i].messages[j]:
                    envs.append(first + j)
            first += self._parts[i].count
        return envs
