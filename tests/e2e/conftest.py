"""Client tests: the official openai client against a running server.

By default they start build/…/bin/stub_server (named by TESSERA_STUB_SERVER); with TESSERA_URL they talk to a server
that is already there, and tests that need a scripted answer are skipped.
"""

import os
import pathlib
import subprocess

import openai
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Stub:
    """A stub server that answers every request with `text`."""

    def __init__(self, text, *flags):
        binary = os.environ.get("TESSERA_STUB_SERVER", ROOT / "build" / "bin" / "stub_server")
        self.process = subprocess.Popen(
            [binary, ROOT / "models" / "tessera-tiny", "--parsers", "--text", text, *flags],
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
        assert self.process.wait(timeout=30) == 0


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
