"""One warning of environments whose steps mostly wait, and none of others."""

import sys
import time
import warnings

import numpy as np
import pytest
from async_envs import Acts, sleep
from scripted import Scripted

from gymvec import AsyncVectorEnv
from gymvec.vector.worker import io_wait as waiting

pytestmark = pytest.mark.timeout(60)

N = 6
ZEROS = np.zeros((N, 2), np.float32)
# Long beside the time for which who wakes up stands in line for a core, where others compute.
NAP = 0.03


def compute(seconds):
    def act(env, name):
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass

    return act


def messages(envs, steps=16, send=False):
    """What is warned of, and the observations, of some steps."""
    observations = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        envs.reset()
        for _ in range(steps):
            observations.append(envs.step(ZEROS[: envs.batch_size])[0].tolist())
    return [str(warning.message) for warning in caught], observations


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_one_warning_that_says_how(context):
    if context == "fork" and sys.platform == "win32":
        pytest.skip("no fork")
    envs = AsyncVectorEnv([lambda: Acts(sleep(NAP), "step")] * N, num_workers=2, context=context)
    said, observations = messages(envs, 14)
    envs.close()
    assert len(said) == 1
    assert "mostly wait" in said[0]
    assert "num_workers=6 instead of 2" in said[0]
    # The message that tells changes nothing of what the steps return.
    assert observations == [[[step, step]] * N for step in range(1, 15)]


def test_infos_beside_it():
    class Tells(Acts):
        def step(self, action):
            return (*super().step(action)[:4], {"steps": self.steps, "text": str(self.steps)})

    envs = AsyncVectorEnv([lambda: Tells(sleep(NAP), "step")] * N, num_workers=2)
    envs.reset()
    for step in range(1, 15):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            infos = envs.step(ZEROS)[4]
        assert infos["steps"].tolist() == [step] * N
        assert infos["text"].tolist() == [str(step)] * N
    envs.close()


def test_numbers_in_infos_beside_it():
    class Tells(Acts):
        def step(self, action):
            return (*super().step(action)[:4], {"steps": self.steps})

    envs = AsyncVectorEnv([lambda: Tells(sleep(NAP), "step")] * N, num_workers=2)
    envs.reset()
    for step in range(1, 15):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            infos = envs.step(ZEROS)[4]
        assert infos["steps"].tolist() == [step] * N
    envs.close()


def test_partial_batches():
    envs = AsyncVectorEnv([lambda: Acts(sleep(NAP), "step")] * N, num_workers=2, batch_size=3)
    said, _ = messages(envs, 40)
    envs.close()
    assert len(said) == 1
    assert "num_workers=6 instead of 2" in said[0]


def test_where_warnings_are_errors_the_step_can_be_waited_for_again():
    envs = AsyncVectorEnv([lambda: Acts(sleep(NAP), "step")] * N, num_workers=2)
    envs.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(1, 15):
            envs.step_async(ZEROS)
            try:
                observations = envs.step_wait()[0]
            except UserWarning:
                observations = envs.step_wait()[0]
            assert observations.tolist() == [[step, step]] * N
    envs.close()


@pytest.mark.parametrize(
    ("act", "kwargs"),
    [
        (compute(0.002), {"num_workers": 2}),
        (None, {"num_workers": 2}),
        (sleep(NAP), {"num_workers": N}),
        (sleep(NAP), {"num_workers": 2, "max_concurrency": 2}),
    ],
)
def test_no_warning(act, kwargs):
    """Of what computes, of short steps, and where there can be no more workers."""
    envs = AsyncVectorEnv([lambda: Acts(act, "step")] * N, **kwargs)
    said, observations = messages(envs)
    envs.close()
    assert said == []
    assert observations[-1] == [[16, 16]] * N


def test_a_step_that_raises_is_left_out():
    meter = waiting.WaitMeter()
    with pytest.raises(ZeroDivisionError):
        meter.measure(lambda env, action: 1 // 0, 0, None)
    assert meter.share() is None
    assert not meter.done
    for _ in range(100):
        if meter.done:
            break
        meter.measure(lambda env, action: None, 0, None)
    assert meter.done
    assert meter.share() is None


def test_both_commands_of_a_step_in_one_run():
    """Errors in measured steps arrive as ever."""
    envs = AsyncVectorEnv([Scripted] * 4, num_workers=2)
    envs.reset()
    envs.set_attr("fail", [set(), {"step"}, set(), set()])
    with pytest.raises(LookupError):
        envs.step(ZEROS[:4])
    envs.set_attr("fail", [set()] * 4)
    envs.reset()
    assert envs.step(ZEROS[:4])[0].tolist() == [[1, 1]] * 4
    envs.close()


def test_time_in_line_for_a_core_is_no_waiting(monkeypatch):
    """Of a step that takes long because others compute; naps stand for these."""
    shares = []
    for busy in (lambda: 0.0, time.perf_counter):
        monkeypatch.setattr(waiting, "_busy", busy)
        meter = waiting.WaitMeter()
        while not meter.done:
            meter.measure(lambda env, action: time.sleep(0.005), 0, None)
        shares.append(meter.share())
    assert shares == [1.0, None]
