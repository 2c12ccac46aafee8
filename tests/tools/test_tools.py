"""The programs in tools find what they are there to find."""

import importlib.util
import re
import subprocess
import zipfile
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).parents[2]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_dist = load(ROOT / "tools" / "check_dist.py")
check_pre_commit = load(ROOT / "tools" / "check_pre_commit.py")


@pytest.fixture(scope="module")
def noxfile():
    with pytest.MonkeyPatch.context() as patch:
        # It finds its files from the root, and changes these variables.
        patch.chdir(ROOT)
        patch.delenv("PYTHONPATH", raising=False)
        patch.setenv("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        yield load(ROOT / "noxfile.py")


def wheel(folder, *names):
    path = folder / "gymvec-1-cp311-cp311-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("gymvec-1.dist-info/METADATA", "Name: gymvec")
        for name in names:
            archive.writestr(name, "")
    return path


DEPENDENCIES = [
    "numpy>=1.21.2",
    "numpy>=2.1.0; python_version >= '3.13'",
    "gymnasium>=1.1.0",
]


@pytest.mark.parametrize(("version", "numpy"), [("3.9", "1.21.2"), ("3.13", "2.1.0")])
def test_oldest_versions(noxfile, monkeypatch, version, numpy):
    monkeypatch.setitem(noxfile.PROJECT, "dependencies", DEPENDENCIES)
    assert noxfile.oldest(version) == [f"numpy=={numpy}", "gymnasium==1.1.0"]


def test_a_dependency_without_a_lower_bound(noxfile, monkeypatch):
    monkeypatch.setitem(noxfile.PROJECT, "dependencies", ["gymnasium<2"])
    with pytest.raises(ValueError, match="gymnasium.*no lower bound"):
        noxfile.oldest("3.11")


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
    makefile, sessions, contributing = (
        (ROOT / name).read_text(encoding="utf-8")
        for name in ("Makefile", "noxfile.py", "CONTRIBUTING.md")
    )
    lines = re.findall(r"^([a-z -]+):.*## ", makefile, re.M)
    (passed_on,) = re.findall(r"^SESSIONS := (.*)", makefile, re.M)
    targets = {*" ".join([*lines, passed_on]).split()}
    assert len(targets) > 20
    assert targets - {"help"} == {*re.findall(r"^make ([a-z-]+)", contributing, re.M)}
    functions = re.findall(r"^@nox.session(.*)\n(?:@.*\n)*def ([a-z_]+)", sessions, re.M)
    named = {(re.findall(r'name="([a-z-]+)"', options) or [name])[0] for options, name in functions}
    assert named - targets == {"tests"}
    assert {*passed_on.split()} <= named


def test_pre_commit_agrees():
    assert check_pre_commit.extra() == check_pre_commit.hooks()
    assert {"ruff", "mypy", "cython-lint", "clang-format", "zizmor"} == {*check_pre_commit.extra()}


def test_pre_commit_that_differs(monkeypatch, capsys):
    monkeypatch.setattr(check_pre_commit, "hooks", lambda: {"ruff": "1", "mypy": "2"})
    monkeypatch.setattr(check_pre_commit, "extra", lambda: {"ruff": "1", "mypy": "3"})
    assert check_pre_commit.main() == 1
    assert capsys.readouterr().err.startswith("mypy: 3 in the lint extra, 2 in")
