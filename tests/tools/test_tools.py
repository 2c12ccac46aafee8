"""The programs in tools find what they are there to find."""

import importlib.util
import re
import subprocess
import zipfile
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


matrix, check_dist, check_pre_commit = map(load, ("matrix", "check_dist", "check_pre_commit"))

METADATA = """Metadata-Version: 2.4
Name: gymvec
Version: 1
Requires-Dist: numpy>=1.21.2
Requires-Dist: numpy>=2.1.0; python_version >= "3.13"
Requires-Dist: gymnasium>=1.1.0
Requires-Dist: pytest>=8; extra == "test"
"""


def wheel(folder, *names, metadata=METADATA):
    path = folder / "gymvec-1-cp311-cp311-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("gymvec-1.dist-info/METADATA", metadata)
        for name in names:
            archive.writestr(name, "")
    return path


@pytest.mark.parametrize(("version", "numpy"), [("3.9", "1.21.2"), ("3.13", "2.1.0")])
def test_oldest_versions(tmp_path, version, numpy):
    assert matrix.oldest(wheel(tmp_path), version) == [f"numpy=={numpy}", "gymnasium==1.1.0"]


def test_a_dependency_without_a_lower_bound(tmp_path):
    metadata = METADATA.replace("gymnasium>=1.1.0", "gymnasium")
    with pytest.raises(SystemExit, match="gymnasium.*no lower bound"):
        matrix.oldest(wheel(tmp_path, metadata=metadata), "3.11")


def test_a_python_that_is_not_there(monkeypatch, capsys):
    monkeypatch.setattr(matrix, "interpreter", {"3.11": "python", "9.9": None}.get)
    monkeypatch.setattr("sys.argv", ["matrix.py", "--pythons", "3.11 9.9"])
    with pytest.raises(SystemExit) as ended:
        matrix.main()
    assert ended.value.code == 1
    text = capsys.readouterr().err
    assert "there is no Python 9.9" in text and 'PYTHONS="3.11"' in text


def test_no_interpreter_is_found_by_name_alone(monkeypatch, tmp_path):
    shim = tmp_path / "python3.77"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert matrix.interpreter("3.77") is None


def package():
    """What a wheel must hold."""
    source = ROOT / "src"
    names = [
        file.relative_to(source).as_posix()
        for pattern in ("*.py", "*.pyi", "py.typed")
        for file in (source / "gymvec").rglob(pattern)
    ]
    modules = [
        file.relative_to(source).with_suffix("").as_posix()
        for file in (source / "gymvec").rglob("*.pyx")
    ]
    return names, [f"{module}.cpython-311-any.so" for module in modules]


def test_a_whole_wheel_has_no_faults(tmp_path):
    names, modules = package()
    assert len(modules) >= 12
    assert check_dist.wheel_faults(wheel(tmp_path, *names, *modules)) == []


def test_faults_of_a_wheel(tmp_path):
    names, modules = package()
    names.remove("gymvec/py.typed")
    names.remove("gymvec/kernels/rows.pyi")
    modules.remove("gymvec/utils/_dispatch.cpython-311-any.so")
    extra = ["gymvec/kernels/rows.pyx", "gymvec/kernels/rows.c", "tests/test_a.py"]
    faults = check_dist.wheel_faults(wheel(tmp_path, *names, *modules, *extra))
    assert [fault.partition(" ")[2] for fault in faults] == [
        "lacks gymvec/kernels/rows.pyi",
        "lacks gymvec/py.typed",
        "lacks the compiled gymvec/utils/_dispatch",
        "has gymvec/kernels/rows.pyx",
        "has gymvec/kernels/rows.c",
        "has tests/test_a.py",
    ]


def test_a_wheel_that_is_too_large(tmp_path, monkeypatch):
    names, modules = package()
    monkeypatch.setattr(check_dist, "WHEEL_BYTES", 10)
    (fault,) = check_dist.wheel_faults(wheel(tmp_path, *names, *modules))
    assert fault.endswith("more than 10")


def in_manifest(name, commands):
    """Whether MANIFEST.in, or setuptools by itself, puts a file into the sdist."""
    path = PurePosixPath(name)
    if name in ("setup.py", "pyproject.toml", "MANIFEST.in"):
        return True
    for command, *words in commands:
        if command == "include" and "/" not in name and any(fnmatch(name, word) for word in words):
            return True
        folder = PurePosixPath(words[0])
        if command == "recursive-include" and folder in path.parents:
            if any(fnmatch(path.name, word) for word in words[1:]):
                return True
    return name.startswith("src/") and path.suffix == ".py"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a checkout says what is tracked")
def test_the_sdist_gets_every_file():
    listing = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = [
        name for name in listing.stdout.splitlines() if not name.startswith(check_dist.NOT_IN_SDIST)
    ]
    assert len(tracked) > 100
    commands = [line.split() for line in (ROOT / "MANIFEST.in").read_text().splitlines()]
    assert [name for name in tracked if not in_manifest(name, commands)] == []


def test_contributing_names_every_target():
    makefile, contributing = (
        (ROOT / name).read_text(encoding="utf-8") for name in ("Makefile", "CONTRIBUTING.md")
    )
    described = re.findall(r"^([a-z-]+):.*## ", makefile, re.M)
    named = re.findall(r"^make ([a-z-]+)", contributing, re.M)
    assert len(described) > 20
    assert {*described} - {*named} == {"help"}
    assert all(re.search(rf"^{name}:", makefile, re.M) for name in named)


def test_pre_commit_agrees():
    assert check_pre_commit.extra() == check_pre_commit.hooks()
    assert {"ruff", "mypy", "cython-lint", "clang-format", "zizmor"} == {*check_pre_commit.extra()}


def test_pre_commit_that_differs(monkeypatch, capsys):
    monkeypatch.setattr(check_pre_commit, "hooks", lambda: {"ruff": "1", "mypy": "2"})
    monkeypatch.setattr(check_pre_commit, "extra", lambda: {"ruff": "1", "mypy": "3"})
    assert check_pre_commit.main() == 1
    assert capsys.readouterr().err.startswith("mypy: 3 in the lint extra, 2 in")
