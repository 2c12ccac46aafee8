"""Some rounds of chaos with fixed seeds; `make chaos` plays on."""

import gc
import sys

import chaos
import pytest

from gymvec.vector.parent import death_policy as restarts

pytestmark = [
    pytest.mark.not_sanitized,
    pytest.mark.timeout(120),
    pytest.mark.skipif(sys.platform != "linux", reason="/proc, signals"),
]


@pytest.fixture(scope="module")
def before():
    """What is in use once all start methods have started what they keep."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restarts, "WINDOW_SECONDS", 0.0)
        yield chaos.warm_up(("fork", "spawn", "forkserver"))
        gc.enable()


@pytest.mark.parametrize("seed", [2, 5, 8, 11, 14, 17])
def test_chaos(seed, before):
    counts = chaos.play(seed, ("fork", "forkserver"), 25)
    assert counts
    assert chaos.usage() == before
