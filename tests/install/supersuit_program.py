"""Print a trajectory of a SuperSuit vector environment, as JSON.

    python supersuit_program.py PROCESSES WHEN

WHEN is when gymvec is installed: never, first, or after SuperSuit was imported. SuperSuit
registers a handler on Gymnasium's ``iterate``, so it does not share a process with other tests.
"""

import json
import multiprocessing
import sys
import warnings

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.vector.utils import concatenate, iterate
from pettingzoo import ParallelEnv


class Pursuit(ParallelEnv):
    metadata = {"name": "pursuit_v0", "render_modes": []}
    render_mode = None
    possible_agents = ["first", "second", "third"]
    generator = np.random.default_rng(0)

    def observation_space(self, agent):
        return Dict(place=Box(-10, 10, (2,), np.float32), seen=Discrete(4))

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        if seed is not None:
            self.generator = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.steps = 0
        self.places = {agent: self.generator.random(2, np.float32) for agent in self.agents}
        return self._observe(), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.steps += 1
        for agent, action in actions.items():
            self.places[agent] = self.places[agent] * np.float32(0.5) + np.float32(action)
        agents = self.agents
        over = self.steps >= 6
        self.agents = [] if over else agents
        return (
            self._observe(),
            {agent: float(self.places[agent].sum()) for agent in agents},
            dict.fromkeys(agents, over),
            dict.fromkeys(agents, False),
            {agent: {"steps": self.steps} for agent in agents},
        )

    def _observe(self):
        return {
            agent: {"place": self.places[agent], "seen": self.generator.integers(4)}
            for agent in self.possible_agents
        }


def plain(value):
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    if isinstance(value, np.ndarray | np.generic):
        return [value.dtype.str, value.shape, value.tolist()]
    return value


def main():
    processes, when = int(sys.argv[1]), sys.argv[2]
    if when == "first":
        import gymvec

        gymvec.install()
    warnings.simplefilter("ignore")
    import supersuit

    if when == "after":
        import gymvec

        gymvec.install()

    assert iterate.registry[Discrete].__module__.startswith("supersuit")
    on_gymvec = type(concatenate.registry[Dict]).__module__.startswith("gymvec")
    assert on_gymvec is (when != "never")

    env = supersuit.pettingzoo_env_to_vec_env_v1(Pursuit())
    env = supersuit.concat_vec_envs_v1(env, 2, num_cpus=processes, base_class="gymnasium")
    generator = np.random.default_rng(0)
    found = [env.reset(seed=5)]
    for _ in range(15):
        found.append(env.step(generator.integers(3, size=env.num_envs)))
    print(json.dumps(plain(found)))
    env.close()


if __name__ == "__main__":
    if "fork" in multiprocessing.get_all_start_methods():
        multiprocessing.set_start_method("fork")
    main()
