"""install(vector_envs=True) where modules have Gymnasium's classes already, and its make_vec."""

import subprocess
import sys
import textwrap

import gymnasium
import pytest
from gymnasium.envs import registration
from gymnasium.vector import async_vector_env, sync_vector_env

import gymvec

HEAD = """
    import functools, importlib.util, multiprocessing, sys, types
    import gymnasium
    import gymvec
"""


def program(tmp_path, text, *options, **modules):
    """The lines that a program printed, and the warnings of `install` in it."""
    for name, source in {"program": HEAD + text, **modules}.items():
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(source))
    done = subprocess.run(
        [sys.executable, *options, tmp_path / "program.py"],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "WARN" in line]
    assert all("gymvec.install(vector_envs=True)" in line for line in said)
    return done.stdout.splitlines(), said


def test_modules_that_have_the_classes_are_named(tmp_path):
    _, said = program(
        tmp_path,
        """
    import other
    from gymnasium.vector import SyncVectorEnv as Mine
    gymvec.install(vector_envs=True)
    gymvec.install(vector_envs=True)
    """,
        other="from gymnasium.vector.async_vector_env import AsyncVectorEnv",
    )
    assert len(said) == 1
    assert "WARN: __main__.Mine, other.AsyncVectorEnv came before" in said[0]


def test_nothing_is_said_where_no_module_has_them(tmp_path):
    lines, said = program(
        tmp_path,
        """
    from gymnasium.vector import VectorEnv
    from gymnasium.vector.utils import concatenate
    import gymnasium.vector.async_vector_env
    gymvec.install(vector_envs=True)
    from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
    from gymnasium.vector.async_vector_env import AsyncVectorEnv as A
    from gymnasium.vector.sync_vector_env import SyncVectorEnv as S
    assert A is AsyncVectorEnv and S is SyncVectorEnv
    if __name__ == "__main__":
        factories = [functools.partial(gymnasium.make, "CartPole-v1")] * 2
        for kind in (A, S):
            envs = kind(factories)
            print(type(envs).__module__)
            envs.close()
    gymvec.uninstall()
    assert gymnasium.vector.async_vector_env.AsyncVectorEnv is not A
    assert gymnasium.vector.sync_vector_env.SyncVectorEnv is not S
    """,
    )
    assert lines == ["gymvec.vector.async_vector_env", "gymvec.vector.sync_vector_env"]
    assert said == []


def test_install_without_the_classes_says_nothing(tmp_path):
    text = "\n    from gymnasium.vector import SyncVectorEnv\n    gymvec.install()\n"
    assert program(tmp_path, text) == ([], [])
    text += "    gymvec.install(vector_envs=True)\n"
    assert len(program(tmp_path, text)[1]) == 1


def test_no_module_is_loaded_or_asked(tmp_path):
    lines, said = program(
        tmp_path,
        """
    class Asks(types.ModuleType):
        def __getattribute__(self, name):
            raise RuntimeError(f"was asked for {name}")

    class Object:
        def __getattribute__(self, name):
            raise RuntimeError(f"was asked for {name}")

    module = types.ModuleType("has_getattr")
    exec("def __getattr__(name): raise RuntimeError(name)", module.__dict__)
    sys.modules.update(asks=Asks("asks"), object=Object(), nothing=None, has_getattr=module)
    spec = importlib.util.find_spec("lazy")
    spec.loader = importlib.util.LazyLoader(spec.loader)
    lazy = sys.modules["lazy"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lazy)
    gymvec.install(vector_envs=True)
    print("installed")
    lazy.SyncVectorEnv
    """,
        lazy="print('loaded'); from gymnasium.vector import SyncVectorEnv",
    )
    assert lines == ["installed", "loaded"]
    assert said == []


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_processes_that_run_the_main_module_again_do_not_repeat_it(method, tmp_path):
    lines, said = program(
        tmp_path,
        """
    from gymnasium.vector import SyncVectorEnv
    gymvec.install(vector_envs=True)
    print(type(gymnasium.vector.SyncVectorEnv).__name__, flush=True)

    def work():
        print(__name__, flush=True)

    if __name__ == "__main__":
        process = multiprocessing.get_context(METHOD).Process(target=work)
        process.start()
        process.join()
    """.replace("METHOD", repr(method)),
    )
    assert lines == ["StandIn", "StandIn", "__mp_main__"]
    assert len(said) == 1


def test_where_warnings_are_errors_all_is_installed_or_nothing(tmp_path):
    lines, _ = program(
        tmp_path,
        """
    from gymnasium.vector import SyncVectorEnv
    for install in (lambda: gymvec.installation(vector_envs=True).__enter__(),
                    lambda: gymvec.install(vector_envs=True)):
        try:
            install()
        except UserWarning:
            print(gymvec.installed(), gymnasium.vector.SyncVectorEnv is not SyncVectorEnv)
    """,
        "-W",
        "error",
    )
    assert lines == ["False False", "True True"]


def test_functions_may_be_imported_before(tmp_path):
    lines, said = program(
        tmp_path,
        """
    from gymnasium import make_vec
    from gymnasium.vector.utils import (
        batch_differing_spaces, batch_space, concatenate, create_empty_array,
        create_shared_memory, iterate, read_from_shared_memory, write_to_shared_memory,
    )
    gymvec.install(vector_envs=True)
    Box = gymnasium.spaces.Box
    for function in (
        batch_differing_spaces, batch_space, concatenate, create_empty_array,
        create_shared_memory, iterate, read_from_shared_memory, write_to_shared_memory,
    ):
        assert type(function.dispatch(Box)).__module__ == "gymvec.utils._dispatch", function
    envs = make_vec("CartPole-v1", 2, vectorization_mode="sync")
    print(type(envs).__module__)
    """,
    )
    assert lines == ["gymvec.vector.sync_vector_env"]
    assert said == []


@pytest.fixture
def installed():
    # Modules of other tests have Gymnasium's classes.
    with pytest.warns() as said, gymvec.installation(vector_envs=True):
        yield said


def test_make_vec_and_the_classes_are_rebound_and_put_back():
    places = [
        (gymnasium, "make_vec"),
        (registration, "make_vec"),
        (gymnasium.vector, "SyncVectorEnv"),
        (gymnasium.vector, "AsyncVectorEnv"),
        (sync_vector_env, "SyncVectorEnv"),
        (async_vector_env, "AsyncVectorEnv"),
    ]
    before = [getattr(module, name) for module, name in places]
    with pytest.warns(UserWarning, match=r"test_install_late\.HAS.* came before"):
        gymvec.install(vector_envs=True)
    now = [getattr(module, name) for module, name in places]
    gymvec.uninstall()
    assert [getattr(module, name) for module, name in places] == before
    assert not set(now) & set(before)
    assert len(set(now)) == 3


HAS = gymnasium.vector.SyncVectorEnv


def test_make_vec_measures(installed):
    for module in (gymnasium, registration):
        envs = module.make_vec("CartPole-v1", num_envs=2, vectorization_mode="auto")
        assert type(envs) in (gymvec.SyncVectorEnv, gymvec.AsyncVectorEnv)
        assert envs.num_envs == 2
        envs.close()


@pytest.mark.parametrize("mode", [None, "vector_entry_point", *registration.VectorizeMode])
def test_other_modes_are_gymnasiums(mode, installed):
    envs = gymnasium.make_vec("CartPole-v1", 2, mode)
    kinds = {"sync": gymvec.SyncVectorEnv, "async": gymvec.AsyncVectorEnv}
    value = getattr(mode, "value", mode)
    if value in kinds:
        assert type(envs) is kinds[value]
    else:
        assert type(envs).__module__ == "gymnasium.envs.classic_control.cartpole"
    envs.close()
