
// The conversation: its messages, what is asked next, and the one answer that may be on its way.

const log = byId("log");
const list = byId("messages");
const composer = byId("composer");
const input = byId("message");

let messages = [];         // {role, …}; an answer also has reasoning, content (pieces), calls, state
let views = [];            // one a message
let running = null;        // {answer, abort} while an answer comes
let serverReady = false;

function save() {
  remember(sessionStorage, "messages", messages);
}

function add(message) {
  const view = new MessageView(message);
  messages.push(message);
  views.push(view);
  list.append(view.root);
  byId("empty").hidden = true;
  return view;
}

function truncate(count) {
  for (const view of views.splice(count)) view.root.remove();
  messages.length = count;
  byId("empty").hidden = count > 0;
}

function history() {
  return [...systemMessages(), ...messages.flatMap((message) => {
    if (message.role !== "assistant") return [message];
    const out = {role: "assistant", content: joined(message.content)};
    if (message.reasoning.length) out.reasoning_content = joined(message.reasoning);
    if (message.calls.length) {
      out.tool_calls = message.calls.map(({id, name, arguments: text}) =>
        ({id, type: "function", function: {name, arguments: text}}));
    }
    // An answer that broke before its first token is nothing to go on from.
    return out.content || out.reasoning_content || out.tool_calls ? [out] : [];
  })];
}

const isAtEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 60;
function follow(change) {
  const stay = isAtEnd();
  change();
  if (stay) log.scrollTop = log.scrollHeight;
}

function takeChunk(answer, view, chunk) {
  if (chunk.usage) {
    answer.tokens = chunk.usage.completion_tokens;
    answer.promptTokens = chunk.usage.prompt_tokens;
    answer.cached = chunk.usage.prompt_tokens_details?.cached_tokens ?? 0;
  }
  const choice = chunk.choices[0];
  if (!choice) return;
  const {delta} = choice;
  if (choice.drafted) answer.drafted += 1;
  if (choice.finish_reason) answer.finish = choice.finish_reason;
  if (delta.reasoning_content || delta.content || delta.tool_calls) {
    answer.lastAt = performance.now();
    answer.firstAt ||= answer.lastAt;
  }
  if (delta.reasoning_content) {
    const piece = {text: delta.reasoning_content, drafted: choice.drafted === true};
    answer.reasoning.push(piece);
    view.addReasoning(piece);
  }
  if ((delta.content || delta.tool_calls) && answer.reasoning.length) {
    answer.thoughtMs ||= answer.lastAt - answer.firstAt;
  }
  if (delta.content) {
    const piece = {text: delta.content, drafted: choice.drafted === true};
    answer.content.push(piece);
    view.addContent(piece);
  }
  for (const part of delta.tool_calls ?? []) {
    const call = answer.calls[part.index] ??= {id: part.id, name: part.function.name, arguments: ""};
    call.arguments += part.function.arguments;
    view.showCall(part.index, call);
  }
}

async function answerNext() {
  if (running) return;
  let fields;
  try {
    fields = requestFields();
  } catch (error) {
    openSide("settings");
    return;
  }
  const body = {
    model: servedModel || undefined, messages: history(), ...fields,
    stream: true, stream_options: {include_usage: true, continuous_usage_stats: true}, report_drafts: true,
  };
  const answer = {
    role: "assistant", reasoning: [], content: [], calls: [], state: "streaming", problem: "",
    tokens: 0, drafted: 0, promptTokens: 0, cached: 0, askedAt: performance.now(), firstAt: 0, lastAt: 0, thoughtMs: 0, finish: "",
  };
  hideActions();
  const view = add(answer);
  running = {answer, abort: new AbortController()};
  busyChanged();
  log.scrollTop = log.scrollHeight;
  try {
    await streamChat(body, apiKey(), running.abort.signal,
                     (chunk) => follow(() => takeChunk(answer, view, chunk)));
    answer.state = "done";
  } catch (error) {
    answer.state = error.name === "AbortError" ? "stopped" : "failed";
    if (answer.state === "failed") answer.problem = error.message;
    if (error.status === 401) {
      openSide("settings");
      settingsForm.key.focus();
    }
  }
  running = null;
  follow(() => {
    view.settle();
    showActions();
  });
  busyChanged();
  save();
}

function stop() {
  running?.abort.abort();
}

function hideActions() {
  const last = views.at(-1);
  if (last?.message.role === "assistant") {
    last.settle();
    last.root.querySelectorAll(".send-results, label.answer").forEach((field) => field.remove());
  }
}

// Of the last answer only: what can be done with it.
function showActions() {
  const view = views.at(-1);
  if (view?.message.role !== "assistant") return;
  const answer = view.message;
  const buttons = [makeButton(answer.state === "failed" ? "Try again" : "Regenerate", regenerate)];
  // Without https browsers offer no clipboard; the text can still be selected.
  if (answer.content.length && navigator.clipboard) {
    buttons.push(makeButton("Copy", (event) => {
      navigator.clipboard.writeText(joined(answer.content)).then(() => { event.target.textContent = "Copied"; }, () => {});
    }));
  }
  view.addActions(buttons);
  if (answer.state === "done" && answer.calls.length) view.askForResults(sendResults);
}

function regenerate() {
  if (running) return;
  truncate(messages.length - 1);
  answerNext();
  input.focus();
}

function sendResults(results) {
  const view = views.at(-1);
  const calls = view.message.calls;
  hideActions();
  results.forEach((content, index) => {
    view.showResult(index, content);
    add({role: "tool", tool_call_id: calls[index].id, content});
  });
  answerNext();
}

function send(text) {
  if (running || !serverReady || !text.trim()) return;
  hideActions();
  add({role: "user", content: text});
  save();
  answerNext();
}

function restoreConversation() {
  for (const message of recall(sessionStorage, "messages", [])) add(message);
  views.forEach((view, at) => {
    view.message.calls?.forEach((call, index) => {
      const result = messages.slice(at + 1).find((other) => other.tool_call_id === call.id);
      if (result) view.showResult(index, result.content);
    });
  });
  showActions();
  log.scrollTop = log.scrollHeight;
}

// Sending, stopping, and what of it is possible now.
function busyChanged() {
  byId("send").hidden = running !== null;
  byId("stop").hidden = running === null;
  byId("send").disabled = !serverReady;
  log.setAttribute("aria-busy", String(running !== null));
}

function fitInput() {
  input.style.height = "auto";
  input.style.height = `${input.scrollHeight + 2}px`;
}

composer.addEventListener("submit", (event) => {
  event.preventDefault();
  if (running || !serverReady || !input.value.trim()) return;
  const text = input.value;
  input.value = "";
  fitInput();
  send(text);
});
input.addEventListener("input", fitInput);
input.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  composer.requestSubmit();
});
byId("stop").addEventListener("click", () => {
  stop();
  input.focus();
});
byId("new-chat").addEventListener("click", () => {
  stop();
  truncate(0);
  save();
  input.focus();
});
for (const opener of byId("empty").querySelectorAll("button")) {
  opener.addEventListener("click", () => send(opener.textContent));
}
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (byId("side").classList.contains("open")) closeSide(); else stop();
});
