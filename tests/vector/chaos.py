"""Random steps, deaths, stops, errors, time-outs and resets beside a model of what must come.

python tests/vector/chaos.py --seconds 600          # prints the seed of each round
python tests/vector/chaos.py --seed 123 --rounds 1  # the round of that seed again
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from typing import Any

import chaos_envs as model
import numpy as np
from chaos_board import Board, Gone
from chaos_envs import EXIT, HANG, HARMS, KILL, NAP, RAISE, Twin

from gymvec import AsyncVectorEnv, WorkerDiedError
from gymvec.vector.parent import death_policy as restarts

# More than any call here takes.
HANG_SECONDS = 120.0


class Round(Board):
    """What is played."""

    # --- full batches ---

    def reset(self, all_of_them: bool = False) -> None:
        choose = self.random
        mask = None
        if (
            not all_of_them
            and choose.random() < 0.5
            and not any(t.seen is None for t in self.twins)
        ):
            mask = np.array([choose.random() < 0.5 or self.must_reset(t) for t in self.twins])
            mask[choose.randrange(self.n)] = True
        seed = choose.choice([None, choose.randrange(1000)])
        options: dict[Any, Any] = {}
        chosen = [t for t in self.twins if mask is None or mask[t.index]]
        failing = []
        if not all_of_them and choose.random() < 0.3:
            twin = choose.choice(chosen)
            act = choose.choice([RAISE, EXIT, KILL, NAP])
            once = None
            if act in HARMS:
                self.words += 1
                once = os.path.join(self.folder, f"{self.words}")
                open(once, "w").close()
                self.suspects.add(self.worker_of[twin.index])
                self.doomed.add(self.worker_of[twin.index])
            elif act == RAISE:
                failing.append(twin)
            options[twin.index] = act, once
        self.log.append(f"reset seed {seed} mask {mask} options {options}")
        if mask is not None:
            options["reset_mask"] = mask
        try:
            observations, infos = self.envs.reset(seed=seed, options=options or None)
        except LookupError as error:
            assert failing and str(error) == f"reset of {failing[0].index}", f"{error}"
            self.unknown(self.notice())
            for twin in chosen:
                if twin not in failing:
                    twin.reset(seed if seed is None else seed + twin.index)
            self.check_doomed([twin.index for twin in chosen])
            return
        assert not failing
        self.notice()
        self.check_doomed([twin.index for twin in chosen])
        rows = []
        for twin in self.twins:
            if twin in chosen:
                if twin.unknown and all_of_them:
                    twin.episode = int(self.said(observations, twin.index)[2]) - 1
                    twin.unknown = False
                row = twin.reset(seed if seed is None else seed + twin.index)
                rows.append((twin.index, row))
        self.check_latest(observations)
        model.assert_infos(infos, model.expected_infos(rows, self.n), "infos of reset")

    def step(self) -> None:
        choose = self.random
        if any(self.must_reset(twin) for twin in self.twins):
            mask = np.array([self.must_reset(twin) for twin in self.twins])
            self.log.append(f"reset of those that are over {mask}")
            self.reset_masked(mask)
            return
        envs = list(range(self.n))
        actions = self.actions(envs)
        acts = [int(act) for act in actions[:, 1]]
        self.log.append(f"step {actions.tolist()}")
        timeout = choose.choice([None, None, None, None, 0.02, 0.3])
        during = choose.random() < 0.08
        # A worker stops at the first of its environments that ends it.
        harmed = [
            t for t in self.twins if acts[t.index] in (*HARMS, HANG) and t.acts(acts[t.index])
        ]
        if timeout is None:
            self.doomed |= {self.worker_of[twin.index] for twin in harmed}
        failing = [t for t in self.twins if acts[t.index] == RAISE and t.acts(RAISE)]
        try:
            self.envs.step_async(actions)
            if during:
                time.sleep(choose.random() * 0.003)
                self.harm(choose.randrange(len(self.pids)), signal.SIGKILL)
            observations, rewards, terminations, truncations, infos = self.envs.step_wait(timeout)
        except TimeoutError:
            assert timeout is not None or (self.timed and not self.restarting)
            self.log.append("timed out")
            self.counts["time-outs"] += 1
            self.dropped(actions, failing)
            return
        except LookupError as error:
            replaced = self.notice()
            gone = {env for worker in replaced for env in self.slices[worker]}
            left = [twin for twin in failing if twin.index not in gone]
            assert left and str(error) == f"step of {left[0].index}", f"{error}"
            assert error.__cause__.env_ids == [twin.index for twin in left]
            self.counts["errors"] += 1
            self.unknown(replaced)
            for twin in self.twins:
                if twin not in left:
                    twin.step(actions[twin.index, 0])
            self.check_doomed()
            return
        replaced = self.notice()
        gone = {env for worker in replaced for env in self.slices[worker]}
        assert all(twin.index in gone for twin in failing), "nothing was raised"
        self.check_doomed()
        rows = [twin.step(actions[twin.index, 0]) for twin in self.twins]
        self.check_step(envs, rows, observations, rewards, terminations, truncations, infos)

    def dropped(self, actions: np.ndarray, failing: list[Twin]) -> None:
        """The answers to a step will be dropped; the environments take it nevertheless."""
        twice = self.late
        self.unknown(self.notice())
        for twin in self.twins:
            if twin not in failing:
                twin.step(actions[twin.index, 0])
        if self.suspects or twice:
            # Whoever dies on the way does not, and what waits for late answers is not sent.
            self.unknown(set(range(len(self.pids))))
        self.late = True
        self.wake()

    def reset_masked(self, mask: np.ndarray) -> None:
        observations, _ = self.envs.reset(options={"reset_mask": mask})
        self.notice()
        self.check_doomed(np.flatnonzero(mask))
        for twin in self.twins:
            if mask[twin.index]:
                twin.reset()
        self.check_latest(observations)

    def call(self) -> None:
        self.log.append("call")
        tag = self.random.random()
        setting = self.random.random() < 0.3
        if self.stopped:
            # A call may take as long as it likes.
            self.envs.call_async("state")
            try:
                self.envs.call_wait(timeout=0.3)
            except TimeoutError:
                pass
            except WorkerDiedError as error:
                # Another one than the stopped.
                self.died(error)
            else:
                self.notice()
                assert not self.stopped, "a stopped worker has answered"
            self.notice()
            self.wake()
            return
        try:
            if setting:
                self.envs.set_attr("tag", tag)
            else:
                result = self.envs.call("state")
        except WorkerDiedError as error:
            self.died(error)
            replaced = self.notice()
            assert replaced
            if setting:
                for twin in self.twins:
                    if self.worker_of[twin.index] not in replaced:
                        twin.tag = tag
            self.check_doomed()
            return
        self.notice()
        self.check_doomed()
        if setting:
            for twin in self.twins:
                twin.tag = tag
            assert self.envs.get_attr("tag") == tuple([twin.tag for twin in self.twins])
            return
        for twin, state in zip(self.twins, result, strict=True):
            if not twin.unknown and twin.index not in self.busy:
                assert state == (twin.pid, twin.episode, twin.steps), f"{twin.index}: {state}"

    # --- batches of those that are ready ---

    def send(self) -> None:
        free = [twin.index for twin in self.twins if twin.index not in self.busy]
        over = [env for env in free if self.must_reset(self.twins[env])]
        rest = [env for env in free if env not in over and self.twins[env].seen is not None]
        fresh = [env for env in free if self.twins[env].seen is None]
        if over or fresh:
            mask = np.zeros(self.n, np.bool_)
            mask[over + fresh] = True
            self.log.append(f"async_reset {over + fresh}")
            self.envs.async_reset(options={"reset_mask": mask})
            self.busy |= dict.fromkeys(over + fresh)
        if rest:
            self.random.shuffle(rest)
            actions = self.actions(rest)
            self.log.append(f"send {rest} {actions.tolist()}")
            self.envs.send(actions, rest)
            self.busy |= {env: action.tolist() for env, action in zip(rest, actions, strict=True)}

    def reset_apart(self) -> None:
        """Reset all; the answers of those that are at work are dropped."""
        self.log.append("async_reset of all")
        for env in self.busy:
            self.twins[env].unknown = True
        self.envs.async_reset()
        self.busy = dict.fromkeys(range(self.n))

    def recv(self) -> None:
        if len(self.busy) < self.options["batch_size"]:
            return
        timeout = self.random.choice([None, None, 0.02])
        try:
            observations, rewards, terminations, truncations, infos = self.envs.recv(timeout)
        except TimeoutError:
            assert timeout is not None or (self.timed and not self.restarting)
            self.counts["time-outs"] += 1
            self.notice()
            self.wake()
            return
        except LookupError as error:
            self.notice()
            self.counts["errors"] += 1
            for env in error.__cause__.env_ids:
                said = self.busy.pop(env)
                assert said is not None and said[1] == RAISE and self.twins[env].acts(RAISE)
            return
        self.notice()
        envs = infos.pop("env_id").tolist()
        assert infos.pop("_env_id").all() and envs == sorted(envs)
        self.log.append(f"received {envs}")
        rows = []
        for env in envs:
            said = self.busy.pop(env)
            twin = self.twins[env]
            if twin.unknown:
                twin.episode = int(self.said(observations, len(rows))[2]) - 1
                twin.unknown = False
            assert said is None or not (said[1] == RAISE and twin.acts(RAISE)), "nothing raised"
            rows.append(twin.reset() if said is None else twin.step(said[0]))
        self.check_step(envs, rows, observations, rewards, terminations, truncations, infos)

    # --- the whole ---

    def play(self, length: int) -> None:
        choose = self.random
        try:
            if not self.partial:
                self.reset(all_of_them=True)
            for _ in range(length):
                faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
                if choose.random() < 0.06:
                    self.harm_now()
                try:
                    self.turn()
                except WorkerDiedError as error:
                    self.notice()
                    self.died(error)
                    raise AssertionError("an error in place of a restart") from error
        except Gone:
            self.counts["deaths raised"] += 1

    def turn(self) -> None:
        choose = self.random
        if self.partial:
            acts = [self.send, self.recv, self.call, self.reset_apart]
            choose.choices(acts, [8, 16, 1, 1])[0]()
        elif any(twin.unknown for twin in self.twins):
            self.doomed.clear()
            try:
                self.reset(all_of_them=True)
            except TimeoutError:
                self.wake()
        else:
            choose.choices([self.step, self.reset, self.call], [8, 1, 1])[0]()

    def close(self) -> None:
        """Close in whatever state it is in; nothing stays."""
        if self.random.random() < 0.2:
            self.harm_now()
        begun = time.monotonic()
        faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
        with contextlib.suppress(LookupError):
            self.envs.close(
                **self.random.choice([{}, {"terminate": True}, {"timeout": 0.5}]),
            )
        faulthandler.cancel_dump_traceback_later()
        assert time.monotonic() - begun < 30, "close took long"
        left = [pid for pid in self.all_pids + self.current_pids() if _alive(pid)]
        assert not left, f"processes {left} are there after close"


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def usage() -> tuple[int, int, int]:
    """Open files, mapped segments and bytes of shared memory files of this process."""
    names = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
    with open("/proc/self/maps") as file:
        maps = sum("pym-" in line for line in file)
    size = 0
    for name in names:
        with contextlib.suppress(OSError):
            size += os.stat(name).st_size if "pym-" in os.readlink(name) else 0
    return len(names), maps, size


def play(seed: int, contexts: tuple[str, ...], length: int = 60) -> Counter[str]:
    """One round, from construction to what is left of it.

    Raises:
        AssertionError: Something was not as the model says; the message has the whole story.
    """
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        game = Round(seed, folder, contexts)
        try:
            try:
                game.play(length)
            finally:
                game.close()
        except BaseException as error:
            faulthandler.cancel_dump_traceback_later()
            game.envs.close(terminate=True)
            story = "\n".join(game.log)
            raise AssertionError(f"{story}\n{traceback.format_exc()}") from error
        return game.counts


def warm_up(contexts: tuple[str, ...]) -> tuple[int, int, int]:
    """Start what start methods keep, and say what is in use then. Turns the collector off."""
    gc.collect()
    gc.disable()
    restarts.WINDOW_SECONDS = 0.0  # As many restarts as there are kills.
    for seed in range(3):
        for context in contexts:
            play(seed, (context,), 3)
    envs = AsyncVectorEnv([lambda: model.Chaotic(0, "box")], on_worker_death="restart")
    os.kill(envs.processes[0].pid, signal.SIGKILL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        envs.reset()
    envs.close()
    del envs
    return usage()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=sys.maxsize)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    contexts = ("fork", "fork", "fork", "spawn", "forkserver")
    before = warm_up(contexts[2:])
    total: Counter[str] = Counter()
    until = time.monotonic() + options.seconds
    rounds = 0
    while time.monotonic() < until and rounds < options.rounds:
        print(f"seed {seed + rounds}", flush=True)
        total += play(seed + rounds, contexts)
        assert usage() == before, f"{usage()} in use, {before} before"
        rounds += 1
    print(f"{rounds} rounds from seed {seed}: {dict(total)}")


if __name__ == "__main__":
    main()
