"""Tests that Gymnasium 1.4 or a newer NumPy is needed for, each with what the older one lacks.

gymvec's reference is Gymnasium 1.4. It gives the same results on the older ones that it supports,
and these tests compare it with functions that are themselves wrong or other there.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import gymnasium
import numpy as np

_HALF = "Gymnasium below 1.4 has no shared memory of float16 and longdouble"
_TEXT = "Gymnasium below 1.4 has Text codes that differ from process to process"
_ERRORS = "Gymnasium below 1.4 raises other errors for spaces that do not go together"
_LENGTHS = "Gymnasium below 1.3 takes no notice of unequal lengths"
_CHECKS = "Gymnasium below 1.4 does not check, or checks by assertions"
_DTYPE = "Gymnasium below 1.3 has a Discrete without a dtype"
_CASTS = "NumPy below 1.24 does not warn of casts that overflow"


class Rule(NamedTuple):
    """Tests that fail below a version of a package, as a regular expression of their ids."""

    package: str
    below: tuple[int, int]
    tests: str
    reason: str


RULES = [
    Rule("gymnasium", (1, 3) if reason in (_LENGTHS, _DTYPE) else (1, 4), pattern, reason)
    for pattern, reason in [
        (r"utils/test_shared_memory\.py::test_create\[box (>f2|float16|longdouble)-", _HALF),
        (
            r"utils/test_shared_memory\.py::"
            r"test_(reading_memory_that_nobody_wrote|write_and_read|write_over_what_was_there)"
            r"\[box (>f2|float16|longdouble)\]",
            _HALF,
        ),
        (
            r"utils/test_shared_memory\.py::test_every_dtype_at_its_limits"
            r"\[(>f2|float16|longdouble)-",
            _HALF,
        ),
        (r"utils/test_shared_memory_values\.py::test_errstate\[float16\]", _HALF),
        (r"utils/test_shared_memory_values\.py::test_kinds_of_values\[(f2|g)-", _HALF),
        (r"utils/test_shared_memory_values\.py::test_numbers\[(float16|longdouble)-\]", _HALF),
        (r"utils/test_shared_memory_values\.py::test_odd_values\[(f2|g)-", _HALF),
        (r"utils/test_shared_memory_processes\.py::test_every_space\[", _HALF),
        (r"utils/test_shared_memory\.py::TestText::test_codes", _TEXT),
        (
            r"utils/test_shared_memory\.py::"
            r"test_(reading_memory_that_nobody_wrote|write_and_read|write_over_what_was_there)"
            r"\[.*(text|one of)",
            _TEXT,
        ),
        (r"utils/test_shared_memory_processes\.py::test_text_codes", _TEXT),
        (r"utils/test_shared_memory_values\.py::test_any_integer_is_an_index", _TEXT),
        (r"property/test_random_spaces\.py::test_shared_memory_round_trip", _TEXT),
        (r"utils/test_batching\.py::test_batch_differing_spaces", _ERRORS),
        (r"utils/test_batching\.py::test_not_a_list_of_spaces", _ERRORS),
        (r"property/test_random_spaces\.py::test_batch_differing_spaces", _ERRORS),
        (
            r"vector/async/test_async_requests\.py::test_spaces_whose_batches_have_no_actions",
            _LENGTHS,
        ),
        (r"utils/test_iterate\.py::test_a_dict_that_failed_has_ended", _LENGTHS),
        (r"utils/test_iterate\.py::test_unequal_lengths", _LENGTHS),
        (r"utils/test_shared_memory_values\.py::test_odd_values_of_a_tuple", _LENGTHS),
        (r"property/test_random_spaces\.py::test_shared_memory_of_arrays", _LENGTHS),
        (r"property/test_random_spaces\.py::test_iterate", _LENGTHS),
        (r"vector/sync/test_sync_contract\.py::test_observation_modes", _CHECKS),
        (r"vector/sync/test_sync_contract\.py::test_wrong_(seeds|masks)_reset_nothing", _CHECKS),
        (r"vector/sync/test_sync_contract\.py::test_a_wrong_number_of_actions", _CHECKS),
        (
            r"vector/test_signatures\.py::test_methods\[AsyncVectorEnv-",
            "Gymnasium below 1.4 has other arguments of AsyncVectorEnv",
        ),
        (
            r"utils/test_concatenate\.py::test_iterables_of_items"
            r"\[.*-(generator|iterator|values|none|number)\]",
            "Gymnasium below 1.4 takes only sequences of items",
        ),
        (
            r"utils/test_create_empty_array\.py::test_one_empty_sample\[discrete uint8\]",
            _DTYPE,
        ),
    ]
] + [
    Rule("numpy", (1, 24), r"utils/test_concatenate\.py::test_overflow_and_underflow", _CASTS),
    Rule("numpy", (1, 24), r"utils/test_concatenate\.py::test_a_warning_that_is_an_error", _CASTS),
    Rule(
        "numpy",
        (1, 24),
        r"utils/test_registration\.py::test_registered_after_the_first_call",
        "NumPy below 1.25 warns where an array is compared with a text",
    ),
    Rule(
        "numpy",
        (1, 24),
        r"hostile/test_callbacks\.py::test_an_argument_that_closes_the_async_vector_environment"
        r"\[\w+-send to\]",
        "NumPy below 1.24 makes arrays of objects of ragged lists",
    ),
    Rule(
        "numpy",
        (1, 24),
        r"kernels/test_leaks\.py::test_leaks\[batch_space\]",
        "generators of early NumPys keep some memory for a while",
    ),
    Rule(
        "numpy",
        (2, 0),
        r"utils/test_surface\.py::test_modules_and_their_examples\[gymvec\.utils\.space_utils\]",
        "NumPy below 2 prints scalars without their type",
    ),
]


def _version(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(re.match(r"\d+", minor).group())


VERSIONS = {
    "gymnasium": _version(gymnasium.__version__),
    "numpy": _version(np.__version__),
}


def reason_to_skip(test: str) -> str | None:
    """Why a test, by its id, says nothing with the packages that are installed; None to run it."""
    for rule in RULES:
        if VERSIONS[rule.package] < rule.below and re.search(f"(^|/){rule.tests}", test):
            return rule.reason
    return None
