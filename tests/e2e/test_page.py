"""The page at "/", driven in headless Chromium as a person would: by keyboard and mouse, reading what is shown.

Nothing waits for a time to pass: each step waits for what it needs to see, for two minutes at most, so that a loaded
machine is slow and not wrong.
"""

import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import urllib.request

import pytest
from playwright.sync_api import expect, sync_playwright

from conftest import Tessera, metric

PATIENCE_MS = 120_000
ANSWER = "The captain stood upon the deck and looked out over the grey water. Nothing moved but the gulls. " * 3
DRAFTS = ("--bundle", "4", "--drafts", "3")
SLOW = ("--delay-us", "400000")  # so that a loaded machine still sees it stream
CALL = ('<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>'
        '{"city": "Oslo"}<|tool_call_end|><|tool_calls_section_end|>')

pytestmark = pytest.mark.skipif("TESSERA_URL" in os.environ, reason="starts servers of its own")
expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def chromium():
    path = shutil.which("chromium")
    assert path, "chromium is missing: tools/install-deps --test installs it"
    with sync_playwright() as playwright:
        # Chromium's own sandbox refuses to run as root; the pages are ours.
        browser = playwright.chromium.launch(executable_path=path, timeout=PATIENCE_MS,
                                             args=["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium):
    """Opens a page; at the end nothing may have gone wrong in it that is not expected."""
    contexts, problems = [], []

    def open_page(url, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 820}, **options})
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("console", lambda line: problems.append(line.text) if "Content Security" in line.text else None)
        page.goto(url)
        expect(page.locator("#state")).to_have_attribute("data-state", "ready")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []


def picture(page, name):
    folder = pathlib.Path(os.environ.get("TESSERA_ARTEFACTS", "build/e2e"))
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png")


def ask(page, text):
    page.locator("#message").fill(text)
    page.keyboard.press("Enter")


def last_answer(page):
    return page.locator(".message.assistant").last


def drafted_pieces(server, question):
    """[text, drafted] of the tokens of an answer, from the API."""
    body = {"messages": [{"role": "user", "content": question}], "stream": True, "report_drafts": True}
    request = urllib.request.Request(server.url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    pieces = []
    for line in urllib.request.urlopen(request):
        if not line.startswith(b"data: {"):
            continue
        choice = json.loads(line[6:])["choices"][0]
        if choice["delta"].get("content"):
            pieces.append((choice["delta"]["content"], choice["drafted"]))
    return pieces


def test_an_answer_streams_and_shows_accepted_drafts(stub, visit):
    server = stub(ANSWER, *DRAFTS, *SLOW)
    page = visit(server.url)
    picture(page, "empty")
    ask(page, "Tell me a story.")
    answer = last_answer(page)
    expect(answer).to_have_attribute("data-state", "streaming")
    expect(answer.locator(".drafted").first).to_be_visible()
    before = answer.locator(".text").inner_text()
    page.wait_for_function("before => document.querySelector('.assistant .text').textContent.length > before",
                           arg=len(before))
    assert answer.get_attribute("data-state") == "streaming", "the text came at once"
    assert ANSWER.startswith(before)
    picture(page, "streaming")
    expect(answer).to_have_attribute("data-state", "done")
    assert answer.locator(".text").text_content() == ANSWER
    pieces = drafted_pieces(server, "Tell me a story.")
    assert "".join(text for text, _ in pieces) == ANSWER
    tinted = [text.lstrip() for text, drafted in pieces if drafted and text.strip()]
    assert answer.locator(".drafted").all_text_contents() == tinted and len(tinted) > 10
    expect(answer.locator(".stats")).to_contain_text("from drafts")
    picture(page, "answered")
    page.locator("#tab-settings").click()
    page.locator("input[name=tint]").uncheck()
    assert answer.locator(".drafted").first.evaluate("tile => getComputedStyle(tile).backgroundColor") == "rgba(0, 0, 0, 0)"


def test_an_answer_that_has_not_begun_says_so(stub, visit):
    page = visit(stub(ANSWER, *SLOW).url)
    page.locator("#message").fill("Tell me a story.")
    shown = page.evaluate("""() => {
      document.getElementById("send").click();
      return document.querySelector(".assistant .awaited")?.textContent;
    }""")  # in one go, before any answer can come
    assert shown == "waiting for the first token"
    expect(last_answer(page).locator(".text")).to_contain_text("The captain")
    assert last_answer(page).locator(".awaited").count() == 0


def test_stop_and_regenerate(stub, visit):
    server = stub(ANSWER, *SLOW)
    page = visit(server.url)
    ask(page, "Tell me a story.")
    answer = last_answer(page)
    expect(answer.locator(".text")).to_contain_text("The captain")
    page.keyboard.press("Escape")
    expect(answer).to_have_attribute("data-state", "stopped")
    assert ANSWER.startswith(answer.locator(".text").text_content())
    assert answer.locator(".text").text_content() != ANSWER
    page.wait_for_function("() => fetch('metrics').then(r => r.text()).then(t => /requests_aborted_total{.*} 1$/m.test(t))")
    answer.get_by_role("button", name="Regenerate").click()
    expect(page.locator("#stop")).to_be_visible()
    page.locator("#stop").click()
    expect(last_answer(page)).to_have_attribute("data-state", "stopped")
    assert page.locator(".message.assistant").count() == 1


def test_survives_a_restart_of_the_server(stub, visit):
    server = stub(ANSWER, *SLOW)
    page = visit(server.url)
    ask(page, "Tell me a story.")
    answer = last_answer(page)
    expect(answer.locator(".text")).to_contain_text("The captain")
    server.process.kill()
    server.process.wait()
    server.close = lambda: None  # it did not end in order, and should not have
    expect(answer).to_have_attribute("data-state", "failed")
    expect(answer.get_by_role("alert")).to_contain_text("before the answer was complete")
    expect(page.locator("#state")).to_have_attribute("data-state", "unreachable")
    expect(page.locator("#send")).to_be_disabled()
    page.locator("#message").fill("written while it was away")
    picture(page, "unreachable")

    stub(ANSWER, "--port", server.url.rsplit(":", 1)[1])
    expect(page.locator("#state")).to_have_attribute("data-state", "ready")
    assert page.locator("#message").input_value() == "written while it was away"
    answer.get_by_role("button", name="Try again").click()
    expect(last_answer(page)).to_have_attribute("data-state", "done")
    assert last_answer(page).locator(".text").text_content() == ANSWER
    page.reload()  # what was said is still there after a reload
    expect(last_answer(page).locator(".text")).to_have_text(ANSWER)


def test_text_is_text_whoever_wrote_it(stub, visit):
    markup = '<img src=x onerror="document.title=1"><script>document.title=1</script><b>bold</b>'
    page = visit(stub(markup, "--bundle", "5", "--drafts", "2").url)
    ask(page, markup)
    expect(last_answer(page)).to_have_attribute("data-state", "done")
    assert last_answer(page).locator(".text").text_content() == markup
    assert page.locator(".message.user .text").text_content() == markup
    assert page.locator("#messages").locator("img, script, b").count() == 0
    assert page.title() == "stub · Tessera"


def test_thoughts_and_calls_are_shown_apart(stub, visit):
    page = visit(stub("<think>The user wants weather.</think>Let me look." + CALL).url)
    page.locator("#tab-settings").click()
    page.locator("textarea[name=tools]").fill("[{]")
    expect(page.locator("#tools-problem")).to_contain_text("not JSON")
    page.locator("textarea[name=tools]").fill(
        '[{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}]')
    ask(page, "Weather in Oslo?")
    answer = last_answer(page)
    expect(answer).to_have_attribute("data-state", "done")
    assert answer.locator(".thought .text").text_content() == "The user wants weather."
    assert answer.locator(":scope > .text").text_content() == "Let me look."
    assert json.loads(answer.locator(".call pre").text_content()) == {"city": "Oslo"}
    picture(page, "tool-call")
    sent = []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    answer.locator(".call input").fill("rain")
    answer.get_by_role("button", name="Send results").click()
    expect(page.locator(".message.assistant")).to_have_count(2)
    expect(last_answer(page)).to_have_attribute("data-state", "done")
    assistant, result = json.loads(sent[0].post_data)["messages"][-2:]
    assert assistant["tool_calls"][0]["function"] == {"name": "get_weather", "arguments": '{"city": "Oslo"}'}
    assert result == {"role": "tool", "tool_call_id": "functions.get_weather:0", "content": "rain"}


def test_settings_reach_the_request_and_refusals_reach_the_reader(stub, visit):
    page = visit(stub("Hello.", "--api-key", "sesame").url)
    ask(page, "Hi")
    expect(last_answer(page).get_by_role("alert")).to_contain_text("API key")
    page.keyboard.type("sesame")  # the field has the focus now
    page.locator("input[name=temperature]").fill("0.5")
    page.locator("textarea[name=stop]").fill("one\ntwo")
    page.locator("textarea[name=system]").fill("Be brief.")
    with page.expect_request("**/v1/chat/completions") as sent:
        last_answer(page).get_by_role("button", name="Try again").click()
    expect(last_answer(page)).to_have_attribute("data-state", "done")
    body = json.loads(sent.value.post_data)
    assert (body["temperature"], body["stop"], body["report_drafts"]) == (0.5, ["one", "two"], True)
    assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert "top_p" not in body
    page.locator("input[name=temperature]").fill("-1")
    last_answer(page).get_by_role("button", name="Regenerate").click()
    expect(last_answer(page).get_by_role("alert")).to_contain_text("temperature")


def test_a_phone_in_the_dark_by_keyboard_alone(stub, visit):
    page = visit(stub(ANSWER, *DRAFTS).url, viewport={"width": 360, "height": 720}, color_scheme="dark")
    page.keyboard.type("Hello")  # the message field has the focus from the start
    page.keyboard.press("Enter")
    expect(last_answer(page)).to_have_attribute("data-state", "done")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(25, 24, 22)"
    picture(page, "phone-dark")
    for _ in range(12):
        page.keyboard.press("Shift+Tab")
        if page.evaluate("document.activeElement.id") == "open-side":
            break
    page.keyboard.press("Enter")
    expect(page.locator("#live")).to_be_visible()
    picture(page, "phone-live")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#settings")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#side")).to_be_hidden()


def test_the_policy_names_what_runs_and_nothing_else_does(stub, visit):
    server = stub("x")
    answer = urllib.request.urlopen(server.url + "/")
    policy, document = answer.headers["Content-Security-Policy"], answer.read().decode()
    for tag in ("style", "script"):
        [inside] = re.findall(rf"<{tag}[^>]*>(.*?)</{tag}>", document, re.S)
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}';" in policy
    page = visit(server.url)
    refused = page.evaluate("""() => {
      const box = document.createElement("div");
      try { box.innerHTML = "<b>x</b>"; } catch (error) { return error.name; }
    }""")
    assert refused == "TypeError"


def test_the_shipped_model_with_its_draft(drafting, visit):
    page = visit(drafting.url)
    page.locator("#tab-settings").click()
    page.locator("input[name=temperature]").fill("0")
    page.locator("input[name=max_tokens]").fill("96")
    page.locator("#tab-live").click()
    ask(page, "Tell me a story about a ship at sea.")
    answer = last_answer(page)
    expect(answer.locator(".drafted").first).to_be_visible()
    expect(answer).to_have_attribute("data-state", "done")
    # The panels come to say what the server counted.
    expect(page.locator("#speculation-note")).to_contain_text("accepted a drafting step")
    assert page.locator("#acceptance .bar").count() == 3
    first = float(page.locator("#acceptance .value").first.text_content().split()[0])
    assert 0 < first <= 100
    expect(page.locator("#throughput-note")).to_contain_text("peak of")
    expect(page.locator("#step-note")).to_contain_text("model")
    expect(page.locator("#prefix-note")).to_contain_text("prompt tokens")
    expect(page.locator("#kv-note")).to_contain_text("tokens in blocks of 64")
    assert metric(drafting, "vllm:spec_decode_num_accepted_tokens_total") > 0
    picture(page, "drafts")


@pytest.fixture
def four_ranks(tmp_path):
    one = Tessera(tmp_path / "log", "--tensor-parallel-size", "4", "--decode-context-parallel-size", "4", "--dcp-mode", "always")
    yield one
    one.close()


def test_every_rank_has_a_bar_of_its_cache(four_ranks, visit):
    page = visit(four_ranks.url)
    ask(page, "Tell me a story about a ship at sea.")
    expect(last_answer(page)).to_have_attribute("data-state", "done")
    expect(page.locator("#kv .name")).to_have_text([f"rank {rank}" for rank in range(4)])
    expect(page.locator("#kv-note")).to_contain_text("tokens in blocks of 64")
    picture(page, "ranks")
