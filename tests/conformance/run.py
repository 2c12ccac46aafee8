"""Run Gymnasium's own test suite with gymvec installed into Gymnasium and without.

    python tests/conformance/run.py CHECKOUT [--vector-envs] [--tests TEST ...]

CHECKOUT is a checkout of Gymnasium's repository, which is read and never written to. Its tests
run against the installed Gymnasium. A test that passes without gymvec and does not pass with
it makes the exit status 1, unless ``allowed_failures.txt`` names it.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
SELECTION = (
    "tests/vector",
    "tests/wrappers/vector",
    "tests/spaces",
    "tests/envs/registration/test_make_vec.py",
)


def allowed(mode):
    """The tests that may fail in this mode, with reasons."""
    found = {}
    for line in (HERE / "allowed_failures.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            where, test, reason = line.split(None, 2)
            if where == mode:
                found[test] = reason
    return found


def run(checkout, mode, tests):
    """The outcome of each test in one run of the suite, and what pytest printed."""
    with tempfile.TemporaryDirectory() as folder:
        # Beside the tests lies the checkout's Gymnasium, which child processes would import.
        root = Path(folder) / "root"
        root.mkdir()
        (root / "tests").symlink_to(checkout / "tests", target_is_directory=True)
        result = Path(folder) / "result.jsonl"
        path = os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")]))
        environment = {
            **os.environ,
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "GYMVEC_CONFORMANCE_MODE": mode,
            "GYMVEC_CONFORMANCE_RESULT": str(result),
            "GYMVEC_CONFORMANCE_CHECKOUT": str(checkout),
        }
        command = [sys.executable, "-m", "pytest", "-p", "conformance_plugin", "-q"]
        command += ["-p", "no:cacheprovider", "-o", "addopts=", "--no-header", "--tb=short"]
        command += ["-c", str(checkout / "pyproject.toml"), f"--rootdir={root}", *tests]
        if importlib.util.find_spec("pytest_timeout"):
            command.append("--timeout=300")
        printed, outcomes = "", {}
        while outcomes.get("") != "finished":
            known = len(outcomes)
            log = subprocess.run(
                command, cwd=root, env=environment, text=True, check=False,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            printed += log.stdout
            lines = result.read_text().splitlines() if result.exists() else []
            outcomes = {}
            for entry in map(json.loads, lines):
                outcomes[entry["test"]] = entry["outcome"]
            # After a test that ended the interpreter, go on with those behind it.
            if len(outcomes) == known:
                sys.exit(f"pytest ended without a result ({mode}):\n{printed}")
        del outcomes[""]
        return outcomes, printed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path, help="a checkout of Gymnasium's repository")
    parser.add_argument("--vector-envs", action="store_true", help="install(vector_envs=True)")
    parser.add_argument("--tests", nargs="+", default=SELECTION, help="other tests than usual")
    arguments = parser.parse_args()
    checkout = arguments.checkout.resolve()
    if not (checkout / "tests" / "vector").is_dir():
        parser.error(f"{checkout} is not a checkout of Gymnasium's repository")
    mode = "vector_envs" if arguments.vector_envs else "functions"

    without, _ = run(checkout, "without", arguments.tests)
    with_gymvec, log = run(checkout, mode, arguments.tests)
    for title, outcomes in (("without gymvec", without), ("with gymvec", with_gymvec)):
        counts = Counter(outcomes.values())
        print(f"{title:15}", ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))

    worse = sorted(
        test
        for test, outcome in without.items()
        if outcome == "passed" and with_gymvec.get(test) != "passed"
    )
    better = sorted(
        test
        for test, outcome in with_gymvec.items()
        if outcome == "passed" and without.get(test) in ("failed", "crashed")
    )
    reasons = allowed(mode)
    new = [test for test in worse if test not in reasons]
    for test in better:
        print(f"only with gymvec: {test}")
    for test in worse:
        print(f"only without gymvec: {test}: {reasons.get(test, 'NOT ALLOWED')}")
    for test in sorted(reasons.keys() & with_gymvec.keys() - set(worse)):
        print(f"allowed to fail, but does not: {test}")
    if not any(outcome == "passed" for outcome in without.values()):
        print(log)
        sys.exit("no test passed without gymvec: nothing was compared")
    if new:
        print(log)
        sys.exit(f"{len(new)} tests pass without gymvec and not with it")


if __name__ == "__main__":
    main()
