"""Client tests: programs that people use, against a running server.

By default they start stub_server and tessera from the folder TESSERA_BIN; with TESSERA_URL they talk to a server that is
already there, and tests that need one of their own are skipped. Screenshots go to the folder TESSERA_ARTEFACTS.
"""

import json
import os
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


BIN = pathlib.Path(os.environ.get("TESSERA_BIN", ROOT / "build" / "release" / "bin"))
TINY = ROOT / "models" / "tessera-tiny"


class Stub:
    """A stub server that answers every request with `text`."""

    def __init__(self, text, *flags):
        self.process = subprocess.Popen([BIN / "stub_server", TINY, "--parsers", "--text", text, *flags],
                                        stdout=subprocess.PIPE, text=True)
        for line in self.process.stdout:
            if line.startswith("listening on "):
                self.url = f"http://127.0.0.1:{int(line.split()[-1])}"
                break
        else:
            raise RuntimeError("stub_server did not start")
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key="none", max_retries=0, timeout=60)

    def close(self):
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0


class Tessera:
    """The program itself, serving the shipped model."""

    def __init__(self, log, *flags):
        self.log = log
        with open(log, "w") as errors:
            self.process = subprocess.Popen(
                [BIN / "tessera", "serve", TINY, "--host", "127.0.0.1", "--port", "0", "--max-model-len", "2048",
                 "--kv-cache-memory-bytes", "64MiB", *flags], stderr=errors)
        for _ in range(1200):
            assert self.process.poll() is None, pathlib.Path(log).read_text()
            port = re.search(r"listening on http://127\.0\.0\.1:(\d+),", pathlib.Path(log).read_text())
            if port:
                self.url = f"http://127.0.0.1:{port[1]}"
                try:
                    urllib.request.urlopen(self.url + "/health").close()
                    return
                except urllib.error.URLError:
                    pass
            time.sleep(0.1)
        raise RuntimeError("tessera was not ready after two minutes")

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def close(self):
        self.process.terminate()
        assert self.process.wait(timeout=60) == 0
        assert "[error]" not in pathlib.Path(self.log).read_text()


def metric(server, name):
    text = urllib.request.urlopen(server.url + "/metrics").read().decode()
    return float(re.search(rf"^{re.escape(name)}(?:{{.*}})? (\S+)$", text, re.M)[1])


@pytest.fixture(scope="session")
def drafting(tmp_path_factory):
    """The shipped model with its EAGLE-3 draft, always three tokens ahead."""
    if "TESSERA_URL" in os.environ:
        pytest.skip("starts a server of its own")
    config = {"method": "eagle3", "model": str(ROOT / "models" / "tessera-tiny-eagle3"), "num_speculative_tokens": 3,
              "adaptive": False}
    one = Tessera(tmp_path_factory.mktemp("drafting") / "log", "--speculative-config", json.dumps(config))
    yield one
    one.close()


@pytest.fixture
def stub():
    if "TESSERA_URL" in os.environ:
        pytest.skip("needs a scripted answer")
    running = []

    def start(text, *flags):
        running.append(Stub(text, *flags))
        return running[-1]

    yield start
    for one in running:
        one.close()


@pytest.fixture
def server():
    """(client, model name) of the server under test, scripted or real."""
    url = os.environ.get("TESSERA_URL")
    if url:
        client = openai.OpenAI(base_url=url + "/v1", api_key=os.environ.get("TESSERA_API_KEY", "none"), max_retries=0)
        yield client, client.models.list().data[0].id
        return
    one = Stub("The lantern is on the table.")
    yield one.client, "stub"
    one.close()
