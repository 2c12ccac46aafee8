"""python -m gymvec compare."""

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest
from marks import gone, mark, marked

from gymvec.cli import compare as command
from gymvec.cli.main import main
from gymvec.measuring import backends

pytestmark = pytest.mark.not_sanitized

HERE = Path(__file__).parent
QUICK = ["compare/Quick-v0", "--module", "compare_envs", "--rounds", "2", "--seconds", "0.01"]


def compare(capsys, *arguments):
    code = main(["compare", *arguments])
    return code, *capsys.readouterr()


def rows(path):
    """What a result file says, by backend and number of environments."""
    found = json.loads(path.read_text())["results"]
    return {(row["backend"], row["num_envs"]): row for row in found}


def test_figures_table_and_picture(capsys, tmp_path):
    json_path, picture = tmp_path / "result.json", tmp_path / "picture.png"
    keys = "gymnasium-sync,gymvec-sync,gymvec-async"
    code, out, _ = compare(
        capsys, *QUICK, "--num-envs", "3,2", "--backends", keys, "--json", str(json_path),
        "--plot", str(picture), "--env-kwargs", "at=-1", "what=none",
    )  # fmt: skip
    assert code == 0
    facts = json.loads(json_path.read_text())
    assert facts["format"] == "gymvec compare 1"
    assert facts["command"].startswith("python -m gymvec compare compare/Quick-v0 --module")
    assert set(facts["versions"]) == {"python", "numpy", "gymnasium", "gymvec"}
    assert facts["env"] == {
        "id": "compare/Quick-v0",
        "kwargs": {"at": -1, "what": "none"},
        "modules": ["compare_envs"],
    }
    assert [(row["num_envs"], row["backend"]) for row in facts["results"]] == [
        (1, "bare loops"),
        *(
            (n, name)
            for n in (2, 3)
            for name in ("bare loops", "Gymnasium sync", "gymvec sync", "gymvec async")
        ),
    ]
    limits = {row["num_envs"]: row["seconds"] for row in facts["results"] if row["efficiency"] == 1}
    for row in facts["results"]:
        assert row["reason"] is None
        assert row["steps"] >= 1
        assert len(row["seconds"]) == 2
        loops = row["backend"] == "bare loops"
        assert len(row["unevenness"]) == (2 if loops else 0)
        assert all(factor >= 1 for factor in row["unevenness"])
        rates = sorted(1 / seconds for seconds in row["seconds"])
        rate = row["env steps per second"]
        assert rate["median"] == pytest.approx(statistics.mean(rates))
        assert rates[0] <= rate["lower quartile"] <= rate["upper quartile"] <= rates[1]
        quotients = [a / b for a, b in zip(limits[row["num_envs"]], row["seconds"], strict=True)]
        assert row["efficiency"] == pytest.approx(statistics.median(quotients))
    for name in ("bare loops (the limit)", "Gymnasium sync", "gymvec sync", "gymvec async"):
        assert name in out
    assert "why not" not in out
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_who_fails_is_a_line_with_the_reason(capsys, tmp_path):
    path = tmp_path / "result.json"
    code, out, _ = compare(
        capsys, "compare/Strange-v0", *QUICK[1:], "--num-envs", "2",
        "--backends", "gymnasium-async,gymvec-async", "--json", str(path),
    )  # fmt: skip
    assert code == 0
    found = rows(path)
    theirs = found["Gymnasium async", 2]
    assert theirs["reason"].startswith("ValueError: Using `AsyncVector(..., shared_memory=True)`")
    assert theirs["seconds"] == []
    assert theirs["env steps per second"] is None
    assert theirs["efficiency"] is None
    assert found["gymvec async", 2]["reason"] is None
    assert "why not" in out
    assert "shared_memory=True" in out


@pytest.mark.parametrize(
    ("what", "reasons"),
    [
        ("raise", {"ValueError: the step [failed] for a reason"}),
        pytest.param(
            "exit",
            {"the process exited with code 7", "a loop's process exited with code 7"},
            marks=pytest.mark.skipif(os.name != "posix", reason="other codes"),
        ),
    ],
)
def test_nothing_can_be_measured(capsys, tmp_path, what, reasons):
    path = tmp_path / "result.json"
    code, out, err = compare(
        capsys, *QUICK, "--num-envs", "2", "--backends", "gymvec-sync", "--json", str(path),
        "--env-kwargs", f"what={what}", "--plot", str(tmp_path / "none.png"),
    )  # fmt: skip
    assert code == 1
    assert "No vector environment could be measured" in err
    assert {row["reason"] for row in rows(path).values()} == reasons
    assert "[failed]" in out or what == "exit"
    assert not (tmp_path / "none.png").exists()


def test_who_hangs_is_ended(capsys, tmp_path, monkeypatch):
    value = mark(monkeypatch)
    path = tmp_path / "result.json"
    code, _, _ = compare(
        capsys, *QUICK, "--num-envs", "2", "--backends", "gymvec-sync,gymnasium-async",
        "--json", str(path), "--env-kwargs", "what=hang", "--time-limit", "4",
    )  # fmt: skip
    assert code == 1
    assert {row["reason"] for row in rows(path).values()} == {"no answer within 4 s"}
    assert gone(value)


def test_workers_that_differ_are_lines_of_their_own(capsys):
    code, out, _ = compare(
        capsys, *QUICK, "--num-envs", "2", "--workers", "1,2",
        "--backends", "gymvec-sync,gymvec-async",
    )  # fmt: skip
    assert code == 0
    for name in ("gymvec async, 1 worker ", "gymvec async, 2 workers "):
        assert out.count(name) == 1
    assert out.count("gymvec sync") == 1


def test_a_backend_that_is_not_installed(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(backends.importlib.util, "find_spec", _hides("envpool", "supersuit"))
    path = tmp_path / "result.json"
    code, _, _ = compare(
        capsys, *QUICK, "--num-envs", "2", "--backends", "supersuit,gymvec-sync",
        "--json", str(path),
    )  # fmt: skip
    assert code == 0
    assert rows(path)["SuperSuit", 2]["reason"] == "not installed: pip install supersuit"
    assert "supersuit" not in [backend.key for backend in backends.available("CartPole-v1")]


def _hides(*packages):
    find_spec = backends.importlib.util.find_spec
    return lambda name, *args: None if name in packages else find_spec(name, *args)


@pytest.mark.parametrize(("package", "more"), [("rich", []), ("matplotlib", ["--plot", "x.png"])])
def test_a_missing_extra_is_named(capsys, monkeypatch, package, more):
    monkeypatch.setattr(command.importlib.util, "find_spec", _hides(package))
    code, out, err = compare(capsys, *QUICK, *more)
    assert code == 2
    assert out == ""
    assert f"this needs {package}, of the extra: pip install 'gymvec[compare]'" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Nowhere-v0"], "Environment `Nowhere` doesn't exist. (--module imports modules"),
        (["CartPole-v7"], "Environment version `v7` for environment `CartPole` doesn't exist"),
        (["CartPole-v1", "--module", "no_such_module"], "importing 'no_such_module' failed"),
        (["CartPole-v1", "--json", "no/such/file"], "there is no folder 'no/such'"),
        (["CartPole-v1", "--plot", "no/such.png"], "there is no folder 'no'"),
        (["CartPole-v1", "--plot", "picture.xyz"], "no picture can be written as 'xyz', only as"),
        (["CartPole-v1", "--json", os.sep], f"{os.sep!r} is a folder"),
        (["CartPole-v1", "--plot", os.curdir], f"{os.curdir!r} is a folder"),
    ],
)
def test_what_cannot_be_done_is_said_before_measuring(capsys, arguments, message):
    code, out, err = compare(capsys, *arguments)
    assert code == 2
    assert out == ""
    assert err.startswith("python -m gymvec compare: error: ")
    assert message in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: ENV_ID"),
        (["X-v0", "--num-envs", "1,0"], "expected a number of at least 1, got '0'"),
        (["X-v0", "--num-envs", "many"], "expected a number of at least 1, got 'many'"),
        (["X-v0", "--workers", ""], "expected a number of at least 1, got ''"),
        (["X-v0", "--rounds", "-1"], "expected a number of at least 1, got '-1'"),
        (["X-v0", "--seconds", "0"], "expected a number above 0, got '0'"),
        (["X-v0", "--time-limit", "nan"], "expected a number above 0, got 'nan'"),
        (["X-v0", "--backends", "gymvec"], "gymvec-async, sb3-dummy"),
        (["X-v0", "--env-kwargs", "a"], "expected name=value, got 'a'"),
        (["X-v0", "--env-kwargs", "a=[1"], "expected a Python literal or a word, got 'a=[1'"),
    ],
)
def test_arguments_that_make_no_sense(capsys, arguments, message):
    with pytest.raises(SystemExit) as ended:
        main(["compare", *arguments])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=-1.5", -1.5),
        ("a=None", None),
        ("a=True", True),
        ("a='1'", "1"),
        ("a=(1, 'x')", (1, "x")),
        ("a={'b': [2]}", {"b": [2]}),
        ("a=rgb_array", "rgb_array"),
        ("a=../file-1.xml", "../file-1.xml"),
    ],
)
def test_arguments_of_the_environment(text, value):
    assert command._env_kwarg(text) == ("a", value)


def test_as_a_program(tmp_path):
    """The module is found in the current folder, also by processes that are spawned."""
    done = subprocess.run(
        [
            sys.executable, "-m", "gymvec", "compare", *QUICK, "--num-envs", "2",
            "--backends", "gymnasium-async,gymvec-async", "--json", tmp_path / "result.json",
        ],
        cwd=HERE, capture_output=True, text=True, timeout=200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "gymvec async" in done.stdout
    assert [row["reason"] for row in rows(tmp_path / "result.json").values()] == [None] * 4


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_interrupt_ends_all(tmp_path, monkeypatch):
    value = mark(monkeypatch)
    process = subprocess.Popen(
        [sys.executable, "-m", "gymvec", "compare", *QUICK, "--env-kwargs", "what=hang"],
        cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 60
    # The limit's host and its loop: by now it measures.
    while len(marked(value)) < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err.endswith("interrupted; nothing is kept\n"), err
    assert gone(value)


def test_importing_gymvec_imports_none_of_it():
    code = (
        "import sys, gymvec; "
        "print([name for name in ('gymvec.compare', 'gymvec.cli.main', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("key", ["sb3-dummy", "sb3-subproc", "pufferlib", "supersuit", "envpool"])
def test_other_packages(capsys, tmp_path, key):
    if not backends.BACKENDS[key].is_installed:
        pytest.skip("not installed")
    path = tmp_path / "result.json"
    code, _, _ = compare(
        capsys, "CartPole-v1", *QUICK[3:], "--num-envs", "2", "--backends", key,
        "--json", str(path),
    )  # fmt: skip
    assert code == 0
    assert [row["reason"] for row in rows(path).values()] == [None, None, None]
