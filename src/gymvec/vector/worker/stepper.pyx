"""The inner loop of a worker: one pass over the environments that have a command."""

cimport cython
cimport numpy as cnp
from cpython.dict cimport PyDict_CheckExact
from cpython.list cimport PyList_GET_SIZE
from libc.stdint cimport int32_t, uint32_t

from gymvec.vector.transport.control cimport COMMAND_BITS, IMMEDIATE, SECOND_SET
from gymvec.vector.transport.control_worker cimport Worker
from gymvec.vector.transport.action_block cimport ActionBlock
from gymvec.kernels.arrays cimport WRITE, checked_array
from gymvec.kernels.rows cimport RowWriter
from gymvec.vector.transport.info_schemas cimport IN_SLOT, WITH_SCHEMA, InfoPut, SlotWriter
from gymvec.vector.stepping cimport DISABLED, StepBlocks, of_reset, step_one

import numpy as np

cnp.import_array()


@cython.final
cdef class Stepper:
    """Steps and resets the environments of one worker, and writes what they return.

    Args:
        envs: The environments.
        writers: For each set of blocks a list with, for each environment, a function that
            writes an observation and returns what has no row, or None.
        blocks: Where rewards and flags go.
        messages: Writable bool array of shape ``(len(envs),)``: who answers with a message.
        slots: Takes the infos that fit.
        autoreset_mode: ``NEXT_STEP``, ``SAME_STEP`` or ``DISABLED`` of ``_steps``.
        first: Number of the first environment in the vector environment.
        keep: Called with a terminal observation, and its info, that the reset after it must not
            change.
        send: Called with an environment, ``(others, infos)`` where there are any, and a new
            schema of infos or None.
    """

    cdef list _envs
    cdef list _sets
    cdef list _writers
    cdef StepBlocks _blocks
    cdef SlotWriter _slots
    cdef cnp.ndarray _message_array
    cdef cnp.ndarray _over_array
    cdef cnp.npy_bool* _messages
    cdef cnp.npy_bool* _over
    cdef int _mode
    cdef Py_ssize_t _first
    cdef object _keep
    cdef object _send
    # What the parent has of each environment's other leaves, if it could not tell them from equal
    # ones; None where it has to be sent.
    cdef list _known

    def __cinit__(
        self,
        list envs not None,
        list writers not None,
        StepBlocks blocks not None,
        messages,
        SlotWriter slots not None,
        int autoreset_mode,
        Py_ssize_t first,
        keep,
        send,
    ):
        cdef Py_ssize_t n = len(envs)
        # Lists of its own, which no other code shortens. Not so `envs`: closing one takes it out.
        cdef list sets = [list(of_set) for of_set in writers]
        if (
            not 1 <= len(sets) <= 2
            or any([len(of_set) != n for of_set in sets])
            or blocks._n != n
            or slots._n != n
        ):
            raise ValueError(f"expected {n} writers, rewards, flags and slots")
        self._message_array = checked_array(messages, cnp.NPY_BOOL, 1, n, WRITE, "messages")
        self._envs = envs
        self._sets = sets
        self._writers = sets[0]
        self._blocks = blocks
        self._slots = slots
        self._over_array = np.zeros(n, dtype=np.bool_)
        self._messages = <cnp.npy_bool*>cnp.PyArray_DATA(self._message_array)
        self._over = <cnp.npy_bool*>cnp.PyArray_DATA(self._over_array)
        self._mode = autoreset_mode
        self._first = first
        self._keep = keep
        self._send = send
        self._known = [None] * n

    def step(self, env, action):
        """Step one environment, or reset it where its episode is over.

        Args:
            env: Which, from 0.
            action: Its action.

        Raises:
            AssertionError: Autoreset is disabled and the episode is over.
            Exception: Whatever the environment raises.
        """
        self.step_env(env, action)

    def reset(self, env, **arguments):
        """Reset one environment with the arguments of its ``reset``."""
        cdef Py_ssize_t i = self.checked(env)
        self._messages[i] = False
        self._slots.put_number(i, 0)
        self._known[i] = None
        observation, info = of_reset(self._envs[i].reset(**arguments))
        self._over[i] = <cnp.npy_bool>self._blocks.store(i, 0.0, False, False)
        self.write(i, observation, [info])

    cdef int use(self, bint second) except -1:
        if second and len(self._sets) < 2:
            raise ValueError("there is no second set of blocks")
        self._writers = <list>self._sets[1 if second else 0]
        return 0

    cdef Py_ssize_t checked(self, Py_ssize_t env) except -1:
        if not 0 <= env < self._blocks._n or env >= PyList_GET_SIZE(self._envs):
            raise IndexError(f"environment {env} is outside [0, {self._blocks._n})")
        return env

    cdef int step_env(self, Py_ssize_t i, object action) except -1:
        cdef list infos = []
        self.checked(i)
        self._messages[i] = False
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
        cdef InfoPut put
        writer = self._writers[i]
        if type(writer) is RowWriter:
            (<RowWriter>writer).put(observation)
        else:
            others = writer(observation)
        if len(infos) == 1:
            info = infos[0]
            if PyDict_CheckExact(info) and not <dict>info:
                # The parent takes an empty slot without a message for this.
                infos = []
            else:
                put = self._slots.put_info(i, info)
                if put == IN_SLOT:
                    infos = []
                elif put == WITH_SCHEMA:
                    schema = self._slots.new_schema
        if others and not infos:
            if same_constants(others, self._known[i]):
                return 0
            self._known[i] = others if are_constants(others) else None
        elif others:
            # Who knows whether the parent can read a message with these infos.
            self._known[i] = None
        if others or infos:
            self._send(i, (others, infos), schema)
        return 0


cdef bint is_constant(object value) noexcept:
    """Whether such a value cannot be told from an equal one of the same type."""
    return type(value) is str or type(value) is int or type(value) is bytes or value is None


cdef bint are_constants(list values) except -1:
    for value in values:
        if not is_constant(value):
            return False
    return True


cdef bint same_constants(object values, object known) except -1:
    cdef Py_ssize_t i
    if known is None or type(values) is not list or len(<list>values) != len(<list>known):
        return False
    for i in range(len(<list>known)):
        value = (<list>values)[i]
        before = (<list>known)[i]
        if value is not before and (
            type(value) is not type(before) or not is_constant(value) or value != before
        ):
            return False
    return True


def serve_pass(
    Worker doorbell not None, Stepper stepper, int step_command, actions,
    dict commands not None, fail, post,
):
    """Do what the parent asks of each environment, answer, and publish the answers.

    Args:
        doorbell: The worker's control words.
        stepper: Steps the environments; None where they could not be built.
        step_command: The command of a step whose action lies in ``actions``.
        actions: An :class:`gymvec.vector.transport.action_block.ActionBlock`, or a function of
            an environment's number in the vector environment.
        commands: Functions of an environment, from 0, by other commands.
        fail: Called with an environment and what it raised.
        post: Called after an answer to a command that is ``IMMEDIATE``.
    """
    cdef int32_t env = doorbell.next_env()
    cdef uint32_t opcode
    cdef bint is_block = type(actions) is ActionBlock
    while env >= 0:
        opcode = doorbell.opcode
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
        doorbell.give(env)
        if opcode & IMMEDIATE:
            post()
        env = doorbell.next_env()
    doorbell.publish()
