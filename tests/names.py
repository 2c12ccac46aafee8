"""Names of parameters that are the same in every run, so that tests can be named and divided."""

import re


def name_of(value):
    """``repr`` without addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
