"""What crosses the arena besides observations: actions to the workers, results to the parent."""

cimport cython
cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_CheckExact
from libc.stdint cimport int64_t, uint32_t
from libc.string cimport memcpy, memset

from gymvec._bell cimport Parent

import numpy as np

cnp.import_array()

cdef extern from *:
    object PyArray_Empty(int nd, const cnp.npy_intp* dims, cnp.dtype descr, int fortran)
    object PyArray_Scalar(void* data, cnp.dtype descr, object base)
    const int NPY_HALF
    long long PyLong_AsLongLongAndOverflow(object exact_int, int* overflow) noexcept

cdef enum:
    ELEMENT_BYTES = 8
    # Codes of what a row holds: a NumPy type number, or one of these.
    PYTHON_INT = 100
    PYTHON_FLOAT = 101
    # As for the kernels: smaller copies take less time than giving the GIL up.
    GIL_FREE_BYTES = 1 << 20


cdef const int64_t* checked_envs(object envs, cnp.npy_intp n) except NULL:
    cdef cnp.npy_intp i
    cdef const int64_t* numbers
    if not (
        cnp.PyArray_CheckExact(envs)
        and cnp.PyArray_NDIM(<cnp.ndarray>envs) == 1
        and cnp.PyArray_TYPE(<cnp.ndarray>envs) == cnp.NPY_INT64
        and cnp.PyArray_CHKFLAGS(<cnp.ndarray>envs, cnp.NPY_ARRAY_CARRAY_RO)
        and cnp.PyArray_ISNOTSWAPPED(<cnp.ndarray>envs)
    ):
        raise ValueError(f"expected environments as a contiguous int64 array, got {envs!r}")
    numbers = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>envs)
    for i in range(cnp.PyArray_DIM(<cnp.ndarray>envs, 0)):
        if not 0 <= numbers[i] < n:
            raise IndexError(f"environment {numbers[i]} is outside [0, {n})")
    return numbers


@cython.final
cdef class ActionBlock:
    """The actions of all environments for one array leaf, with what each of them is.

    Environments get what iterating over the caller's batch yields: rows as arrays of the
    caller's dtype, scalars, or Python numbers. A row has room for eight bytes an element.

    Args:
        rows: Writable uint8 array of shape ``(n, elements * 8)``.
        codes: Writable uint8 array of shape ``(n,)``.
        shape: Shape of one action.
    """

    def __cinit__(self, rows, codes, tuple shape not None):
        cdef int i
        cdef object elements = 1  # Python's integers do not overflow.
        # What this file reads of arrays by itself must not be what a subclass says.
        if not cnp.PyArray_CheckExact(rows) or not cnp.PyArray_CheckExact(codes):
            raise TypeError(f"expected arrays, got {type(rows)} and {type(codes)}")
        # One more than an action has lies in a batch.
        if len(shape) >= cnp.NPY_MAXDIMS:
            raise ValueError(f"expected fewer than {cnp.NPY_MAXDIMS} dimensions, got {shape}")
        self._ndim = <int>len(shape)
        for i in range(self._ndim):
            self._dims[i] = shape[i]
            if self._dims[i] < 0:
                raise ValueError(f"expected sizes of dimensions, got {shape}")
            elements *= self._dims[i]
        n = len(codes) if codes.ndim == 1 else 0
        for block, wanted in ((rows, (n, elements * ELEMENT_BYTES)), (codes, (n,))):
            if block.shape != wanted or block.dtype != np.uint8 or not block.flags.carray:
                raise ValueError(f"expected a writable uint8 array of shape {wanted}")
        self._elements = elements
        self._rows = rows.view()
        self._codes = codes.view()
        self._shape = shape
        self._n = len(codes)
        self._data = <char*>cnp.PyArray_DATA(<cnp.ndarray>self._rows)
        self._code = <cnp.npy_uint8*>cnp.PyArray_DATA(<cnp.ndarray>self._codes)
        self._descrs = [None] * 256
        for i in list(range(cnp.NPY_LONGDOUBLE)) + [NPY_HALF]:
            self._descrs[i] = cnp.PyArray_DescrFromType(i)
        self._views = {}

    def put(self, actions, envs=None):
        """Write the actions of all environments, or of some.

        Args:
            actions: An array of shape ``(count, *shape)``, or a list or tuple of ``count``
                Python ints or floats where ``shape`` is ``()``.
            envs: Contiguous int64 array of the ``count`` environments that they are for; None
                for all ``n``.

        Returns:
            Whether they fit. Where not, no action of these environments may be taken.

        Raises:
            IndexError: An environment is outside ``[0, n)``.
        """
        cdef cnp.ndarray array
        cdef int type_num
        cdef cnp.npy_intp count = self._n
        cdef const int64_t* where = NULL
        if envs is not None:
            where = checked_envs(envs, self._n)
            count = len(envs)
        if cnp.PyArray_CheckExact(actions):
            array = actions
            type_num = cnp.PyArray_TYPE(array)
            if (
                type_num > 255
                or self._descrs[type_num] is None
                or cnp.PyArray_NDIM(array) != self._ndim + 1
                or cnp.PyArray_DIM(array, 0) != count
            ):
                return False
            for i in range(self._ndim):
                if cnp.PyArray_DIM(array, i + 1) != self._dims[i]:
                    return False
            self.put_array(array, type_num, count, where, envs)
            return True
        if self._ndim == 0 and (PyList_CheckExact(actions) or PyTuple_CheckExact(actions)):
            return self.put_numbers(tuple(actions), count, where)
        return False

    cdef int put_array(
        self, cnp.ndarray array, int type_num, cnp.npy_intp count, const int64_t* where, object envs
    ) except -1:
        cdef cnp.npy_intp i, row
        cdef cnp.npy_intp size
        cdef const char* source
        # Before NumPy may let other threads run, which could change the checked environments.
        if where is NULL:
            memset(self._code, type_num, <size_t>count)
        else:
            for i in range(count):
                self._code[where[i]] = <cnp.npy_uint8>type_num
        if cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_CARRAY_RO) and cnp.PyArray_ISNOTSWAPPED(array):
            size = self._elements * cnp.PyArray_ITEMSIZE(array)
            source = <const char*>cnp.PyArray_DATA(array)
            if where is NULL and size == self._elements * ELEMENT_BYTES:
                memcpy(self._data, source, <size_t>(count * size))
            else:
                for i in range(count):
                    row = i if where is NULL else where[i]
                    memcpy(self._data + row * self._elements * ELEMENT_BYTES, source + i * size,
                           <size_t>size)
        else:
            view = self._views.get(type_num)
            if view is None:
                descr = self._descrs[type_num]
                view = np.ndarray(
                    (self._n, self._elements), descr, self._rows,
                    strides=(self._elements * ELEMENT_BYTES, descr.itemsize))
                self._views[type_num] = view
            view[... if envs is None else envs] = array.reshape(count, self._elements)
        return 0

    cdef bint put_numbers(
        self, tuple actions, cnp.npy_intp count, const int64_t* where
    ) except -1:
        cdef cnp.npy_intp i, row
        cdef long long integer
        cdef double real
        cdef int overflow = 0
        if len(actions) != count:
            return False
        for i in range(count):
            row = i if where is NULL else where[i]
            action = actions[i]
            if PyLong_CheckExact(action):
                integer = PyLong_AsLongLongAndOverflow(action, &overflow)
                if overflow:
                    return False
                memcpy(self._data + row * ELEMENT_BYTES, &integer, sizeof(integer))
                self._code[row] = PYTHON_INT
            elif PyFloat_CheckExact(action):
                real = PyFloat_AS_DOUBLE(action)
                memcpy(self._data + row * ELEMENT_BYTES, &real, sizeof(real))
                self._code[row] = PYTHON_FLOAT
            else:
                return False
        return True

    def __call__(self, index):
        """The action of one environment, a new object.

        Raises:
            IndexError: ``index`` is outside ``[0, n)``.
            RuntimeError: The code is none that :meth:`put` writes.
        """
        return self.action(index)

    cdef object action(self, Py_ssize_t index):
        cdef char* row
        cdef long long integer
        cdef double real
        cdef cnp.dtype descr
        cdef int code
        if not 0 <= index < self._n:
            raise IndexError(f"index {index} is outside [0, {self._n})")
        row = self._data + index * self._elements * ELEMENT_BYTES
        code = self._code[index]
        if code == PYTHON_INT:
            memcpy(&integer, row, sizeof(integer))
            return integer
        if code == PYTHON_FLOAT:
            memcpy(&real, row, sizeof(real))
            return real
        found = self._descrs[code]
        if found is None:
            raise RuntimeError(f"environment {index} has an action of the unknown kind {code}")
        descr = found
        if self._ndim == 0:
            return PyArray_Scalar(row, descr, None)
        Py_INCREF(descr)  # PyArray_Empty takes a reference away.
        action = PyArray_Empty(self._ndim, self._dims, descr, 0)
        memcpy(cnp.PyArray_DATA(<cnp.ndarray>action), row,
               <size_t>(self._elements * cnp.PyArray_ITEMSIZE(<cnp.ndarray>action)))
        return action


cdef struct Part:
    cnp.npy_intp count
    const double* rewards
    const cnp.npy_bool* terminations
    const cnp.npy_bool* truncations
    const cnp.npy_bool* letters


cdef void copy_without_gil(void* target, const void* source, size_t nbytes) noexcept:
    with nogil:
        memcpy(target, source, nbytes)


@cython.final
cdef class StepResults:
    """Rewards, flags and letters of all workers, read as arrays of all environments.

    Args:
        parts: For each worker its rewards (float64), terminations, truncations and letters
            (bool), arrays of shape ``(count,)``; kept alive.
        block: C-contiguous array of numbers that :meth:`finish` copies, or None; kept alive.
    """

    cdef list _arrays
    cdef object _table
    cdef Part* _parts
    cdef Py_ssize_t _num_parts
    cdef cnp.npy_intp _n
    cdef cnp.ndarray _block

    def __cinit__(self, parts, block=None):
        cdef Py_ssize_t i
        if block is not None:
            if (
                type(block) is not np.ndarray
                or block.dtype.hasobject
                or not block.flags.c_contiguous
            ):
                raise ValueError(f"expected a contiguous array of numbers, got {block!r}")
            # A view of its own, whose shape nobody else can change.
            self._block = block.view()
        self._arrays = []
        self._n = 0
        for arrays in parts:
            kept = tuple([array.view() for array in arrays])
            for array, kind in zip(kept, (np.float64, np.bool_, np.bool_, np.bool_), strict=True):
                if (
                    type(array) is not np.ndarray
                    or array.ndim != 1
                    or array.shape != kept[0].shape
                    or array.dtype != kind
                    or not (array.flags.c_contiguous and array.flags.aligned)
                ):
                    raise ValueError(
                        f"expected an array of {kind}, as long as the rewards, got {array!r}"
                    )
            self._arrays.append(kept)
            self._n += len(kept[0])
        self._num_parts = len(self._arrays)
        self._table = bytearray(self._num_parts * sizeof(Part))
        self._parts = <Part*><char*>self._table
        for i in range(self._num_parts):
            rewards, terminations, truncations, letters = self._arrays[i]
            self._parts[i].count = len(rewards)
            self._parts[i].rewards = <const double*>cnp.PyArray_DATA(<cnp.ndarray>rewards)
            self._parts[i].terminations = <const cnp.npy_bool*>cnp.PyArray_DATA(
                <cnp.ndarray>terminations)
            self._parts[i].truncations = <const cnp.npy_bool*>cnp.PyArray_DATA(
                <cnp.ndarray>truncations)
            self._parts[i].letters = <const cnp.npy_bool*>cnp.PyArray_DATA(<cnp.ndarray>letters)

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
        self, Parent bell not None, put, actions, uint32_t opcode, double timeout_s
    ):
        """Let all environments take a step, and :meth:`finish` it.

        Args:
            bell: The control words of the same environments.
            put: As :meth:`ActionBlock.put`.
            actions: What ``put`` takes.
            opcode: That of a step whose actions were put.
            timeout_s: Seconds to wait.

        Returns:
            None, with nothing sent, where the actions do not fit. An empty tuple, with nothing
            taken, where :meth:`finish` returns None. Otherwise what that returns.

        Raises:
            RuntimeError: A worker overwrote its control words with nonsense.
            ValueError: An environment has not answered its last command; nothing was sent.
        """
        if not put(actions, None):
            return None
        bell.send_to_all(opcode, False)
        finished = self.finish(bell, timeout_s)
        return () if finished is None else finished

    def finish(self, Parent bell not None, double timeout_s):
        """Wait for every answer that is due and take all, unless a letter belongs to one.

        Args:
            bell: The control words of the same environments.
            timeout_s: Seconds to wait.

        Returns:
            What :meth:`collect` returns, and a copy of the block or None. None alone, with nothing
            taken, where the time is over or there is a letter to read first.

        Raises:
            RuntimeError: A worker overwrote its control words with nonsense.
        """
        # Made while the workers are at work.
        cdef tuple results = self.empty()
        cdef cnp.ndarray block = self._block
        cdef cnp.ndarray copy = None
        cdef cnp.dtype descr
        cdef size_t nbytes
        cdef uint32_t due
        if block is not None:
            descr = block.dtype
            Py_INCREF(descr)  # PyArray_Empty takes a reference away.
            copy = PyArray_Empty(cnp.PyArray_NDIM(block), cnp.PyArray_DIMS(block), descr, 0)
        due = bell.due()
        if bell.wait_for(due, timeout_s) < due or self.has_letters():
            return None
        self.fill(results)
        if block is not None:
            nbytes = <size_t>cnp.PyArray_NBYTES(block)
            if nbytes < GIL_FREE_BYTES:
                memcpy(cnp.PyArray_DATA(copy), cnp.PyArray_DATA(block), nbytes)
            else:
                copy_without_gil(cnp.PyArray_DATA(copy), cnp.PyArray_DATA(block), nbytes)
        bell.take_all()
        return results, copy

    cdef bint has_letters(self) noexcept:
        cdef Py_ssize_t i
        cdef cnp.npy_intp j
        for i in range(self._num_parts):
            for j in range(self._parts[i].count):
                if self._parts[i].letters[j]:
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

    def has_letter(self, Py_ssize_t env):
        """Whether the answer of one environment comes with a letter.

        Raises:
            IndexError: The environment is outside ``[0, n)``.
        """
        cdef Py_ssize_t part = 0
        if not 0 <= env < self._n:
            raise IndexError(f"environment {env} is outside [0, {self._n})")
        while env >= self._parts[part].count:
            env -= self._parts[part].count
            part += 1
        return self._parts[part].letters[env] != 0

    def letters(self):
        """The environments whose answer comes with a letter, in order."""
        cdef Py_ssize_t i
        cdef cnp.npy_intp j
        cdef Py_ssize_t first = 0
        cdef list envs = []
        for i in range(self._num_parts):
            for j in range(self._parts[i].count):
                if self._parts[i].letters[j]:
                    envs.append(first + j)
            first += self._parts[i].count
        return envs
