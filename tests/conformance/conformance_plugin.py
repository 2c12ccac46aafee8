"""A pytest plugin: install gymvec before any test is imported, and write down the outcomes.

The environment variables are those that ``run.py`` sets.
"""

import json
import os
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

_results = _RESULT.open("a+", encoding="utf-8")
_results.seek(0)
_done = {entry["test"] for entry in map(json.loads, _results)}


def _write(**entry):
    # Line by line, so that a crash of the interpreter leaves what is known until then.
    _results.write(json.dumps(entry) + "\n")
    _results.flush()


def pytest_collection_modifyitems(items):
    items[:] = [item for item in items if item.nodeid not in _done]


def pytest_runtest_logstart(nodeid):
    _write(test=nodeid, outcome="crashed")


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        _write(test=report.nodeid, outcome=report.outcome)


def pytest_collectreport(report):
    if report.failed:
        _write(test=report.nodeid, outcome="failed")


def pytest_sessionfinish(session):
    if _MODE != "without" and not gymvec.installed():
        raise RuntimeError("a test has uninstalled gymvec")
    _write(test="", outcome="finished")
