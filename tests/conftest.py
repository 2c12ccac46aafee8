"""Settings of all tests: signals, the GIL, hypothesis profiles."""

import os
import signal
import sysconfig

import pytest
from hypothesis import HealthCheck, settings
from older import reason_to_skip

# Started in the background by a shell, this process would ignore Ctrl-C, which tests send.
signal.signal(signal.SIGINT, signal.default_int_handler)

if sysconfig.get_config_var("Py_GIL_DISABLED"):
    # No module says that it is safe on a free-threaded Python, which warns that it turns the GIL
    # on; so do the programs that tests start, unless it is on from their beginning. The filter
    # in pyproject.toml is for this process.
    os.environ.setdefault("PYTHON_GIL", "1")

# The checks that look at time say nothing on a machine that others share.
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

# Each run draws the same examples, so that a test that passes passes again.
settings.register_profile(
    "default", max_examples=200, derandomize=True, deadline=None, suppress_health_check=_SLOW
)
# For builds that take many times longer.
settings.register_profile("few", parent=settings.get_profile("default"), max_examples=15)
# For `make test-random`, which gives the seed. A database would add examples of earlier runs.
settings.register_profile(
    "random",
    parent=settings.get_profile("default"),
    max_examples=int(os.environ.get("EXAMPLES", "2000")),
    derandomize=False,
    database=None,
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_collection_modifyitems(items):
    for item in items:
        reason = reason_to_skip(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
