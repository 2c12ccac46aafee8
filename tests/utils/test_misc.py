"""CloudpickleWrapper and clear_mpi_env_vars."""

import functools
import os
import pickle
import subprocess
import sys

import gymnasium.vector.utils as theirs
import pytest

import gymvec.utils as ours

PACKAGES = pytest.mark.parametrize("package", [ours, theirs], ids=["gymvec", "gymnasium"])


def _unpickled(wrapper):
    return pickle.loads(pickle.dumps(wrapper))


@PACKAGES
def test_what_a_wrapper_carries(package):
    count = [3]

    def closure():
        count[0] += 1
        return count[0]

    class Local:
        pass

    assert _unpickled(package.CloudpickleWrapper(closure))() == 4
    assert count == [3]
    assert _unpickled(package.CloudpickleWrapper(lambda: "x" * count[0]))() == "xxx"
    assert _unpickled(package.CloudpickleWrapper(functools.partial(divmod, 7, 2)))() == (3, 1)
    assert type(_unpickled(package.CloudpickleWrapper(Local))()).__name__ == "Local"
    assert _unpickled(_unpickled(package.CloudpickleWrapper(closure)))() == 4


@PACKAGES
def test_a_wrapper_calls_its_function(package):
    def fails():
        raise KeyError("lost")

    wrapper = package.CloudpickleWrapper(fails)
    assert wrapper.fn is fails
    with pytest.raises(KeyError, match="lost"):
        wrapper()
    with pytest.raises(TypeError):
        wrapper(1)
    with pytest.raises(KeyError, match="lost"):
        _unpickled(wrapper)()


@PACKAGES
def test_what_cannot_be_pickled(package):
    lock = __import__("threading").Lock()
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(package.CloudpickleWrapper(lambda: lock))


def test_the_state_is_a_pickle():
    state = ours.CloudpickleWrapper(lambda: 5).__getstate__()
    assert isinstance(state, bytes)
    assert pickle.loads(state)() == 5
    wrapper = ours.CloudpickleWrapper.__new__(ours.CloudpickleWrapper)
    wrapper.__setstate__(theirs.CloudpickleWrapper(lambda: 6).__getstate__())
    assert wrapper() == 6
    assert ours.CloudpickleWrapper[int] is not None


MAIN = """
import pickle, sys
from gymvec.utils import CloudpickleWrapper
class Env:
    def name(self): return "from main"
def make(): return Env()
sys.stdout.buffer.write(pickle.dumps([CloudpickleWrapper(Env), CloudpickleWrapper(make)]))
"""


def test_what_is_defined_in_main():
    child = subprocess.run([sys.executable, "-c", MAIN], capture_output=True, check=True)
    assert [wrapper().name() for wrapper in pickle.loads(child.stdout)] == ["from main"] * 2


@pytest.fixture
def environ(monkeypatch):
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in ("OMPI_RANK", "PMI_RANK", "PMI_", "XOMPI_A", "ompi_b", "PMIX"):
        monkeypatch.setitem(os.environ, name, name.lower())
    return os.environ


@PACKAGES
def test_mpi_variables_are_hidden(package, environ):
    before = dict(environ)
    with package.clear_mpi_env_vars() as nothing:
        assert nothing is None
        assert not any(name in environ for name in ("OMPI_RANK", "PMI_RANK", "PMI_"))
        assert environ["XOMPI_A"] == "xompi_a" and environ["ompi_b"] == "ompi_b"
        assert environ["PMIX"] == "pmix"
    assert environ == before


@PACKAGES
def test_mpi_variables_come_back_after_an_error(package, environ):
    before = dict(environ)
    with pytest.raises(KeyError, match="lost"), package.clear_mpi_env_vars():
        raise KeyError("lost")
    assert environ == before


@PACKAGES
def test_variables_set_inside_are_kept(package, environ):
    with package.clear_mpi_env_vars():
        environ["NEW"] = "new"
        environ["OMPI_NEW"] = "also new"
        environ["OMPI_RANK"] = "another"
        del environ["PMIX"]
    assert environ["NEW"] == "new" and environ["OMPI_NEW"] == "also new"
    assert environ["OMPI_RANK"] == "ompi_rank"
    assert "PMIX" not in environ


@PACKAGES
def test_nested_and_without_any(package, environ):
    before = dict(environ)
    with package.clear_mpi_env_vars(), package.clear_mpi_env_vars():
        assert "PMI_RANK" not in environ
    assert environ == before
