"""The environments in which gymvec is tested, measured and packed; `make` calls these sessions."""

import hashlib
import os
import shutil
import sys
from glob import glob
from pathlib import Path

import nox
from packaging.requirements import Requirement

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "virtualenv"
nox.options.reuse_venv = "yes"
nox.options.error_on_missing_interpreters = True
nox.options.download_python = "never"

PROJECT = nox.project.load_toml("pyproject.toml")["project"]
EXTRAS = PROJECT["optional-dependencies"]
C_FILES = sorted(glob("csrc/**/*.[ch]", recursive=True))

# The tests run against the package that is installed, whatever PYTHONPATH says.
os.environ.pop("PYTHONPATH", None)
os.environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"


def build_wheel(session, build="release"):
    """The wheel of a build (GYMVEC_BUILD) for the session's Python; built when a source changed."""
    sources = ["setup.py", "pyproject.toml", "MANIFEST.in", *C_FILES]
    sources += sorted(glob("src/gymvec/**/*.[pt]y*", recursive=True))
    suffix = "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"
    digest = hashlib.sha256(session.run("python", "-c", suffix, silent=True, log=False).encode())
    for source in sources:
        digest.update(source.encode() + Path(source).read_bytes())
    folder = Path("build", "wheels", build, digest.hexdigest()[:16])
    if not list(folder.glob("*.whl")):
        # What is gone from src must not come back from the build before.
        shutil.rmtree(Path("build", build), ignore_errors=True)
        session.run(
            *("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, "."),
            env={"GYMVEC_BUILD": build},
        )
    return str(next(folder.glob("*.whl")))


def install(session, extra, build="release"):
    """Install the package with an extra; whether the environment did not have this very wheel."""
    wheel = build_wheel(session, build)
    installed = Path(session.virtualenv.location, "installed")
    if installed.exists() and installed.read_text() == wheel:
        return False
    # A wheel of the same version is only installed again when told so.
    session.install("--force-reinstall", "--no-deps", wheel)
    session.install(f"{wheel}[{extra}]")
    installed.write_text(wheel)
    return True


def oldest(version):
    """The dependencies at their lower bounds in pyproject.toml, for a version of Python."""
    pins = {}
    for requirement in map(Requirement, PROJECT["dependencies"]):
        if not requirement.marker or requirement.marker.evaluate({"python_version": version}):
            lower = [part.version for part in requirement.specifier if part.operator == ">="]
            if not lower:
                raise ValueError(f"{requirement} in pyproject.toml has no lower bound")
            pins[requirement.name] = lower[0]
    return [f"{name}=={bound}" for name, bound in pins.items()]


@nox.session
def demo(session):
    """Gymnasium's functions and gymvec's, then CartPole on each kind of vector environment."""
    install(session, "compare")
    session.run("python", "bench/demo.py")
    session.run(
        *("python", "-m", "gymvec", "compare", "CartPole-v1", "--num-envs", "8,32"),
        *("--seconds", "0.2", "--rounds", "3", *session.posargs),
    )


@nox.session
def tests(session):
    """Python with all that the tests need: nox -s tests -- -m pytest -k concat."""
    install(session, "test")
    session.run("python", *session.posargs)


@nox.session(name="test-light")
def test_light(session):
    """The Python tests that need no MuJoCo and MiniGrid."""
    install(session, "test-light")
    folders = [f"tests/{name}" for name in ("utils", "install", "kernels", "property")]
    session.run("python", "-m", "pytest", *folders, *session.posargs)


@nox.session(name="test-portable")
def test_portable(session):
    """The tests of processes on what macOS and Windows run, which also runs here."""
    install(session, "test", build="portable")
    session.run("python", "-m", "pytest", "tests/vector", *session.posargs)


@nox.session
def sanitize(session):
    """The Python tests with AddressSanitizer and UndefinedBehaviorSanitizer (gcc, Linux)."""
    install(session, "test", build="sanitize")
    compiler = os.environ.get("CC", "cc").split()
    # C++ exceptions of other packages need their library to be there when AddressSanitizer starts.
    preload = [
        session.run(*compiler, f"-print-file-name=lib{name}.so", external=True, silent=True)
        for name in ("asan", "ubsan", "stdc++")
    ]
    # Python itself leaks at its end, and some tests want a worker to die of a segmentation fault.
    # Hostile sizes are MemoryErrors, as without the sanitizers.
    session.run(
        *("python", "-m", "pytest", "-m", "not (leaks or not_sanitized)", *session.posargs),
        env={
            "LD_PRELOAD": " ".join(library.strip() for library in preload),
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:handle_segv=0:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1",
            "HYPOTHESIS_PROFILE": "few",
        },
    )


@nox.session(python=["3.10", "3.11", "3.12", "3.13"])
@nox.parametrize("dependencies", ["oldest", "newest"])
def matrix(session, dependencies):
    """The tests on each Python, with the oldest and the newest dependencies."""
    pins = oldest(session.python) if dependencies == "oldest" else []
    wheel = build_wheel(session)
    session.install("--force-reinstall", "--no-deps", wheel)
    session.install("--upgrade", *pins, f"{wheel}[test]")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def dist(session):
    """Sdist and wheel into dist, checked."""
    session.install(*EXTRAS["dist"])
    for folder in ("build/dist", "dist"):
        shutil.rmtree(folder, ignore_errors=True)
    session.run("python", "-m", "build", "--outdir", "build/dist", ".", silent=True)
    Path("dist").mkdir()
    (sdist,), (wheel,) = glob("build/dist/*.tar.gz"), glob("build/dist/*.whl")
    shutil.copy(sdist, "dist")
    if sys.platform == "linux":
        # It gives the wheel the tag of the oldest systems that the wheel runs on.
        session.run("auditwheel", "repair", "--wheel-dir", "dist", wheel)
    else:
        shutil.copy(wheel, "dist")
    session.run("python", "tools/check_dist.py", "dist")
    session.run("check-wheel-contents", *glob("dist/*.whl"))
    session.run("twine", "check", "--strict", *glob("dist/*"))


@nox.session(name="dist-test", requires=["dist"], reuse_venv=False)
def dist_test(session):
    """The tests of the sdist on that wheel, in a new environment without a compiler."""
    (sdist,), (wheel,) = glob("dist/*.tar.gz"), glob("dist/*.whl")
    session.install(f"{wheel}[test]")
    temporary = session.create_tmp()
    shutil.rmtree(temporary)
    shutil.unpack_archive(sdist, temporary)
    with session.chdir(next(Path(temporary).iterdir())):
        session.run("python", "-m", "pytest", *session.posargs, env={"PATH": session.bin})


@nox.session
def wheels(session):
    """Wheels for all Pythons on this system into wheelhouse; needs Docker on Linux."""
    session.install(*EXTRAS["dist"])
    session.run("python", "-m", "cibuildwheel", "--output-dir", "wheelhouse", *session.posargs)


@nox.session
def bench(session):
    """gymvec beside Gymnasium: functions, then vector environments."""
    install(session, "bench")
    functions, vector_envs = (f"bench/results/{name}.json" for name in ("functions", "vector_envs"))
    session.run("python", "bench/functions.py", "--json", functions, *session.posargs)
    session.run(
        *("python", "bench/vector_envs.py", "--rounds", "61", "--seconds", "0.12"),
        *("--json", vector_envs),
    )


@nox.session
def table(session):
    """The last measurements into README.md and docs/benchmarks.md."""
    install(session, "bench")
    session.run("python", "bench/table.py")


@nox.session
def peers(session):
    """Python with other packages' vector environments, as far as they can be installed here."""
    if install(session, "compare"):
        session.run("python", "bench/peers/install.py")
    session.run("python", *session.posargs)


def compare_suites(session):
    """Run Gymnasium's own tests, from a checkout, with gymvec installed into it and without."""
    session.install("moviepy", "array-api-compat", "array_api_extra", "scipy", "dill", "pytest")
    session.run("python", "tests/conformance/run.py", *session.posargs)


@nox.session
def conformance(session):
    """Gymnasium's own tests on gymvec: nox -s conformance -- CHECKOUT."""
    install(session, "test")
    compare_suites(session)


@nox.session(name="conformance-checkout")
def conformance_checkout(session):
    """The same with the checkout's own Gymnasium installed."""
    install(session, "test-light")
    session.install(f"{session.posargs[0]}[mujoco,box2d,classic-control,toy-text]")
    compare_suites(session)


@nox.session
def docs(session):
    """The documentation into site; a broken link is an error."""
    install(session, "docs")
    session.run("mkdocs", "build", "--strict", env={"NO_MKDOCS_2_WARNING": "1"})


@nox.session
def lint(session):
    """Style: ruff, cython-lint, clang-format, zizmor."""
    session.install(*EXTRAS["lint"])
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("cython-lint", "src")
    session.run("clang-format", "--dry-run", "--Werror", *C_FILES)
    session.run("zizmor", "--offline", "--quiet", ".github")
    session.run("python", "tools/check_pre_commit.py")
    session.run("python", "tools/check_arrows.py")


@nox.session
def types(session):
    """Types: mypy, and the stubs against the modules as they are compiled."""
    install(session, "lint")
    modules = [
        source.removeprefix("src/").removesuffix(".pyx").replace("/", ".")
        for source in sorted(glob("src/gymvec/**/*.pyx", recursive=True))
    ]
    session.run("mypy")
    session.run(
        *("python", "-m", "mypy.stubtest", "--concise", "--ignore-unused-allowlist"),
        *("--allowlist", "tests/typing/stubtest_allowlist.txt", *modules),
    )


@nox.session(name="format")
def reformat(session):
    """Rewrite what lint would find fault with, where a tool can."""
    session.install(*EXTRAS["lint"])
    session.run("ruff", "check", "--fix", ".")
    session.run("ruff", "format", ".")
    session.run("clang-format", "-i", *C_FILES)
