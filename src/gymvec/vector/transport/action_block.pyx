"""Actions in the segment: the parent puts them, and the workers make objects of them again."""

cimport cython
cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact, PyList_GET_ITEM
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from gymvec.kernels.arrays cimport READ, WRITE, checked_array, is_array, is_contiguous
from gymvec.kernels.capi cimport (
    NPY_HALF, PyArray_Scalar, PyLong_AsLongLongAndOverflow, empty_array,
)

cnp.import_array()

cdef enum:
    ELEMENT_BYTES = 8
    # Codes of what a row holds: a NumPy type number, or one of these.
    PYTHON_INT = 100
    PYTHON_FLOAT = 101
    KINDS = 256


cdef const int64_t* checked_envs(object envs, cnp.npy_intp n) except NULL:
    cdef cnp.npy_intp i
    cdef const int64_t* numbers
    if not is_array(envs, cnp.NPY_INT64, 1, READ):
        raise ValueError(f"expected environments as a contiguous int64 array, got {envs!r}")
    numbers = <const int64_t*>cnp.PyArray_DATA(<cnp.ndarray>envs)
    for i in range(cnp.PyArray_DIM(<cnp.ndarray>envs, 0)):
        if not 0 <= numbers[i] < n:
            raise IndexError(f"environment {numbers[i]} is outside [0, {n})")
    return numbers


cdef cnp.ndarray contiguous(cnp.ndarray array):
    """The array itself, or a copy, with native elements one after another."""
    if is_contiguous(array, READ) and cnp.PyArray_ISNOTSWAPPED(array):
        return array
    return cnp.PyArray_FROM_OTF(array, cnp.PyArray_TYPE(array), READ)


cdef bint are_numbers(tuple actions, cnp.npy_intp count) noexcept:
    """Whether they are ``count`` Python floats, or ints that fit a row."""
    cdef cnp.npy_intp i
    cdef PyObject* action  # The tuple owns it.
    cdef int overflow = 0
    if PyTuple_GET_SIZE(actions) != count:
        return False
    for i in range(count):
        action = PyTuple_GET_ITEM(actions, i)
        if PyLong_CheckExact(<object>action):
            PyLong_AsLongLongAndOverflow(<object>action, &overflow)
            if overflow:
                return False
        elif not PyFloat_CheckExact(<object>action):
            return False
    return True


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
        # One more than an action has lies in a batch.
        if len(shape) >= cnp.NPY_MAXDIMS:
            raise ValueError(f"expected fewer than {cnp.NPY_MAXDIMS} dimensions, got {shape}")
        self._ndim = <int>len(shape)
        for i in range(self._ndim):
            self._dims[i] = shape[i]
            if self._dims[i] < 0:
                raise ValueError(f"expected sizes of dimensions, got {shape}")
            elements *= self._dims[i]
        self._codes = checked_array(codes, cnp.NPY_UINT8, 1, -1, WRITE, "codes")
        self._n = cnp.PyArray_DIM(self._codes, 0)
        self._rows = checked_array(rows, cnp.NPY_UINT8, 2, self._n, WRITE, "rows")
        if cnp.PyArray_DIM(self._rows, 1) != elements * ELEMENT_BYTES:
            raise ValueError(
                f"expected rows of {elements * ELEMENT_BYTES} bytes for actions of shape {shape}, "
                f"got {cnp.PyArray_DIM(self._rows, 1)}"
            )
        self._elements = elements
        self._data = <char*>cnp.PyArray_DATA(self._rows)
        self._code = <cnp.npy_uint8*>cnp.PyArray_DATA(self._codes)
        self._descrs = [None] * KINDS
        for i in list(range(cnp.NPY_LONGDOUBLE)) + [NPY_HALF]:
            self._descrs[i] = cnp.PyArray_DescrFromType(i)

    def put(self, actions, envs=None):
        """Write the actions of all environments, or of some.

        Args:
            actions: An array of shape ``(count, *shape)``, or a list or tuple of ``count``
                Python ints or floats where ``shape`` is ``()``.
            envs: Contiguous int64 array of the ``count`` environments that they are for; None
                for all ``n``.

        Returns:
            Whether they fit. Where not, nothing was touched.

        Raises:
            IndexError: An environment is outside ``[0, n)``.
        """
        cdef cnp.npy_intp count = self._n
        cdef const int64_t* where = NULL
        cdef cnp.ndarray array = None
        cdef tuple numbers = None
        # First: NumPy may let other threads run while it copies, and they may change the arguments.
        if cnp.PyArray_CheckExact(actions):
            if not self.has_kind(cnp.PyArray_TYPE(<cnp.ndarray>actions)):
                return False
            array = contiguous(actions)
        elif self._ndim == 0 and (PyList_CheckExact(actions) or PyTuple_CheckExact(actions)):
            numbers = tuple(actions)
        else:
            return False
        if envs is not None:
            where = checked_envs(envs, self._n)
            count = cnp.PyArray_DIM(<cnp.ndarray>envs, 0)
        if array is None:
            if not are_numbers(numbers, count):
                return False
            self.put_numbers(numbers, count, where)
        else:
            if not self.has_shape(array, count):
                return False
            self.put_array(array, count, where)
        return True

    cdef bint has_kind(self, int type_num) noexcept:
        """Whether actions of this NumPy type fit a row."""
        return type_num < KINDS and <object>PyList_GET_ITEM(self._descrs, type_num) is not None

    cdef bint has_shape(self, cnp.ndarray array, cnp.npy_intp count) noexcept:
        """Whether an array is that of ``count`` actions."""
        cdef int i
        if (
            cnp.PyArray_NDIM(array) != self._ndim + 1
            or cnp.PyArray_DIM(array, 0) != count
        ):
            return False
        for i in range(self._ndim):
            if cnp.PyArray_DIM(array, i + 1) != self._dims[i]:
                return False
        return True

    cdef void put_array(
        self, cnp.ndarray array, cnp.npy_intp count, const int64_t* where
    ) noexcept:
        cdef cnp.npy_intp i, row
        cdef int type_num = cnp.PyArray_TYPE(array)
        cdef cnp.npy_intp size = self._elements * cnp.PyArray_ITEMSIZE(array)
        cdef const char* source = <const char*>cnp.PyArray_DATA(array)
        if where is NULL and size == self._elements * ELEMENT_BYTES:
            memset(self._code, type_num, <size_t>count)
            memcpy(self._data, source, <size_t>(count * size))
            return
        for i in range(count):
            row = i if where is NULL else where[i]
            self._code[row] = <cnp.npy_uint8>type_num
            memcpy(
                self._data + row * self._elements * ELEMENT_BYTES, source + i * size, <size_t>size)

    cdef void put_numbers(
        self, tuple actions, cnp.npy_intp count, const int64_t* where
    ) noexcept:
        cdef cnp.npy_intp i, row
        cdef PyObject* action  # The tuple owns it.
        cdef long long integer
        cdef double real
        cdef int overflow = 0
        for i in range(count):
            row = i if where is NULL else where[i]
            action = PyTuple_GET_ITEM(actions, i)
            if PyLong_CheckExact(<object>action):
                integer = PyLong_AsLongLongAndOverflow(<object>action, &overflow)
                memcpy(self._data + row * ELEMENT_BYTES, &integer, sizeof(integer))
                self._code[row] = PYTHON_INT
            else:
                real = PyFloat_AS_DOUBLE(<object>action)
                memcpy(self._data + row * ELEMENT_BYTES, &real, sizeof(real))
                self._code[row] = PYTHON_FLOAT

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
        cdef cnp.ndarray action
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
        action = empty_array(self._ndim, self._dims, descr)
        memcpy(cnp.PyArray_DATA(action), row,
               <size_t>(self._elements * cnp.PyArray_ITEMSIZE(action)))
        return action
