"""One vector environment beside its model: what was done to it, and checks of what it returns."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections import Counter
from typing import Any

import chaos_envs as model
import numpy as np
from chaos_envs import EXIT, HANG, HARMS, KILL, NAP, RAISE, SEGV, Twin
from gymnasium.vector import AutoresetMode

from gymvec import AsyncVectorEnv, WorkerDiedError

STEP_TIMEOUT = 3.0
SIGNALS = (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)


class Gone(Exception):
    """The vector environment has ended with the error that it should end with."""


class Board:
    """One vector environment, its model, and the harm that was done to it."""

    def __init__(self, seed: int, folder: str, contexts: tuple[str, ...]) -> None:
        self.random = choose = random.Random(seed)
        self.folder = folder
        self.kind = choose.choice(["box", "mixed"])
        self.mode = choose.choice(list(AutoresetMode))
        self.n = choose.randint(1, 6)
        self.restarting = choose.random() < 0.75
        self.partial = choose.random() < 0.35 and self.n > 1
        self.timed = choose.random() < 0.3
        self.options = {
            "autoreset_mode": self.mode,
            "context": choose.choice(contexts),
            "copy": choose.random() < 0.5,
            "shared_memory": choose.random() < 0.75,
            "num_workers": choose.randint(1, min(self.n, 3)),
            "wait": choose.choice(["auto", "auto", "block", "spin"]),
            "on_worker_death": "restart" if self.restarting else "raise",
            "step_timeout": STEP_TIMEOUT if self.timed else None,
            "batch_size": choose.randint(1, self.n - 1) if self.partial else None,
        }
        self.log = [f"seed {seed}, n {self.n}, kind {self.kind}, {self.options}"]
        self.counts: Counter[str] = Counter()
        kind = self.kind
        fns = [lambda i=i: model.Chaotic(i, kind) for i in range(self.n)]
        self.envs = AsyncVectorEnv(fns, **self.options)
        self.twins = [Twin(i, kind, self.mode) for i in range(self.n)]
        self.all_pids = self.pids = self.current_pids()
        self.slices = [
            range(self.n * w // len(self.pids), self.n * (w + 1) // len(self.pids))
            for w in range(len(self.pids))
        ]
        self.worker_of = [w for w, part in enumerate(self.slices) for _ in part]
        for twin in self.twins:
            twin.pid = self.pids[self.worker_of[twin.index]]
        # Workers that may be dead, and those that must be.
        self.suspects: set[int] = set()
        # Whether the last call timed out.
        self.late = False
        self.doomed: set[int] = set()
        self.stopped: set[int] = set()
        # What was returned without a copy, and what it said then.
        self.kept: list[tuple[Any, Any]] = []
        # Of environments that were sent to: None for a reset, or what the step says.
        self.busy: dict[int, Any] = {}
        self.words = 0

    def current_pids(self) -> list[int]:
        return [process.pid for process in self.envs.processes]

    # --- harm ---

    def harm(self, worker: int, how: int) -> None:
        pid = self.pids[worker]
        self.log.append(f"signal {how} to worker {worker}, {pid}")
        self.counts[f"signal {how}"] += 1
        with contextlib.suppress(ProcessLookupError):  # dead of something else already
            os.kill(pid, how)
        self.suspects.add(worker)

    def harm_now(self) -> None:
        """Harm a worker between calls."""
        worker = self.random.randrange(len(self.pids))
        if worker in self.suspects:
            return
        if self.timed and self.random.random() < 0.4:
            self.harm(worker, signal.SIGSTOP)
            self.stopped.add(worker)
        else:
            self.harm(worker, self.random.choice(SIGNALS))
        self.doomed.add(worker)

    def notice(self) -> set[int]:
        """Take note of the workers that were replaced."""
        now = self.current_pids()
        replaced = {w for w, pid in enumerate(now) if pid != self.pids[w]}
        for worker in replaced:
            allowed = worker in self.suspects or self.timed
            assert self.restarting and allowed, f"worker {worker} was replaced for nothing"
            self.log.append(f"worker {worker} was replaced, {now[worker]}")
            self.counts["restarts"] += 1
            for env in self.slices[worker]:
                self.twins[env].replaced(now[worker])
        self.late = False
        self.suspects -= replaced
        self.doomed -= replaced
        self.stopped -= replaced
        self.all_pids = self.all_pids + [now[w] for w in replaced]
        self.pids = now
        return replaced

    def unknown(self, workers: set[int]) -> None:
        """An answer of new workers was dropped: who was told what?"""
        for worker in workers:
            for env in self.slices[worker]:
                self.twins[env].unknown = True

    def died(self, error: WorkerDiedError) -> None:
        """Check that a death is rightly reported."""
        workers = [w for w, part in enumerate(self.slices) if list(part) == error.env_indices]
        assert len(workers) == 1 and workers[0] in self.suspects, f"{error}"
        if not error.restarted:
            assert not self.restarting, f"{error}"
            raise Gone

    def wake(self) -> None:
        """Let stopped workers go on where nobody replaces them."""
        if self.restarting:
            return
        for worker in self.stopped:
            self.log.append(f"worker {worker} goes on")
            os.kill(self.pids[worker], signal.SIGCONT)
        self.suspects -= self.stopped
        self.doomed -= self.stopped
        self.stopped.clear()

    def must_reset(self, twin: Twin) -> bool:
        return self.mode is AutoresetMode.DISABLED and twin.over

    def said(self, observations: Any, row: int) -> list[float]:
        values = observations if self.kind == "box" else observations["values"]
        return values[row].tolist()

    def actions(self, envs: list[int], acts: bool = True) -> np.ndarray:
        actions = np.zeros((len(envs), 2))
        for row, env in enumerate(envs):
            self.words += 1
            actions[row, 0] = self.words
            if acts and self.random.random() < 0.12:
                harms = [EXIT, KILL, SEGV] + [HANG] * (self.timed and self.restarting)
                act = self.random.choice([RAISE, NAP, self.random.choice(harms)])
                actions[row, 1] = act
                twin = self.twins[env]
                worker = self.worker_of[env]
                if act in (*HARMS, HANG) and twin.acts(act):
                    self.suspects.add(worker)
        return actions

    # --- checks ---

    def check_latest(self, observations: Any) -> None:
        """Check what a reset returns: everyone's latest observation."""
        for twin in self.twins:
            twin.seen = twin.latest
        rows = [model.Row(twin.latest, 0.0, False, False, []) for twin in self.twins]
        self.check_observations(observations, rows, list(range(self.n)))

    def check_step(
        self, envs: list[int], rows: Any, observations: Any, rewards: Any, terminations: Any,
        truncations: Any, infos: Any,
    ) -> None:  # fmt: skip
        for env, row in zip(envs, rows, strict=True):
            self.twins[env].seen = row.observation
        self.check_observations(observations, rows, envs)
        assert rewards.tolist() == [row.reward for row in rows], f"{rewards} {rows}"
        assert terminations.tolist() == [row.terminated for row in rows], f"{terminations} {rows}"
        assert truncations.tolist() == [row.truncated for row in rows], f"{truncations} {rows}"
        expected = model.expected_infos(list(enumerate(rows)), len(rows))
        model.assert_infos(infos, expected, "infos")
        self.counts["rows"] += len(rows)

    def check_observations(self, observations: Any, rows: list[Any], envs: list[int]) -> None:
        model.assert_batch(observations, rows, self.kind, f"observations of {envs}")
        array = observations if self.kind == "box" else observations["values"]
        for before, said in self.kept:
            assert before.tolist() == said, "what was returned before has changed"
        if self.options["copy"] or self.partial:
            array[...] = -1.0  # It is the caller's own.
            self.kept = []
        else:
            self.kept = [(array, array.tolist())]

    def check_doomed(self, envs: Any = None) -> None:
        """Whoever was asked and is dead was found."""
        asked = {self.worker_of[env] for env in (range(self.n) if envs is None else envs)}
        if self.partial:
            # Who dies with a step dies when it comes to it.
            return
        left = self.doomed & asked
        assert not left, f"workers {left} are dead and were not replaced"
