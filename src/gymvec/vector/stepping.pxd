"""What other extension modules may use of steps and their results."""

cimport numpy as cnp


cpdef enum:
    NEXT_STEP = 0
    SAME_STEP = 1
    DISABLED = 2


cdef class StepBlocks:
    cdef cnp.ndarray _rewards
    cdef cnp.ndarray _terminations
    cdef cnp.ndarray _truncations
    cdef cnp.ndarray _odd_reward
    cdef cnp.ndarray _odd_flag
    cdef double* _reward_data
    cdef cnp.npy_bool* _terminated_data
    cdef cnp.npy_bool* _truncated_data
    cdef Py_ssize_t _n
    cdef Py_ssize_t _first
    cdef bint store(
        self, Py_ssize_t index, object reward, object terminated, object truncated) except -1
    cdef double odd_reward(self, Py_ssize_t index, object reward) except? -1
    cdef bint odd_flag(self, object flag) except -1


# The values that a step or a reset returned. The text of an error is Python's.
cdef tuple of_step(object returned)
cdef tuple of_reset(object returned)


# `infos` is an InfoBatch, a list, or an object with `add`.
cdef object step_one(
    object env, object action, Py_ssize_t i, StepBlocks blocks, cnp.npy_bool* over,
    int autoreset_mode, object infos, object keep)
