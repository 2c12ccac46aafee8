"""The inner loop of a worker: one pass over the environments that have a command."""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t, uint32_t

from gymvec._bell cimport Worker
from gymvec._exchange cimport ActionBlock
from gymvec._rows cimport RowWriter
from gymvec._slots cimport SlotWriter
from gymvec._steps cimport DISABLED, StepBlocks, step_one

import numpy as np

cnp.import_array()

cpdef enum:
    # An opcode is a command and flags. The command:
    COMMAND_BITS = 0xff
    # The letter that belongs to the answer does not wait for the rest of the pass.
    APART = 0x100
    # Observations go into the second set of blocks.
    SECOND_SET = 0x200


@cython.final
cdef class Stepper:
    """Steps and resets the environments of one worker, and writes what they return.

    Args:
        envs: The environments.
        writers: For each set of blocks a list with, for each environment, a function that
            writes an observation and returns what has no row, or None.
        blocks: Where rewards and flags go.
        letters: Writable bool array of shape ``(len(envs),)``: who answers with a letter.
        slots: Takes the infos that fit.
        autoreset_mode: ``NEXT_STEP``, ``SAME_STEP`` or ``DISABLED`` of ``_steps``.
        first: Number of the first environment in the vector environment.
        keep: Called with a terminal observation that the reset after it must not change.
        send: Called with an environment, ``(others, infos)`` where there are any, and a new
            schema of infos or None.
    """

    cdef list _envs
    cdef list _sets
    cdef list _writers
    cdef StepBlocks _blocks
    cdef SlotWriter _slots
    cdef object _letter_array
    cdef object _over_array
    cdef cnp.npy_bool* _letters
    cdef cnp.npy_bool* _over
    cdef int _mode
    cdef Py_ssize_t _first
    cdef object _keep
    cdef object _send

    def __init__(
        self,
        list envs not None,
        list writers not None,
        StepBlocks blocks not None,
        cnp.ndarray letters not None,
        SlotWriter slots not None,
        int autoreset_mode,
        Py_ssize_t first,
        keep,
        send,
    ):
        cdef Py_ssize_t n = len(envs)
        if (
            not 1 <= len(writers) <= 2
            or any([len(of_set) != n for of_set in writers])
            or blocks._n != n
            or slots._n != n
        ):
            raise ValueError(f"expected {n} writers, rewards, flags and slots")
        if (
            cnp.PyArray_NDIM(letters) != 1
            or cnp.PyArray_DIM(letters, 0) != n
            or cnp.PyArray_TYPE(letters) != cnp.NPY_BOOL
            or not cnp.PyArray_CHKFLAGS(letters, cnp.NPY_ARRAY_CARRAY)
        ):
            raise ValueError(f"expected letters as a writable bool array of shape ({n},)")
        self._envs = envs
        self._sets = writers
        self._writers = writers[0]
        self._blocks = blocks
        self._slots = slots
        self._letter_array = letters.view()
        self._over_array = np.zeros(n, dtype=np.bool_)
        self._letters = <cnp.npy_bool*>cnp.PyArray_DATA(<cnp.ndarray>self._letter_array)
        self._over = <cnp.npy_bool*>cnp.PyArray_DATA(<cnp.ndarray>self._over_array)
        self._mode = autoreset_mode
        self._first = first
        self._keep = keep
        self._send = send

    def step(self, env, action):
        """Step one environment, or reset it where its episode is over.

        Args:
            env: Which, from 0.
            action: Its action.

        Raises:
            AssertionError: Autoreset is disabled and the episode is over.
            Exception: Whatever the environment raises.
        """
        self.step_env(self.checked(env), action)

    def reset(self, env, **arguments):
        """Reset one environment with the arguments of its ``reset``."""
        cdef Py_ssize_t i = self.checked(env)
        self._letters[i] = False
        self._slots.put_number(i, 0)
        observation, info = self._envs[i].reset(**arguments)
        self._over[i] = self._blocks.store(i, 0.0, False, False)
        self.write(i, observation, [info] if info else [])

    cdef int use(self, bint second) except -1:
        if second and len(self._sets) < 2:
            raise ValueError("there is no second set of blocks")
        self._writers = <list>self._sets[1 if second else 0]
        return 0

    cdef Py_ssize_t checked(self, Py_ssize_t env) except -1:
        if not 0 <= env < len(self._envs):
            raise IndexError(f"environment {env} is outside [0, {len(self._envs)})")
        return env

    cdef int step_env(self, Py_ssize_t i, object action) except -1:
        cdef list infos = []
        self._letters[i] = False
        self._slots.put_number(i, 0)
        if self._over[i] and self._mode == DISABLED:
            raise AssertionError(
                f"environment {self._first + i} was stepped after its episode ended"
            )
        observation = step_one(
            self._envs[i], action, i, self._blocks, self._over, self._mode, infos, self._keep)
        self.write(i, observation, infos)
        return 0

    cdef int write(self, Py_ssize_t i, object observation, list infos) except -1:
        cdef object others = None
        cdef object schema = None
        writer = self._writers[i]
        if type(writer) is RowWriter:
            (<RowWriter>writer).put(observation)
        else:
            others = writer(observation)
        if len(infos) == 1:
            schema = self._slots.put_info(i, infos[0])
            if schema is True:
                infos = []
                schema = None
        if others or infos:
            self._send(i, (others, infos), schema)
        return 0


def serve_pass(
    Worker bell not None, Stepper stepper, int step_command, actions, dict commands not None, fail,
    post,
):
    """Do what the parent asks of each environment, and answer.

    Args:
        bell: The worker's control words.
        stepper: Steps the environments; None where they could not be built.
        step_command: The command of a step whose action lies in ``actions``.
        actions: An :class:`gymvec._exchange.ActionBlock`, or a function of an environment's
            number in the vector environment.
        commands: Functions of an environment, from 0, by other commands.
        fail: Called with an environment and what it raised.
        post: Called after an answer to a command that is ``APART``.
    """
    cdef int32_t env = bell.next_env()
    cdef uint32_t opcode
    cdef bint is_block = type(actions) is ActionBlock
    while env >= 0:
        opcode = bell.opcode
        try:
            if stepper is not None:
                stepper.use(opcode & SECOND_SET)
            if stepper is not None and opcode & COMMAND_BITS == <uint32_t>step_command:
                stepper.step_env(
                    env,
                    (<ActionBlock>actions).action(stepper._first + env) if is_block
                    else actions(stepper._first + env))
            else:
                commands[opcode & COMMAND_BITS](env)
        except BaseException as error:
            fail(env, error)
        bell.give(env)
        if opcode & APART:
            post()
        env = bell.next_env()
