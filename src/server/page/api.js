
// The server's API. Paths are relative, so that the page works under a prefix that a proxy adds.

class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function headers(key) {
  return key ? {"Authorization": `Bearer ${key}`} : {};
}

async function getJson(path, key = "") {
  const response = await fetch(path, {headers: headers(key), cache: "no-store"});
  return {status: response.status, body: await response.json()};
}

// The payloads of a stream of server-sent events.
async function* payloads(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {value, done} = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      for (const line of rest.slice(0, end).split("\n")) {
        if (line.startsWith("data: ")) yield line.slice(6);
      }
      rest = rest.slice(end + 2);
    }
  }
}

// Streams a chat completion; `onChunk` gets each event's object. Throws what the user should read.
async function streamChat(body, key, signal, onChunk) {
  let response;
  try {
    response = await fetch("v1/chat/completions", {
      method: "POST", signal, body: JSON.stringify(body),
      headers: {"Content-Type": "application/json", ...headers(key)},
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server cannot be reached.");
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => null);
    throw new Refusal(response.status, problem?.error?.message ?? `The server answered ${response.status}.`);
  }
  try {
    for await (const payload of payloads(response)) {
      if (payload === "[DONE]") return;
      const chunk = JSON.parse(payload);
      if (chunk.error) throw new Refusal(500, chunk.error.message);
      onChunk(chunk);
    }
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Refusal) throw error;
  }
  throw new Error("The connection broke before the answer was complete.");
}
