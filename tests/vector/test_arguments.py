"""Arguments of the constructors that cannot be what the caller meant."""

import gymnasium as gym
import pytest
from scripted import Scripted

import gymvec


@pytest.mark.parametrize("kind", ["SyncVectorEnv", "AsyncVectorEnv"])
@pytest.mark.parametrize("mode", ["same_step", "SAME_STEP", "", None, 1])
def test_an_unknown_autoreset_mode(kind, mode):
    with pytest.raises(ValueError) as caught:
        getattr(gymvec, kind)([Scripted], autoreset_mode=mode)
    with pytest.raises(ValueError) as theirs:
        gym.vector.AutoresetMode(mode)
    assert str(caught.value).startswith(str(theirs.value))
    assert str(caught.value) == (
        f"{mode!r} is not a valid AutoresetMode; expected one of 'NextStep', 'SameStep', 'Disabled'"
    )


def test_more_workers_than_environments():
    with pytest.warns(UserWarning, match="`num_workers=16` is more than .*: 3 workers are st"):
        envs = gymvec.AsyncVectorEnv([Scripted] * 3, num_workers=16)
    assert envs.num_workers == len(envs.processes) == 3
    envs.close()


def test_more_workers_than_environments_where_warnings_are_errors():
    # That is the setting of all these tests; no process is started.
    with pytest.raises(UserWarning, match="num_workers=3"):
        gymvec.AsyncVectorEnv([Scripted] * 2, num_workers=3)


@pytest.mark.parametrize("num_workers", [None, 1, 2])
def test_as_many_workers_as_environments_need_no_warning(num_workers):
    gymvec.AsyncVectorEnv([Scripted] * 2, num_workers=num_workers, max_concurrency=8).close()
