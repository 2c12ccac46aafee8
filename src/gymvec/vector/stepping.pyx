"""Stepping environments one after another, and the rewards and flags that steps return."""

cimport cython
cimport numpy as cnp
from cpython.bool cimport PyBool_Check
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE

from gymvec.kernels.arrays cimport WRITE, checked_array
from gymvec.kernels.infos cimport InfoBatch

import numpy as np

from gymvec.vector.unpacking import five_values, two_values

cnp.import_array()

# NumPy's bools are singletons, as Python's are.
cdef object NUMPY_TRUE = np.True_
cdef object NUMPY_FALSE = np.False_


cdef inline bint is_flag(object value) noexcept:
    return PyBool_Check(value) or value is NUMPY_TRUE or value is NUMPY_FALSE


cdef inline bint is_true(object flag) noexcept:
    return flag is True or flag is NUMPY_TRUE


@cython.final
cdef class StepBlocks:
    """Where steps put rewards and flags, bound once.

    Args:
        rewards: Writable float64 array of shape ``(n,)``.
        terminations: Writable bool array of shape ``(n,)``.
        truncations: Writable bool array of shape ``(n,)``.
        first: Number of the first environment, for errors.

    The arrays stay the caller's; they are kept alive.
    """

    def __cinit__(self, rewards, terminations, truncations, Py_ssize_t first=0):
        self._first = first
        self._rewards = checked_array(rewards, cnp.NPY_DOUBLE, 1, -1, WRITE, "rewards")
        self._n = cnp.PyArray_DIM(self._rewards, 0)
        self._terminations = checked_array(
            terminations, cnp.NPY_BOOL, 1, self._n, WRITE, "terminations")
        self._truncations = checked_array(
            truncations, cnp.NPY_BOOL, 1, self._n, WRITE, "truncations")
        self._reward_data = <double*>cnp.PyArray_DATA(self._rewards)
        self._terminated_data = <cnp.npy_bool*>cnp.PyArray_DATA(self._terminations)
        self._truncated_data = <cnp.npy_bool*>cnp.PyArray_DATA(self._truncations)
        self._odd_reward = np.empty(1, dtype=np.float64)
        self._odd_flag = np.empty(1, dtype=np.bool_)

    def put(self, index, reward, terminated, truncated):
        """Put what the step of one environment returned.

        Args:
            index: Row, in ``[0, n)``.
            reward: A number, or an array of shape ``()`` or ``(1,)``.
            terminated: Truth value.
            truncated: Truth value.

        Returns:
            Whether the episode is over.

        Raises:
            IndexError: ``index`` is outside ``[0, n)``.
            ValueError: The reward has another shape; the message names the environment.
        """
        return self.store(index, reward, terminated, truncated)

    def clear(self, index):
        """Put reward 0 and neither flag, as for the reset that stands for a step."""
        self.store(index, 0.0, False, False)

    cdef bint store(
        self, Py_ssize_t index, object reward, object terminated, object truncated
    ) except -1:
        cdef double number
        cdef bint ended, cut
        if not 0 <= index < self._n:
            raise IndexError(f"index {index} is outside [0, {self._n})")
        # All are converted before one is written: that may run the environment's code and raise.
        number = PyFloat_AS_DOUBLE(reward) if PyFloat_Check(reward) else self.odd_reward(
            index, reward)
        ended = is_true(terminated) if is_flag(terminated) else self.odd_flag(terminated)
        cut = is_true(truncated) if is_flag(truncated) else self.odd_flag(truncated)
        self._reward_data[index] = number
        self._terminated_data[index] = <cnp.npy_bool>ended
        self._truncated_data[index] = <cnp.npy_bool>cut
        return ended or cut

    cdef double odd_reward(self, Py_ssize_t index, object reward) except? -1:
        """What NumPy assigns for a reward that is no float."""
        # Numbers have no shape to look at; everything else might have a wrong one.
        if not isinstance(reward, (int, np.generic)):
            shape = np.shape(reward)
            if shape == (1,):
                reward = np.asarray(reward)[0]
            elif shape != ():
                raise ValueError(
                    f"expected a reward of one number from environment {self._first + index}, got "
                    f"{type(reward)} of shape {shape}"
                )
        self._odd_reward[0] = reward
        return (<double*>cnp.PyArray_DATA(self._odd_reward))[0]

    cdef bint odd_flag(self, object flag) except -1:
        """What NumPy assigns for a flag that is no bool."""
        self._odd_flag[0] = flag
        return (<cnp.npy_bool*>cnp.PyArray_DATA(self._odd_flag))[0]


def step_environments(
    list envs not None,
    list actions not None,
    list observations not None,
    StepBlocks blocks not None,
    cnp.ndarray ended not None,
    int autoreset_mode,
    infos,
    keep,
):
    """Step each environment in order.

    What happened to the environments before one that raises stays noted in ``ended``, so
    that the next step resets those whose episode is over.

    Args:
        envs: The ``n`` environments.
        actions: One action each.
        observations: List of length ``n``, into which the observations are put.
        blocks: Where rewards and flags go.
        ended: Bool array of shape ``(n,)``: whose episode is over. Read and updated.
        autoreset_mode: ``NEXT_STEP``, ``SAME_STEP`` or ``DISABLED``.
        infos: An :class:`gymvec.kernels.infos.InfoBatch`, or another object with its ``add``.
        keep: Called with a terminal observation, and its info, that the reset after it must not
            change.

    Raises:
        ValueError: The lengths differ, or a reward has a wrong shape.
        Exception: Whatever an environment raises.
    """
    cdef Py_ssize_t i, n = PyList_GET_SIZE(envs)
    cdef cnp.npy_bool* over
    ended = checked_array(ended, cnp.NPY_BOOL, 1, n, WRITE, "ended")
    over = <cnp.npy_bool*>cnp.PyArray_DATA(ended)
    if not PyList_GET_SIZE(actions) == PyList_GET_SIZE(observations) == blocks._n == n:
        raise ValueError(f"expected {n} actions, observations, rewards and flags")
    for i in range(n):
        # Environments may reach these lists, shorten them, and put others in their place: what
        # is used is owned.
        if PyList_GET_SIZE(envs) != n or PyList_GET_SIZE(actions) != n:
            raise RuntimeError("the list of environments changed its length during a step")
        env = <object>PyList_GET_ITEM(envs, i)
        action = <object>PyList_GET_ITEM(actions, i)
        observation = step_one(env, action, i, blocks, over, autoreset_mode, infos, keep)
        if PyList_GET_SIZE(observations) != n:
            raise RuntimeError("the list of observations changed its length during a step")
        observations[i] = observation


cdef object step_one(
    object env,
    object action,
    Py_ssize_t i,
    StepBlocks blocks,
    cnp.npy_bool* over,
    int autoreset_mode,
    object infos,
    object keep,
):
    """Step one environment, or reset it where its episode is over; returns its observation."""
    # With same-step autoreset only after a reset that failed.
    if over[i] and autoreset_mode != DISABLED:
        observation, info = of_reset(env.reset())
        over[i] = <cnp.npy_bool>blocks.store(i, 0.0, False, False)
    else:
        observation, reward, terminated, truncated, info = of_step(env.step(action))
        over[i] = <cnp.npy_bool>blocks.store(i, reward, terminated, truncated)
        if over[i] and autoreset_mode == SAME_STEP:
            # The reset may reuse the observation, and what the info holds.
            note({"final_obs": keep(observation), "final_info": keep(info)}, i, infos)
            observation, info = of_reset(env.reset())
            over[i] = False
    note(info, i, infos)
    return observation


cdef tuple of_step(object returned):
    if PyTuple_CheckExact(returned) and PyTuple_GET_SIZE(returned) == 5:
        return <tuple>returned
    return five_values(returned)


cdef tuple of_reset(object returned):
    if PyTuple_CheckExact(returned) and PyTuple_GET_SIZE(returned) == 2:
        return <tuple>returned
    return two_values(returned)


cdef int note(object info, Py_ssize_t i, object infos) except -1:
    """Add an info to a batch of them, or to a list of one environment's."""
    if type(infos) is InfoBatch:
        (<InfoBatch>infos).put(info, i)
    elif type(infos) is list:
        (<list>infos).append(info)
    else:
        infos.add(info, i)
    return 0
