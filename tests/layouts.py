"""The same values as other arrays: of another layout, byte order or class."""

import numpy as np

__all__ = ["LAYOUTS", "Subclass", "laid_out"]


class Subclass(np.ndarray):
    """An array of a class of the user's."""


def _misaligned(values):
    if values.dtype.hasobject:
        return values
    odd = np.zeros(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
    odd[...] = values
    return odd


def _read_only(values):
    values = values.copy()
    values.flags.writeable = False
    return values


def _matrix(values):
    # Its constructor warns; a view does not. It has two dimensions or changes its shape.
    return values.view(np.matrix) if values.ndim == 2 else values


def _masked(values, every=2):
    mask = np.arange(1, values.size + 1).reshape(values.shape) % every == 0
    # NumPy's own fill value is too large for small types, of which it warns here and there.
    return np.ma.masked_array(values, mask, fill_value=np.zeros((), values.dtype)[()])


LAYOUTS = {
    "C": np.copy,
    "F": lambda values: np.array(values, order="F"),
    "strided": lambda values: np.repeat(values, 2, -1)[..., ::2] if values.ndim else values,
    "reversed": lambda values: values[::-1] if values.ndim else values,
    "transposed": lambda values: np.array(values.T, order="C").T,
    "misaligned": _misaligned,
    "read only": _read_only,
    "big-endian": lambda values: values.astype(values.dtype.newbyteorder(">")),
    "strided and big-endian": lambda values: laid_out(laid_out(values, "big-endian"), "strided"),
    "masked": _masked,
    "masked and strided": lambda values: laid_out(laid_out(values, "masked"), "reversed"),
    "all masked": lambda values: _masked(values, every=1),
    "subclass": lambda values: values.view(Subclass),
    "strided subclass": lambda values: laid_out(values, "strided").view(Subclass),
    "record array": lambda values: values.view(np.recarray),
    "matrix": _matrix,
}


def laid_out(values, how):
    """An array with these values, which may share their memory.

    Args:
        values: An array.
        how: A key of :data:`LAYOUTS`.
    """
    return LAYOUTS[how](values)
