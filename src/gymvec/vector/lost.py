"""The worker's side of a restart: environments whose episode went with their former process."""

from __future__ import annotations

from typing import Any

__all__ = ["behind", "set_lost"]

# What says so in the infos, next to whatever else is there.
_KEY = "worker_restarted"


class _LostEpisode:
    """Stands for a new environment until the caller has been told of its lost predecessor.

    The first step is not made: it ends the episode where the caller last saw it. A reset, by
    the caller or because the autoreset mode says so, is the new environment's.
    """

    def __init__(self, envs: list[Any], i: int, observation: Any) -> None:
        self.env = envs[i]
        self._envs = envs
        self._i = i
        self._observation = observation
        self._told = False

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._told = True
        self._envs[self._i] = self.env
        return self._observation, 0.0, False, True, {_KEY: True}

    def reset(self, **kwargs: Any) -> tuple[Any, Any]:
        observation, info = self.env.reset(**kwargs)
        # One that fails has not begun a new episode.
        self._envs[self._i] = self.env
        # In the step that ended the episode: its own info is now in `final_info`.
        if self._told and isinstance(info, dict):
            info = {**info, _KEY: True}
        return observation, info


def set_lost(envs: list[Any], i: int, observation: Any) -> None:
    """Let environment ``i`` of a list end the episode of the one that it stands for.

    Args:
        envs: The environments of a worker, by which they are stepped.
        i: Which.
        observation: What the caller saw last.
    """
    envs[i] = _LostEpisode(envs, i, observation)


def behind(env: Any) -> Any:
    """The environment itself."""
    return env.env if type(env) is _LostEpisode else env
