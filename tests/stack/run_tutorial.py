#!/usr/bin/env python3
"""Runs the commands of docs/tutorial/split-a-stack.md in an empty folder and checks what they leave behind.

    run_tutorial.py CHECKOUT FOLDER_OF_TESSERA_STACK
"""
import os
import re
import subprocess
import sys
import tempfile

UPSTREAM = ["fp8-dcp", "proposer-fix", "draft-options", "local-argmax", "cpu-lengths"]
LOCAL = ["long-context-gate", "split-table", "launch"]


def main():
    checkout, binaries = (os.path.abspath(path) for path in sys.argv[1:3])
    with open(os.path.join(checkout, "docs/tutorial/split-a-stack.md"), encoding="utf-8") as page:
        blocks = re.findall(r"^```sh\n(.*?)^```$", page.read(), flags=re.S | re.M)
    assert len(blocks) >= 7, len(blocks)
    environment = {"PATH": binaries + ":" + os.environ["PATH"], "TESSERA": checkout, "HOME": "/nonexistent", "LC_ALL": "C.UTF-8",
                   "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_PAGER": "cat"}
    with tempfile.TemporaryDirectory() as folder:
        def shell(script):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != 0:
                sys.exit(f"status {done.returncode} of\n{script}\n{done.stdout}")
            return done.stdout

        def git(arguments):
            return shell("git -C nanoserve " + arguments).strip()

        output = [shell(block) for block in blocks]

        # The image's tree, read by another program than the one under test.
        shell(f"git clone -q --bare {checkout}/tests/stack/fork.bundle judge.git && git -C nanoserve fetch -q ../judge.git running:judge")
        branches = git("for-each-ref --format='%(refname:lstrip=4)' refs/heads/tessera/nano").split()
        assert sorted(branches) == sorted(UPSTREAM + LOCAL + ["integration"]), branches
        # Integration equals what runs, but for what the plan drops and what the image does not install.
        left = git("diff --name-only tessera/nano/integration judge").split()
        assert left == ["engine/_timing.py", "engine/attention.py.bak", "engine/runner.py", "engine/scheduler.py"], left
        assert git("diff --name-only v1 tessera/nano/fp8-dcp").split() == ["engine/attention.py"]
        runner = git("show tessera/nano/cpu-lengths:engine/runner.py")
        assert "_t_" not in runner and "_timing" not in runner and "[sequence.length for sequence in batch]" in runner, runner
        whole = git("show judge:engine/runner.py").splitlines()
        assert [line for line in whole if "_t_" not in line] == runner.splitlines()
        # The mails rebuild the integration without us.
        shell("git -C nanoserve worktree add -q --detach ../am v1 && cd am && git am -q ../mails/*.patch")
        assert shell("git -C am rev-parse HEAD^{tree}").strip() == git("rev-parse tessera/nano/integration^{tree}")
        shell("git -C nanoserve bundle verify -q ../nano.bundle")
        # Each topic stands on its own.
        for branch in UPSTREAM:
            shell(f"git -C am checkout -q --detach tessera/nano/{branch} && python3 -m compileall -q am/engine && git -C am clean -qfdx")
        with open(os.path.join(folder, "stack.md"), encoding="utf-8") as report:
            text = report.read()
        for word in ["parity: ", "0 unassigned of", "COPY patches/", "Ship the split table", "timers", *UPSTREAM, *LOCAL]:
            assert word in text, word
        with open(os.path.join(folder, "stack.html"), encoding="utf-8") as report:
            page = report.read()
        assert "<svg" in page and "<script" not in page
        assert sorted(os.listdir(os.path.join(folder, "pr"))) == sorted(name + ".md" for name in UPSTREAM)
        assert "engine/scheduler.py" in output[-1], output[-1]
        print("".join(output))


if __name__ == "__main__":
    main()
