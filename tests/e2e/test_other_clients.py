"""Programs that people point at a server as they are: llm's command line, curl, Prometheus's promtool."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BIN, ROOT


def run(command, **options):
    path = shutil.which(command[0])
    assert path, f"{command[0]} is missing: tools/install-deps --test installs it"
    return subprocess.run([path, *command[1:]], capture_output=True, text=True, timeout=300, **options)


@pytest.fixture
def address(server):
    client, model = server
    return str(client.base_url).removesuffix("/v1/"), model


@pytest.fixture
def llm(address, tmp_path):
    """llm's command line with the server as its model "here", and nothing of the user's own settings."""
    url, model = address
    # One model that may stream, one that is asked for whole answers.
    (tmp_path / "extra-openai-models.yaml").write_text("".join(
        f"- model_id: {name}\n  model_name: {model}\n  api_base: {url}/v1\n  can_stream: {streams}\n"
        "  supports_schema: true\n"
        for name, streams in (("here", "true"), ("here-whole", "false"))))

    def ask(*arguments, stdin=""):
        program = pathlib.Path(sys.executable).with_name("llm")
        out = run([str(program), *arguments], input=stdin,
                  env={**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "none"})
        assert out.returncode == 0, out.stderr
        return out.stdout

    return ask


def test_llm_prompts_streams_and_goes_on(llm):
    asked = ["-m", "here", "-o", "temperature", "0", "-o", "max_tokens", "24", "Hello!"]
    streamed = llm(*asked)
    asked[1] = "here-whole"
    assert streamed.strip() and streamed == llm(*asked)
    assert llm("-c", "And then?", "-o", "max_tokens", "8").strip()  # with the history that llm kept
    logged = json.loads(llm("logs", "--json", "-n", "1"))[0]
    assert logged["prompt"] == "And then?" and logged["output_tokens"] > 0


def test_llm_reads_a_schema(llm):
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": False}
    answer = json.loads(llm("-m", "here", "-o", "max_tokens", "400", "--schema", json.dumps(schema), "Is it?"))
    assert isinstance(answer["ok"], bool)


def test_curl_streams_until_done(address):
    url, model = address
    body = json.dumps({"model": model, "stream": True, "max_tokens": 8, "messages": [{"role": "user", "content": "Hi"}]})
    out = run(["curl", "-sSN", "--fail-with-body", "-H", "Content-Type: application/json", "-d", body,
               url + "/v1/chat/completions"])
    assert out.returncode == 0, out.stdout
    events = [line for line in out.stdout.splitlines() if line]
    assert events[-1] == "data: [DONE]"
    assert all(json.loads(line[6:])["object"] == "chat.completion.chunk" for line in events[:-1])


def test_curl_learns_of_errors_by_the_status(address):
    url, _ = address
    out = run(["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code} %{content_type}", "-d", "{", url + "/v1/chat/completions"])
    assert out.stdout == "400 application/json"
    out = run(["curl", "-sSI", url + "/"])
    assert out.stdout.startswith("HTTP/1.1 200") and "Content-Security-Policy: default-src 'none'" in out.stdout


# What promtool would have named otherwise. vLLM's names are kept for the sake of dashboards, and ours look like them.
NAMES_KEPT = re.compile(r"(vllm|tessera):\w+ metric names should not contain ':'"
                        r"|vllm:iteration_tokens_total non-counter metrics should not have \"_total\" suffix")


def test_promtool_reads_the_metrics(address):
    url, model = address
    for body in ({"prompt": "x", "max_tokens": 4}, {"prompt": "x", "max_tokens": 4, "temperature": -1}):
        run(["curl", "-sS", "-d", json.dumps({"model": model, **body}), url + "/v1/completions"])
    metrics = run(["curl", "-sS", url + "/metrics"]).stdout
    out = run(["promtool", "check", "metrics"], input=metrics)
    assert "error while linting" not in out.stderr, out.stderr  # it could not be parsed
    assert [line for line in out.stderr.splitlines() if not NAMES_KEPT.fullmatch(line)] == []


def test_the_alerts_are_rules_over_metrics_that_are_served(stub):
    url = stub("x", "--bundle", "2", "--drafts", "1").url
    rules = ROOT / "docs" / "how-to" / "alerts.yml"
    out = run(["promtool", "check", "rules", str(rules)])
    assert out.returncode == 0, out.stderr
    served = run(["curl", "-sS", url + "/metrics"]).stdout
    named = set(re.findall(r"(?:vllm|tessera):\w+", rules.read_text()))
    assert len(named) > 5
    assert [name for name in named if not re.search(rf"^{name}{{", served, re.M)] == []
