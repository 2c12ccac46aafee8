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
from libc.string cimport memcpy, memset

from gymvec.kernels.arrays cimport READ, WRITE, checked_array, is_array
from gymvec.kernels.capi cimport PyLong_AsLongLongAndOverflow, empty_array
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


cdef class Field:
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
        fields: Tuple of fields in the order of the keys.
        signature: A value that is equal for equal schemas, and pickles.
    """

    cdef bint write(self, object info, char* slot) noexcept:
        """Write the values of an info; False if it is of another shape."""
        cdef Py_ssize_t position = 0
        cdef Py_ssize_t i = 0
        cdef PyObject* key
        cdef PyObject* value
        if not PyDict_CheckExact(info) or len(<dict>info) != len(self.fields):
            return False
        while PyDict_Next(info, &position, &key, &value):
            field = <Field>self.fields[i]
            if key is not <PyObject*>field.key:
                if type(<object>key) is not str or <str>(<object>key) != field.key:
                    return False
            if not write_value(<object>value, field, slot):
                return False
            i += 1
        return True


cdef bint write_value(object value, Field field, char* slot) noexcept:
    cdef int overflow = 0
    cdef int64_t integer
    cdef double real
    cdef const char* source
    cdef char* target = slot + field.offset
    if field.kind == FLOAT:
        if not PyFloat_CheckExact(value):
            return False
        real = PyFloat_AS_DOUBLE(value)
        memcpy(target, &real, sizeof(real))
        return True
    if field.kind == BOOL:
        if not PyBool_Check(value):
            return False
        target[0] = <char>(value is True)
        return True
    if field.kind == INT:
        if not PyLong_CheckExact(value):
            return False
        integer = PyLong_AsLongLongAndOverflow(value, &overflow)
        if overflow:
            return False
        memcpy(target, &integer, sizeof(integer))
        return True
    if field.kind == NESTED:
        return field.nested.write(value, slot)
    if field.kind == SCALAR:
        if Py_TYPE(value) != field.row.scalar:
            return False
    elif not cnp.PyArray_CheckExact(value):
        return False
    source = row_of(value, &field.row, NULL, True)
    if source is NULL:
        return False
    memcpy(target, source, field.row.nbytes)
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
    cdef Field field
    cdef list fields = []
    if type(info) is not dict or depth > MAX_DEPTH:
        return None
    for key, value in info.items():
        if type(key) is not str or key.startswith("_") or key == "final_obs":
            return None
        field = describe(key, value, places, depth)
        if field is None or places[0] > places[1]:
            return None
        fields.append(field)
    schema = Schema.__new__(Schema)
    schema.fields = tuple(fields)
    schema.signature = tuple([
        (
            field.key, <int>field.kind,
            field.nested.signature if field.nested is not None
            else (field.dtype.str, field.dtype.char, field.shape),
        )
        for field in fields
    ])
    return schema


cdef Field describe(str key, object value, list places, int depth):
    cdef Field field = Field.__new__(Field)
    cdef type kind = type(value)
    cdef int i
    field.key = key
    field.shape = ()
    if kind is dict:
        field.kind = NESTED
        field.nested = build(value, places, depth + 1)
        return None if field.nested is None else field
    if kind is bool:
        field.kind = BOOL
    elif kind is int:
        field.kind = INT
    elif kind is float:
        field.kind = FLOAT
    elif kind is np.ndarray:
        field.kind = ARRAY
        field.shape = value.shape
    elif issubclass(kind, np.number) and np.dtype(kind).type is kind:
        field.kind = SCALAR
    else:
        return None
    field.dtype = value.dtype if field.kind in (SCALAR, ARRAY) else np.dtype(kind)
    if field.kind == INT and field.dtype.itemsize != sizeof(int64_t):
        return None
    if not field.dtype.isnative or field.dtype.metadata is not None:
        return None
    for i in range(len(field.shape)):
        field.dims[i] = field.shape[i]
    if not describe_row(&field.row, field.dtype, <int>len(field.shape), field.dims):
        return None
    alignment = field.dtype.alignment
    field.offset = (places[0] + alignment - 1) // alignment * alignment
    places[0] = field.offset + <Py_ssize_t>field.row.nbytes
    return field


@cython.final
cdef class SlotWriter:
    """Writes the infos of one worker's environments into their slots.

    Args:
        slots: Writable uint8 array of shape ``(n, size)``, rows of which begin at multiples
            of 16 bytes.

    Attributes:
        new_schema: The number and the signature of the schema that was numbered last, or None.
    """

    def __cinit__(self, slots):
        self._slots = checked_array(slots, cnp.NPY_UINT8, 2, -1, WRITE, "slots")
        self._n = cnp.PyArray_DIM(self._slots, 0)
        self._size = cnp.PyArray_DIM(self._slots, 1)
        if self._size == 0 or self._size % HEADER_BYTES:
            raise ValueError(
                f"expected slots of a multiple of {HEADER_BYTES} bytes, got {self._size}")
        self._data = <char*>cnp.PyArray_DATA(self._slots)
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

        A slot that does not get its info has the number 0, whatever its other bytes are.

        Returns:
            ``IN_SLOT``; ``WITH_MESSAGE`` where the info goes by message; or ``WITH_SCHEMA``
            where ``new_schema`` goes with that message.
        """
        return self.put_info(env, info)

    cdef InfoPut put_info(self, Py_ssize_t env, object info) except? WITH_MESSAGE:
        cdef uint32_t number
        cdef char* slot
        cdef Schema schema
        self.put_number(env, 0)
        slot = self._data + env * self._size
        number = self._latest[env]
        if number == 0 or not (<Schema>self._schemas[number]).write(info, slot):
            schema = schema_of(info, self._size)
            if schema is None:
                return WITH_MESSAGE
            found = self._numbers.get(schema.signature)
            if found is None:
                return WITH_SCHEMA if self.learn(schema) else WITH_MESSAGE
            number = found
            if not (<Schema>self._schemas[number]).write(info, slot):
                return WITH_MESSAGE
            self._latest[env] = number
        self.put_number(env, number)
        return IN_SLOT

    cdef bint learn(self, Schema schema) except -1:
        """Number a schema; False where there are as many as a worker may have."""
        if len(self._schemas) > MAX_SCHEMAS:
            return False
        number = len(self._schemas)
        self._schemas.append(schema)
        self._numbers[schema.signature] = number
        self.new_schema = (number, schema.signature)
        return True


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
        out: int32 array of shape ``(n,)`` for the result; unspecified where an error is raised.
            A number is looked at once, since a worker may change it: it is checked and
            written in one loop.

    Returns:
        The number if it is the same everywhere, else -1.

    Raises:
        RuntimeError: A slot holds a number that its worker has not told of.
    """
    if not (
        is_array(slots, cnp.NPY_UINT8, 2, READ) and is_array(table, cnp.NPY_INT32, 2, READ)
        and is_array(workers, cnp.NPY_INT32, 1, READ) and is_array(out, cnp.NPY_INT32, 1, WRITE)
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


# --- the values of one schema in all slots --------------------------------------------------

cdef class SlotColumn:
    """The values of one field in all slots."""

    cdef str key
    cdef str mask_key
    cdef SlotColumns nested
    cdef cnp.dtype descr
    cdef Py_ssize_t offset
    cdef size_t nbytes
    cdef int ndim
    cdef cnp.npy_intp[cnp.NPY_MAXDIMS] dims


@cython.final
cdef class SlotColumns:
    """Where the values of a schema lie in each slot.

    Args:
        slots: C-contiguous uint8 array of shape ``(n, size)``; it is kept alive.
        columns: For each key of the schema, in order, ``(key, offset, dtype, shape)`` for a value
            in the bytes from ``offset`` of a slot, or ``(key, SlotColumns)`` for a nested info.

    Raises:
        ValueError: ``slots`` is another kind of array, or a value does not lie within a slot.
    """

    cdef cnp.ndarray _slots
    cdef const char* _data
    cdef cnp.npy_intp _n
    cdef Py_ssize_t _size
    cdef list _columns

    def __cinit__(self, slots, columns):
        self._columns = []
        self._slots = checked_array(slots, cnp.NPY_UINT8, 2, -1, READ, "slots")
        self._n = cnp.PyArray_DIM(self._slots, 0)
        self._size = cnp.PyArray_DIM(self._slots, 1)
        self._data = <const char*>cnp.PyArray_DATA(self._slots)
        for key, *place in columns:
            self._columns.append(self.placed(key, place))

    cdef SlotColumn placed(self, str key, list place):
        cdef SlotColumn column = SlotColumn.__new__(SlotColumn)
        cdef int i
        column.key = key
        column.mask_key = f"_{key}"
        if len(place) == 1:
            column.nested = place[0]
            if column.nested is None or column.nested._n != self._n:
                raise ValueError(f"expected columns of {self._n} slots for {key!r}")
            return column
        offset, dtype, shape = place
        column.descr = np.dtype(dtype)
        if column.descr.hasobject or len(shape) >= cnp.NPY_MAXDIMS:
            raise ValueError(f"{key!r} cannot lie in a slot: {dtype}, {shape}")
        nbytes = column.descr.itemsize
        column.dims[0] = self._n
        for i in range(len(shape)):
            column.dims[i + 1] = shape[i]
            nbytes *= shape[i]
        column.ndim = <int>len(shape) + 1
        if offset < 0 or nbytes < 0 or offset + nbytes > self._size:
            raise ValueError(f"{key!r} does not lie within a slot of {self._size} bytes")
        column.offset = offset
        column.nbytes = nbytes
        return column

    def infos(self):
        """The infos where every environment's has this schema.

        Returns:
            A new dict with, for each key, a new array of shape ``(n, *shape)`` or a dict, and
            a bool array of shape ``(n,)`` that is True, as Gymnasium's ``_add_info`` makes them.
        """
        cdef SlotColumn column
        cdef dict infos = {}
        for column in self._columns:
            if column.nested is not None:
                infos[column.key] = column.nested.infos()
            else:
                infos[column.key] = self.copied(column)
            mask = cnp.PyArray_EMPTY(1, &self._n, cnp.NPY_BOOL, 0)
            memset(cnp.PyArray_DATA(<cnp.ndarray>mask), 1, <size_t>self._n)
            infos[column.mask_key] = mask
        return infos

    cdef object copied(self, SlotColumn column):
        cdef cnp.npy_intp i
        cdef const char* source = self._data + column.offset
        cdef char* target
        array = empty_array(column.ndim, column.dims, column.descr)
        target = <char*>cnp.PyArray_DATA(<cnp.ndarray>array)
        if column.nbytes == sizeof(double):
            for i in range(self._n):
                memcpy(target + i * <Py_ssize_t>sizeof(double), source + i * self._size,
                       sizeof(double))
        else:
            for i in range(self._n):
                memcpy(target + i * <Py_ssize_t>column.nbytes, source + i * self._size,
                       column.nbytes)
        return array
