#!/usr/bin/env python3
"""Makes fork.bundle: a small engine ("nanoserve") and the patched tree of it that somebody really runs.

    make_fork.py fork.bundle

Branches in the bundle: `main` (upstream; tag v1 is what the fork was made from, one commit later upstream changed the scheduler) and
`running` (the tree that runs, in one commit, as one finds it: nobody kept the patches apart). Everything is deterministic: running it
again gives the same commits. The changes have the shape of a real fork: see CHANGES below.
"""
import os
import subprocess
import sys
import tempfile

BASE = {}
BASE["README.md"] = "# nanoserve\n\nA toy engine.\n"
BASE["docs/design.md"] = "# Design\n\nOne process, one model.\n"
BASE["setup.py"] = "from setuptools import setup\n\nsetup(name='nanoserve', version='1.0', packages=['engine'])\n"
BASE["engine/__init__.py"] = '"""A toy engine."""\n'
BASE["engine/attention.py"] = '''"""Decode attention over a latent cache."""
from engine import envs


class MLADecode:
    """Attention of one step; the cache may be sharded over the ranks of a context group."""

    def __init__(self, heads, latent, group):
        self.heads = heads
        self.latent = latent
        self.group = group

    def check(self, cache_dtype):
        if cache_dtype == "fp8" and self.group.size > 1:
            raise NotImplementedError("FP8 cache under context parallelism")
        return cache_dtype

    def splits(self, batch, length):
        """How many pieces each sequence's attention is cut into."""
        if batch >= 64:
            return 1
        return max(1, length // 4096)

    def forward(self, query, cache, lengths):
        gathered = self.group.all_gather(query)
        partial, lse = self.partial(gathered, cache, lengths)
        return self.group.merge(partial, lse)

    def partial(self, query, cache, lengths):
        scale = self.latent ** -0.5
        return cache.attend(query, lengths, scale)
'''
BASE["engine/proposer.py"] = '''"""Proposes draft tokens with a small model."""


class Proposer:
    def __init__(self, draft, depth):
        self.draft = draft
        self.depth = depth
        self.positions = [0] * 1024

    def propose(self, batch):
        for row, sequence in enumerate(batch):
            self.positions[row] = sequence.length
        tokens = []
        for _ in range(self.depth):
            tokens.append(self.draft.step(batch, self.positions))
        return tokens

    def wanted(self, batch):
        """Whether to speculate in this step at all."""
        return self.depth > 0 and len(batch) > 0
'''
BASE["engine/config.py"] = '''"""Settings of one engine."""
from dataclasses import dataclass


@dataclass
class DraftConfig:
    model: str = ""
    depth: int = 3


@dataclass
class EngineConfig:
    model: str
    draft: DraftConfig
    cache_dtype: str = "auto"
'''
BASE["engine/cli.py"] = '''"""Command line."""
import argparse

from engine.config import DraftConfig, EngineConfig


def parse(arguments):
    parser = argparse.ArgumentParser("nanoserve")
    parser.add_argument("model")
    parser.add_argument("--cache-dtype", default="auto")
    parser.add_argument("--draft-model", default="")
    parser.add_argument("--draft-depth", type=int, default=3)
    flags = parser.parse_args(arguments)
    draft = DraftConfig(model=flags.draft_model, depth=flags.draft_depth)
    return EngineConfig(model=flags.model, draft=draft, cache_dtype=flags.cache_dtype)
'''
BASE["engine/parallel.py"] = '''"""Collectives over the ranks of one group."""


class Group:
    def __init__(self, size, rank):
        self.size = size
        self.rank = rank

    def all_gather(self, rows):
        return [rows for _ in range(self.size)]

    def merge(self, partial, lse):
        return max(zip(lse, partial))[1]
'''
BASE["engine/sampler.py"] = '''"""Greedy sampling."""


def greedy(logits, group):
    """The best token of a vocabulary that is sharded over the group."""
    whole = [value for shard in group.all_gather(logits) for value in shard]
    return whole.index(max(whole))
'''
BASE["engine/runner.py"] = '''"""Runs one step."""


class Runner:
    def __init__(self, model, proposer):
        self.model = model
        self.proposer = proposer

    def step(self, batch):
        lengths = self.model.device_lengths(batch).cpu()
        hidden = self.model.forward(batch, lengths)
        drafts = self.proposer.propose(batch)
        return hidden, drafts
'''
BASE["engine/scheduler.py"] = '''"""Chooses what runs next."""


def choose(waiting, budget):
    chosen = []
    for sequence in waiting:
        if sequence.length > budget:
            break
        chosen.append(sequence)
        budget -= sequence.length
    return chosen
'''
BASE["engine/envs.py"] = '''"""Environment variables."""
import os

LOG_LEVEL = os.environ.get("NANO_LOG_LEVEL", "info")
'''
BASE["tests/test_sampler.py"] = '''from engine.parallel import Group
from engine.sampler import greedy


def test_greedy_takes_the_first_of_equals():
    assert greedy([1.0, 3.0, 3.0], Group(1, 0)) == 1
'''


def replace(files, path, old, new):
    assert files[path].count(old) == 1, (path, old)
    files[path] = files[path].replace(old, new)


def upstream_later(files):
    """What upstream did after v1: a long sequence no longer blocks the ones behind it."""
    replace(files, "engine/scheduler.py", "            break\n", "            continue\n")


def running(files):
    """CHANGES, one paragraph a topic; the tree that runs has all of them at once."""
    # 1 fp8-dcp (upstream): FP8 cache under context parallelism, two places of one file
    replace(files, "engine/attention.py",
            '        if cache_dtype == "fp8" and self.group.size > 1:\n'
            '            raise NotImplementedError("FP8 cache under context parallelism")\n', "")
    replace(files, "engine/attention.py",
            "        gathered = self.group.all_gather(query)\n",
            "        # Every rank quantises with its own scale, so the scale travels with the query.\n"
            "        gathered = self.group.all_gather(query.scaled())\n")
    # 2 proposer-fix (upstream): the buffer was rewritten while the device still read it
    replace(files, "engine/proposer.py",
            "        self.positions = [0] * 1024\n",
            "        self.buffers = ([0] * 1024, [0] * 1024)\n        self.turn = 0\n")
    replace(files, "engine/proposer.py",
            "        for row, sequence in enumerate(batch):\n            self.positions[row] = sequence.length\n",
            "        self.turn ^= 1\n        positions = self.buffers[self.turn]\n"
            "        for row, sequence in enumerate(batch):\n            positions[row] = sequence.length\n")
    replace(files, "engine/proposer.py", "self.draft.step(batch, self.positions)", "self.draft.step(batch, positions)")
    # 3 draft-options (upstream): the draft's own backend and cache type, in two files
    replace(files, "engine/config.py", "    depth: int = 3\n",
            '    depth: int = 3\n    attention_backend: str = "auto"\n    cache_dtype: str = "auto"\n')
    replace(files, "engine/cli.py", '    parser.add_argument("--draft-depth", type=int, default=3)\n',
            '    parser.add_argument("--draft-depth", type=int, default=3)\n'
            '    parser.add_argument("--draft-attention-backend", default="auto")\n'
            '    parser.add_argument("--draft-cache-dtype", default="auto")\n')
    replace(files, "engine/cli.py", "depth=flags.draft_depth)\n",
            "depth=flags.draft_depth,\n                        attention_backend=flags.draft_attention_backend,\n"
            "                        cache_dtype=flags.draft_cache_dtype)\n")
    # 4 local-argmax (upstream): each rank takes the best of its shard, pairs are exchanged instead of logits
    replace(files, "engine/parallel.py", "    def merge(self, partial, lse):\n",
            "    def best_pair(self, value, index):\n"
            '        """The largest value of all ranks and its index; ties go to the lowest index."""\n'
            "        return max(self.all_gather((value, -index)))\n\n    def merge(self, partial, lse):\n")
    replace(files, "engine/sampler.py",
            "    whole = [value for shard in group.all_gather(logits) for value in shard]\n    return whole.index(max(whole))\n",
            "    best = max(logits)\n    _, index = group.best_pair(best, logits.index(best) + group.rank * len(logits))\n"
            "    return -index\n")
    files["tests/test_argmax.py"] = ("from engine.parallel import Group\n\n\ndef test_ties_go_to_the_lowest_index():\n"
                                     "    assert Group(2, 0).best_pair(1.0, 7) == (1.0, -7)\n")
    # 5 cpu-lengths (upstream) mixed line by line with timers (to be dropped)
    replace(files, "engine/runner.py", '"""Runs one step."""\n', '"""Runs one step."""\nfrom engine._timing import _t_enter, _t_exit\n')
    replace(files, "engine/runner.py",
            "        lengths = self.model.device_lengths(batch).cpu()\n        hidden = self.model.forward(batch, lengths)\n",
            "        _t_enter(\"lengths\")\n        lengths = [sequence.length for sequence in batch]\n        _t_exit(\"lengths\")\n"
            "        _t_enter(\"forward\")\n        hidden = self.model.forward(batch, lengths)\n        _t_exit(\"forward\")\n")
    files["engine/_timing.py"] = ("import time\n\n_started = {}\n\n\ndef _t_enter(name):\n    _started[name] = time.time()\n\n\n"
                                  "def _t_exit(name):\n    print(name, time.time() - _started[name])\n")
    # 6 long-context-gate (local): off for long contexts on these boxes
    replace(files, "engine/proposer.py", "        return self.depth > 0 and len(batch) > 0\n",
            "        if any(sequence.length > envs.DRAFT_MAX_LENGTH for sequence in batch):\n            return False\n"
            "        return self.depth > 0 and len(batch) > 0\n")
    replace(files, "engine/proposer.py", '"""Proposes draft tokens with a small model."""\n',
            '"""Proposes draft tokens with a small model."""\nfrom engine import envs\n')
    files["engine/envs.py"] += 'DRAFT_MAX_LENGTH = int(os.environ.get("NANO_DRAFT_MAX_LENGTH", "65536"))\n'
    # 7 split-table (local): measured on one box
    files["engine/tuning/rtx6000.json"] = '{\n  "1": 32,\n  "8": 16,\n  "64": 2\n}\n'
    replace(files, "engine/attention.py", "        if batch >= 64:\n            return 1\n",
            "        if envs.SPLIT_TABLE:\n            return envs.SPLIT_TABLE.get(str(batch), 1)\n        if batch >= 64:\n            return 1\n")
    replace(files, "engine/envs.py", "import os\n", "import json\nimport os\n")
    files["engine/envs.py"] += ('_TABLE = os.environ.get("NANO_SPLIT_TABLE", "")\n'
                                "SPLIT_TABLE = json.load(open(_TABLE)) if _TABLE else {}\n")
    # 8 launch (local)
    files["run-kimi.sh"] = ("#!/bin/sh\nexport NANO_SPLIT_TABLE=/opt/nanoserve/engine/tuning/rtx6000.json\n"
                            "exec python3 -m engine.cli /models/kimi \"$@\"\n")
    # dropped: somebody's backup
    files["engine/attention.py.bak"] = BASE["engine/attention.py"]
    # a return to upstream: what main has by now
    upstream_later(files)


def main():
    bundle = os.path.abspath(sys.argv[1])
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null",
                   "GIT_AUTHOR_NAME": "Nano Upstream", "GIT_AUTHOR_EMAIL": "nano@example.org", "GIT_COMMITTER_NAME": "Nano Upstream",
                   "GIT_COMMITTER_EMAIL": "nano@example.org"}
    with tempfile.TemporaryDirectory() as folder:
        def git(*arguments, day=1):
            date = f"2026-03-{day:02}T12:00:00Z"
            subprocess.run(["git", *arguments], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                           env={**environment, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date})

        def commit(files, message, day):
            for name in subprocess.run(["git", "ls-files", "-z"], cwd=folder, check=True, capture_output=True).stdout.decode().split("\0"):
                if name:
                    os.remove(os.path.join(folder, name))
            for name, text in files.items():
                path = os.path.join(folder, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
                os.chmod(path, 0o755 if name.endswith(".sh") else 0o644)
            git("add", "-A")
            git("commit", "-q", "-m", message, day=day)

        git("init", "-q", "-b", "main")
        commit(BASE, "nanoserve 1.0", 1)
        git("tag", "v1")
        later = dict(BASE)
        upstream_later(later)
        commit(later, "A long sequence no longer blocks those behind it", 9)
        git("checkout", "-q", "-b", "running", "v1")
        tree = dict(BASE)
        running(tree)
        commit(tree, "what runs", 20)
        git("bundle", "create", "-q", bundle, "main", "running", "v1")


if __name__ == "__main__":
    main()
