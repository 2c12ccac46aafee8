"""Actions in the segment: the parent puts them, and the workers make objects of them again."""

cimport cython
cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.tuple cimport PyTuple_CheckExact
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset

from gymvec.kernels.capi cimport (
    NPY_HALF, PyArray_Scalar, PyLong_AsLongLongAndOverflow, empty_array,
)

import numpy as np

cnp.import_array()

cdef enum:
    ELEMENT_BYTES = 8
    # Codes of what a row holds: a NumPy type number, or one of these.
    PYTHON_INT = 100
    PYTHON_FLOAT = 101


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
        cdef int i, type_num
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
