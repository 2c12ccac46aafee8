"""The worker's side of a restart: environments whose episode went with their former process."""

from __future__ import annotations

from typing import Any

__all__ = ["behind", "set_lost"]

# What says so in the infos, next to whatever else is there.
_KEY = "worker_restarted"


class _LostEpisode:
    """Stands for a new environment until its first reset.

    The first step is not made: it ends the episode where the caller last saw it. A reset, by
    the caller or because the autoreset mode says so, is the new environment's.
    """

    def __init__(self, envs: list[Any], i: int, observation: Any, same_step: bool) -> None:
        self.env = envs[i]
        self._envs = envs
        self._i = i
        self._observation = observation
        self._same_step = same_step
        self._told = False
        self._begun = False

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._told = True
        return self._observation, 0.0, False, True, {_KEY: True}

    def reset(self, **kwargs: Any) -> tuple[Any, Any]:
        observation, info = self.env.reset(**kwargs)
        # One that fails has not begun a new episode.
        self._envs[self._i] = self.env
        # The info of the step that ended the episode is now in `final_info`.
        if self._told and self._same_step and isinstance(info, dict):
            info = {**info, _KEY: True}
        return observation, info

    def begin(self) -> None:
        """Have a state to be looked at, before the reset that counts."""
        if not self._begun:
            self.env.reset()
            self._begun = True


def set_lost(envs: list[Any], i: int, observation: Any, same_step: bool) -> None:
    """Let environment ``i`` of a list end the episode of the one that it stands for.

    Args:
        envs: The environments of a worker, by which they are stepped.
        i: Which.
        observation: What the caller saw last.
        same_step: Whether it is reset in the step that ends the episode.
    """
    envs[i] = _LostEpisode(envs, i, observation, same_step)


def behind(env: Any, name: str = "") -> Any:
    """The environment itself, for a method or attribute.

    An environment that was never reset draws no frame, and recorders ask for one after every
    step; so it is reset for that.
    """
    if type(env) is not _LostEpisode:
        return env
    if name == "render":
        env.begin()
    return env.env
