"""The one check of an array argument; inline, so each module that uses it has its own copy.

A subclass of ndarray may say anything of its own shape and memory, so all of this wants exact
arrays. The callers keep their module's ``import_array``.
"""

cimport numpy as cnp

cdef enum:
    # What a kernel does with an array. Both ask for C-contiguous and aligned elements.
    READ = cnp.NPY_ARRAY_CARRAY_RO
    WRITE = cnp.NPY_ARRAY_CARRAY


# Whether `value` is exactly an ndarray with such memory, of any dtype and byte order.
cdef inline bint is_contiguous(object value, int access) noexcept:
    return cnp.PyArray_CheckExact(value) and cnp.PyArray_CHKFLAGS(<cnp.ndarray>value, access)


# The same for one dtype in the machine's byte order, and one number of dimensions.
cdef inline bint is_array(object value, int type_num, int ndim, int access) noexcept:
    return (
        is_contiguous(value, access)
        and cnp.PyArray_TYPE(<cnp.ndarray>value) == type_num
        and cnp.PyArray_NDIM(<cnp.ndarray>value) == ndim
        and cnp.PyArray_ISNOTSWAPPED(<cnp.ndarray>value)
    )


# A view of such an array, of `length` rows (-1: any number), for a kernel that keeps its pointer:
# only the kernel can change the shape of its own view. Anything else is a ValueError.
cdef inline cnp.ndarray checked_array(
    object value, int type_num, int ndim, Py_ssize_t length, int access, str name
):
    if not is_array(value, type_num, ndim, access) or (
        length >= 0 and cnp.PyArray_DIM(<cnp.ndarray>value, 0) != length
    ):
        writable = "writable, " if access == WRITE else ""
        rows = "" if length < 0 else f" and length {length}"
        raise ValueError(
            f"expected {name} as a {writable}C-contiguous array of "
            f"{cnp.PyArray_DescrFromType(type_num)} with {ndim} dimension(s){rows}, got {value!r}"
        )
    return value.view()
