
// One message on the page. An answer's text is a list of pieces {text, drafted}, one a token where it matters.

function appendPiece(box, piece) {
  // The blank before a word stays untinted: tiles have gaps, and none sticks out at the end of a line.
  const blank = /^\s*/.exec(piece.text)[0];
  const plain = piece.drafted ? blank : piece.text;
  if (box.lastChild?.nodeType === Node.TEXT_NODE) {
    box.lastChild.appendData(plain);
  } else if (plain) {
    box.append(plain);
  }
  if (piece.drafted && blank !== piece.text) box.append(make("span", "drafted", piece.text.slice(blank.length)));
}

const joined = (pieces) => pieces.map((piece) => piece.text).join("");

// Arguments as they come; indented once they are whole.
function readable(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

const rounded = (value) => value >= 100 ? value.toFixed(0) : value.toPrecision(3);
const duration = (ms) => ms < 1000 ? `${ms.toFixed(0)} ms` : `${rounded(ms / 1000)} s`;

function statsText(answer) {
  const parts = [];
  if (answer.tokens) parts.push(`${answer.tokens} tokens`);
  const seconds = (answer.lastAt - answer.firstAt) / 1000;
  if (answer.tokens > 1 && seconds > 0) parts.push(`${rounded((answer.tokens - 1) / seconds)} a second`);
  if (answer.firstAt) parts.push(`first after ${duration(answer.firstAt - answer.askedAt)}`);
  if (answer.drafted) parts.push(`${answer.drafted} from drafts (${Math.round(100 * answer.drafted / answer.tokens)} %)`);
  if (answer.cached) parts.push(`${answer.cached} of ${answer.promptTokens} prompt tokens cached`);
  if (answer.finish === "length") parts.push("ended at the token limit");
  if (answer.state === "stopped") parts.push("stopped");
  return parts.join(" · ");
}

class MessageView {
  constructor(message) {
    this.message = message;
    this.root = make("article", `message ${message.role}`);
    if (message.role === "user") {
      this.root.append(make("p", "unseen", "You"), make("div", "text", message.content));
    } else if (message.role === "assistant") {
      this.drawAnswer();
    } else {
      this.root.hidden = true;  // tool results are shown with their calls
    }
  }

  drawAnswer() {
    this.root.append(make("p", "unseen", "Answer"));
    this.calls = [];
    this.foot = make("div", "foot");
    this.root.append(this.foot);
    for (const piece of this.message.reasoning) this.addReasoning(piece);
    for (const piece of this.message.content) this.addContent(piece);
    this.message.calls.forEach((call, index) => this.showCall(index, call));
    this.settle();
  }

  addReasoning(piece) {
    this.endWait();
    if (!this.thought) {
      this.thought = make("details", "thought");
      this.thought.open = this.message.state === "streaming";
      this.thoughtTitle = make("summary", "", "Thinking");
      this.thoughtText = make("div", "text");
      this.thought.append(this.thoughtTitle, this.thoughtText);
      this.root.insertBefore(this.thought, this.text ?? this.foot);
    }
    appendPiece(this.thoughtText, piece);
    this.thoughtText.classList.add("open");
  }

  endWait() {
    this.foot.querySelector(".awaited")?.remove();
  }

  closeThought() {
    if (!this.thought || this.thoughtClosed) return;
    this.thoughtClosed = true;
    this.thoughtText.classList.remove("open");
    const ms = this.message.thoughtMs;
    this.thoughtTitle.textContent = ms ? `Thought for ${duration(ms)}` : "Thought";
    this.thought.open = false;
  }

  addContent(piece) {
    this.endWait();
    this.closeThought();
    if (!this.text) {
      this.text = make("div", "text");
      this.root.insertBefore(this.text, this.calls[0]?.box ?? this.foot);
    }
    appendPiece(this.text, piece);
    this.text.classList.add("open");
  }

  showCall(index, call) {
    this.endWait();
    this.closeThought();
    let shown = this.calls[index];
    if (!shown) {
      const title = make("p", "name", "Calls ");
      title.append(make("code", "", call.name));
      shown = this.calls[index] = {box: make("section", "call"), text: make("pre")};
      shown.box.setAttribute("aria-label", `Call of ${call.name}`);
      shown.box.append(title, shown.text);
      this.root.insertBefore(shown.box, this.foot);
    }
    shown.text.textContent = this.message.state === "streaming" ? call.arguments : readable(call.arguments);
  }

  // What follows from the state: the caret, the figures, the buttons.
  settle() {
    const answer = this.message;
    this.root.dataset.state = answer.state;
    this.foot.replaceChildren();
    this.problem?.remove();
    if (answer.state === "streaming") {
      // A long prompt or a queue may take its time: that nothing has come is said, and goes with the first piece.
      if (!answer.firstAt) this.foot.append(make("span", "stats awaited", "waiting for the first token"));
      return;
    }
    this.closeThought();
    this.text?.classList.remove("open");
    answer.calls.forEach((call, index) => this.showCall(index, call));
    if (answer.problem) {
      this.problem = make("p", "problem", answer.problem);
      this.problem.setAttribute("role", "alert");
      this.root.insertBefore(this.problem, this.foot);
    }
    this.foot.append(make("span", "stats", statsText(answer)));
  }

  addActions(buttons) {
    const group = make("span", "buttons");
    group.append(...buttons);
    this.foot.append(group);
  }

  // Fields for what the called functions gave; `onSend` gets one text a call.
  askForResults(onSend) {
    const fields = this.message.calls.map((call, index) => {
      const row = make("label", "answer", "Result ");
      const field = make("input");
      field.setAttribute("aria-label", `Result of ${call.name}`);
      row.append(field);
      this.calls[index].box.append(row);
      return {row, field};
    });
    const button = makeButton("Send results", send, "send-results");
    function send() {
      const results = fields.map(({field}) => field.value);
      fields.forEach(({row}) => row.remove());
      button.remove();
      onSend(results);
    }
    fields.forEach(({field}) => field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") send();
    }));
    this.root.insertBefore(button, this.foot);
  }

  showResult(index, text) {
    const row = make("p", "answer", `Result: ${text}`);
    this.calls[index]?.box.append(row);
  }
}
