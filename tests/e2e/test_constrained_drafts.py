"""Grammars with drafts on, through the API: what was guessed may never show in an answer, nor in the log.

vllm#55313: a schema with speculation ended in 250,000 blanks. vllm#53777: rejected drafts of DFlash under json_object were
logged as errors. The fixture's end asserts that the log holds no error.
"""

import concurrent.futures
import json
import os
import re

import pytest

from conftest import ROOT, Tessera, metric

DRAFTS = {"eagle3": ("tessera-tiny-eagle3", 3), "dflash": ("tessera-tiny-dflash", 5)}
ITEM = {"type": "object", "additionalProperties": False, "required": ["id", "ready", "kind"],
        "properties": {"id": {"type": "integer"}, "ready": {"type": "boolean"}, "kind": {"enum": ["sail", "oar"]}}}
SCHEMA = {"type": "array", "minItems": 12, "maxItems": 12, "items": ITEM}


pytestmark = pytest.mark.skipif("TESSERA_URL" in os.environ, reason="starts servers of its own")


@pytest.fixture(scope="module", params=DRAFTS)
def drafted(request, tmp_path_factory):
    model, tokens = DRAFTS[request.param]
    config = {"model": str(ROOT / "models" / model), "num_speculative_tokens": tokens, "adaptive": False}
    one = Tessera(tmp_path_factory.mktemp(request.param) / "log", "--speculative-config", json.dumps(config))
    yield one
    one.close()  # asserts that the log holds no error


def answers_of(server, response_format, runs=24):
    """(text, finish reason) of `runs` answers, eight at a time, each with a seed of its own."""
    def ask(seed):
        body = {"messages": [{"role": "user", "content": "List the boats of the harbour as JSON."}], "temperature": 1, "seed": seed,
                "max_tokens": 500, "response_format": response_format}
        choice = server.post("/v1/chat/completions", body)["choices"][0]
        return choice["message"]["content"], choice["finish_reason"]

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        return list(pool.map(ask, range(runs)))


def assert_drafts_were_verified(server):
    count = {name: metric(server, f"vllm:spec_decode_num_{name}_tokens_total") for name in ("draft", "accepted")}
    assert 0 < count["accepted"] <= count["draft"]


def is_item(item):
    return (isinstance(item, dict) and set(item) == {"id", "ready", "kind"} and type(item["id"]) is int
            and isinstance(item["ready"], bool) and item["kind"] in ("sail", "oar"))


def test_every_finished_answer_follows_its_schema(drafted):
    answers = answers_of(drafted, {"type": "json_schema", "json_schema": {"name": "boats", "schema": SCHEMA, "strict": True}})
    finished = [json.loads(text) for text, finish in answers if finish == "stop"]
    assert finished, answers
    assert all(len(boats) == 12 and all(map(is_item, boats)) for boats in finished)
    assert [text for text, _ in answers if re.search(r"\s{21}", text)] == []
    assert_drafts_were_verified(drafted)


def test_every_finished_answer_is_an_object(drafted):
    answers = answers_of(drafted, {"type": "json_object"})
    assert {finish for _, finish in answers} <= {"stop", "length"}
    assert [text for text, finish in answers if finish == "stop" and not isinstance(json.loads(text), dict)] == []
    # A cut answer is the beginning of one: its first sign is the brace.
    assert [text for text, _ in answers if not text.lstrip().startswith("{") or re.search(r"\s{21}", text)] == []
    assert_drafts_were_verified(drafted)
