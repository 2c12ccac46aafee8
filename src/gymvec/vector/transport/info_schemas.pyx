"""Infos as packed values in slots of shared memory, described by schemas.

A *schema* is the ordered shape of an info: its keys, and for each the exact type, or dtype and
shape, of the value; nested dicts have schemas of their own. An environment whose info has a
schema that the parent knows writes the schema's number and the values into its slot.
"""

cimport cython
cimport numpy as cnp
from cpython.bool cimport PyBool_Check
from cpython.dict cimport PyDict_CheckExact, PyDict_Next
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport Py_TYPE, PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t
from libc.string cimport memcpy

from gymvec.kernels.capi cimport PyLong_AsLongLongAndOverflow
from gymvec.kernels.rows cimport Row, describe_row, row_of

import numpy as np

cnp.import_array()

cdef enum:
    HEADER_BYTES = 16  # the schema's number, and alignment for the largest element
    MAX_DEPTH = 8

cdef enum Kind:
    INT
    FLOAT
    BOOL
    SCALAR
    ARRAY
    NESTED


cdef class Column:
    """One key of a schema: where its value lies, and what it must be like."""

    cdef readonly str key
    cdef readonly object dtype
    cdef readonly tuple shape
    cdef readonly Py_ssize_t offset
    cdef readonly Schema nested
    cdef Kind kind
    cdef Row row
    cdef cnp.npy_intp[cnp.NPY_MAXDIMS] dims


@cython.final
cdef class Schema:
    """The shape of an info, with the place of each value in a slot.

    Attributes:
        columns: Tuple of columns in the order of the keys.
        signature: A value that is equal for equal schemas, and pickles.
    """

    cdef bint write(self, object info, char* slot) noexcept:
        """Write the values of an info; False if it is of another shape."""
        cdef Py_ssize_t position = 0
        cdef Py_ssize_t i = 0
        cdef PyObject* key
        cdef PyObject* value
        if not PyDict_CheckExact(info) or len(<dict>info) != len(self.columns):
            return False
        while PyDict_Next(info, &position, &key, &value):
            column = <Column>self.columns[i]
            if key is not <PyObject*>column.key:
                if type(<object>key) is not str or <str>(<object>key) != column.key:
                    return False
            if not write_value(<object>value, column, slot):
                return False
            i += 1
        return True


cdef bint write_value(object value, Column column, char* slot) noexcept:
    cdef int overflow = 0
    cdef int64_t integer
    cdef double real
    cdef const char* source
    cdef char* target = slot + column.offset
    if column.kind == FLOAT:
        if not PyFloat_CheckExact(value):
            return False
        real = PyFloat_AS_DOUBLE(value)
        memcpy(target, &real, sizeof(real))
        return True
    if column.kind == BOOL:
        if not PyBool_Check(value):
            return False
        target[0] = value is True
        return True
    if column.kind == INT:
        if not PyLong_CheckExact(value):
            return False
        integer = PyLong_AsLongLongAndOverflow(value, &overflow)
        memcpy(target, &integer, sizeof(integer))
        return not overflow
    if column.kind == NESTED:
        return column.nested.write(value, slot)
    if column.kind == SCALAR:
        if Py_TYPE(value) != column.row.scalar:
            return False
    elif not cnp.PyArray_CheckExact(value):
        return False
    source = row_of(value, &column.row, NULL, True)
    if source is NULL:
        return False
    memcpy(target, source, column.row.nbytes)
    return True


def schema_of(info, size):
    """The schema of an info.

    Args:
        info: An info.
        size: Bytes of a slot.

    Returns:
        The schema, or None where an info goes by message: it is no dict, has keys that are no
        strings, begin with an underscore or mean something of their own, has values other
        than numbers, bools, arrays of numbers and dicts of these, or does not fit.
    """
    cdef list places = [HEADER_BYTES, size]
    return build(info, places, 0)


cdef Schema build(object info, list places, int depth):
    cdef Schema schema
    cdef Column column
    cdef list columns = []
    if type(info) is not dict or depth > MAX_DEPTH:
        return None
    for key, value in info.items():
        if type(key) is not str or key.startswith("_") or key == "final_obs":
            return None
        column = describe(key, value, places, depth)
        if column is None or places[0] > places[1]:
            return None
        columns.append(column)
    schema = Schema.__new__(Schema)
    schema.columns = tuple(columns)
    schema.signature = tuple([
        (
            column.key, <int>column.kind,
            column.nested.signature if column.nested is not None
            else (column.dtype.str, column.dtype.char, column.shape),
        )
        for column in columns
    ])
    return schema


cdef Column describe(str key, object value, list places, int depth):
    cdef Column column = Column.__new__(Column)
    cdef type kind = type(value)
    cdef int i
    column.key = key
    column.shape = ()
    if kind is dict:
        column.kind = NESTED
        column.nested = build(value, places, depth + 1)
        return None if column.nested is None else column
    if kind is bool:
        column.kind = BOOL
    elif kind is int:
        column.kind = INT
    elif kind is float:
        column.kind = FLOAT
    elif kind is np.ndarray:
        column.kind = ARRAY
        column.shape = value.shape
    elif issubclass(kind, np.number) and np.dtype(kind).type is kind:
        column.kind = SCALAR
    else:
        return None
    column.dtype = value.dtype if column.kind in (SCALAR, ARRAY) else np.dtype(kind)
    if column.kind == INT and column.dtype.itemsize != sizeof(int64_t):
        return None
    if not column.dtype.isnative or column.dtype.metadata is not None:
        return None
    for i in range(len(column.shape)):
        column.dims[i] = column.shape[i]
    if not describe_row(&column.row, column.dtype, len(column.shape), column.dims):
        return None
    alignment = column.dtype.alignment
    column.offset = (places[0] + alignment - 1) // alignment * alignment
    places[0] = column.offset + <Py_ssize_t>column.row.nbytes
    return column


@cython.final
cdef class SlotWriter:
    """Writes the infos of one worker's environments into their slots.

    Args:
        slots: Writable uint8 array of shape ``(n, size)``, rows of which begin at multiples
            of 16 bytes.
    """

    def __cinit__(self, slots):
        if (
            type(slots) is not np.ndarray or slots.ndim != 2 or slots.dtype != np.uint8
            or not slots.flags.carray or slots.shape[1] % HEADER_BYTES or slots.shape[1] == 0
        ):
            raise ValueError("expected slots as a writable uint8 array of shape (n, 16 * k)")
        self._slots = slots.view()
        self._n, self._size = slots.shape
        self._data = <char*>cnp.PyArray_DATA(<cnp.ndarray>self._slots)
        self._schemas = [None]
        self._latest = [0] * self._n
        self._numbers = {}

    def clear(self, env):
        """Say that an environment has no info in its slot."""
        self.put_number(env, 0)

    cdef int put_number(self, Py_ssize_t env, uint32_t number) except -1:
        if not 0 <= env < self._n:
            raise IndexError(f"environment {env} is outside [0, {self._n})")
        memcpy(self._data + env * self._size, &number, sizeof(number))
        return 0

    def put(self, env, info):
        """Write an info into its slot.

        Returns:
            True if it is there. Otherwise the info goes by message; what is returned goes with
            it: the number and signature of a schema that is used from now on, or None.
        """
        return self.put_info(env, info)

    cdef object put_info(self, Py_ssize_t env, object info):
        cdef uint32_t number
        cdef char* slot
        cdef Schema schema
        self.put_number(env, 0)
        slot = self._data + env * self._size
        number = self._latest[env]
        if number == 0 or not (<Schema>self._schemas[number]).write(info, slot):
            schema = schema_of(info, self._size)
            if schema is None:
                return None
            found = self._numbers.get(schema.signature)
            if found is None:
                return self.learn(schema)
            number = found
            if not (<Schema>self._schemas[number]).write(info, slot):
                return None
            self._latest[env] = number
        self.put_number(env, number)
        return True

    cdef object learn(self, Schema schema):
        if len(self._schemas) > MAX_SCHEMAS:
            return None
        number = len(self._schemas)
        self._schemas.append(schema)
        self._numbers[schema.signature] = number
        return number, schema.signature


cdef bint is_array(cnp.ndarray array, int type_num, int ndim) noexcept:
    return (
        cnp.PyArray_TYPE(array) == type_num
        and cnp.PyArray_NDIM(array) == ndim
        and cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_CARRAY_RO)
        and cnp.PyArray_ISNOTSWAPPED(array)
    )


def same_schema(
    cnp.ndarray slots not None,
    cnp.ndarray table not None,
    cnp.ndarray workers not None,
    cnp.ndarray out not None,
):
    """Translate the numbers in all slots to those of the parent.

    Args:
        slots: uint8 array of shape ``(n, size)``.
        table: int32 array of shape ``(num_workers, MAX_SCHEMAS + 1)``: the parent's number of
            each worker's schema, 0 for none and -1 for one that is not known yet.
        workers: int32 array of shape ``(n,)``: the worker of each environment.
        out: int32 array of shape ``(n,)`` for the result.

    Returns:
        The number if it is the same everywhere, else -1.

    Raises:
        RuntimeError: A slot holds a number that its worker has not told of.
    """
    if not (
        is_array(slots, cnp.NPY_UINT8, 2) and is_array(table, cnp.NPY_INT32, 2)
        and is_array(workers, cnp.NPY_INT32, 1) and is_array(out, cnp.NPY_INT32, 1)
        and cnp.PyArray_CHKFLAGS(out, cnp.NPY_ARRAY_WRITEABLE)
    ):
        raise ValueError("expected contiguous arrays of uint8 and int32")
    cdef Py_ssize_t i, n = cnp.PyArray_DIM(slots, 0)
    cdef Py_ssize_t size = cnp.PyArray_DIM(slots, 1)
    cdef Py_ssize_t num_workers = cnp.PyArray_DIM(table, 0)
    cdef const char* data = <const char*>cnp.PyArray_DATA(slots)
    cdef const int32_t* known = <const int32_t*>cnp.PyArray_DATA(table)
    cdef const int32_t* worker = <const int32_t*>cnp.PyArray_DATA(workers)
    cdef int32_t* numbers = <int32_t*>cnp.PyArray_DATA(out)
    cdef uint32_t number
    cdef bint same = True
    if (
        size < HEADER_BYTES or cnp.PyArray_DIM(table, 1) != MAX_SCHEMAS + 1
        or cnp.PyArray_DIM(workers, 0) != n or cnp.PyArray_DIM(out, 0) != n
    ):
        raise ValueError(
            "expected slots of uint8, and table, workers and out as contiguous int32 arrays that "
            "go together"
        )
    for i in range(n):
        memcpy(&number, data + i * size, sizeof(number))
        if number > MAX_SCHEMAS or not 0 <= worker[i] < num_workers:
            raise RuntimeError(f"the info slot of environment {i} is corrupt")
        numbers[i] = known[worker[i] * (MAX_SCHEMAS + 1) + <int32_t>number]
        if numbers[i] < 0:
            raise RuntimeError(f"the info slot of environment {i} is corrupt")
        same = same and numbers[i] == numbers[0]
    return numbers[0] if n > 0 and same else -1
