"""A pytest plugin: install gymvec before any test is imported, and write down the outcomes.

The environment variables are those that ``run.py`` sets.
"""

import json
import os
import sys
from pathlib import Path

import gymnasium

_MODE = os.environ["GYMVEC_CONFORMANCE_MODE"]
_RESULT = Path(os.environ["GYMVEC_CONFORMANCE_RESULT"])
_CHECKOUT = Path(os.environ["GYMVEC_CONFORMANCE_CHECKOUT"])

if Path(gymnasium.__file__).is_relative_to(_CHECKOUT):
    raise RuntimeError("the tests would run on the checkout's Gymnasium, not the installed one")

if _MODE != "without":
    import gymvec

    gymvec.install(vector_envs=_MODE == "vector_envs")

_outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report):
    # The worst phase counts: a test whose teardown fails has failed.
    worse = {"passed": 0, "skipped": 1, "failed": 2}
    if worse[report.outcome] >= worse[_outcomes.get(report.nodeid, "passed")]:
        _outcomes[report.nodeid] = report.outcome


def pytest_collectreport(report):
    if report.failed:
        _outcomes[report.nodeid] = "failed"


def pytest_sessionfinish(session):
    if _MODE != "without":
        import gymvec

        if not gymvec.installed():
            raise RuntimeError("a test has uninstalled gymvec")
    result = {"gymnasium": gymnasium.__version__, "python": sys.version, "outcomes": _outcomes}
    _RESULT.write_text(json.dumps(result))
