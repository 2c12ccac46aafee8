"""Text as rows of codes: the index of each character, filled up with one code past the last."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Text


@functools.cache
def _publishes_order() -> bool:
    """Whether `character_list` is in one order; before 1.4 it follows the hash seed."""
    # Not at import: a plugin of Gymnasium may import this before the version is known.
    return tuple(int(part) for part in gymnasium.__version__.split(".")[:2]) >= (1, 4)


def alphabet(space: Text) -> tuple[str, ...]:
    """The characters of a space in the order of their codes, the same in every process."""
    if _publishes_order():
        return tuple(space.character_list)
    return tuple(sorted(space.character_set))


def encode(space: Text, value: Any) -> np.ndarray:
    """The row of a text: ``max_length`` codes, int32.

    Raises:
        TypeError: ``value`` is not a string.
        ValueError: The text is too long, or has a character that the space lacks.
    """
    if not isinstance(value, str):
        raise TypeError(f"expected a string of {space}, got {type(value)}: {value!r}")
    if len(value) > space.max_length:
        raise ValueError(
            f"expected at most {space.max_length} characters for {space}, got {len(value)}: "
            f"{value!r}"
        )
    characters = alphabet(space)
    codes = {character: code for code, character in enumerate(characters)}
    row = np.full(space.max_length, len(characters), dtype=np.int32)
    try:
        row[: len(value)] = [codes[character] for character in value]
    except KeyError as error:
        raise ValueError(f"{value!r} has {error}, which is not a character of {space}") from None
    return row


def decode(space: Text, rows: np.ndarray) -> tuple[str, ...]:
    """The texts of rows of codes, an array of shape ``(n, max_length)``."""
    characters = alphabet(space)
    if "\0" in characters or space.max_length == 0:
        # NumPy's strings cannot end with this character.
        return tuple(
            "".join([characters[code] for code in row if code < len(characters)]) for row in rows
        )
    table = np.array([*characters, "\0"], dtype="U1")
    texts = table[np.minimum(rows, len(characters))].view(f"U{space.max_length}")
    return tuple(text.replace("\0", "") for text in texts[:, 0].tolist())
