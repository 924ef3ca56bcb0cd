
// The settings form: what a request says besides its messages.

const settingsForm = byId("settings");
const kNumbers = ["temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "presence_penalty",
                  "frequency_penalty", "repetition_penalty"];

function restoreSettings() {
  const saved = recall(sessionStorage, "settings", {});
  for (const field of settingsForm.elements) {
    if (!field.name || !(field.name in saved)) continue;
    if (field.type === "checkbox") field.checked = saved[field.name]; else field.value = saved[field.name];
  }
  settingsChanged();
}

function settingsChanged() {
  const saved = {};
  for (const field of settingsForm.elements) {
    if (field.name) saved[field.name] = field.type === "checkbox" ? field.checked : field.value;
  }
  remember(sessionStorage, "settings", saved);
  document.body.classList.toggle("untinted", !settingsForm.tint.checked);
  const problem = byId("tools-problem");
  problem.hidden = true;
  try {
    readTools();
  } catch (error) {
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

function readTools() {
  const text = settingsForm.tools.value.trim();
  if (!text) return undefined;
  let tools;
  try {
    tools = JSON.parse(text);
  } catch (error) {
    throw new Error(`The tools are not JSON: ${error.message}`);
  }
  if (!Array.isArray(tools)) throw new Error("The tools must be a JSON array.");
  return tools;
}

const apiKey = () => settingsForm.key.value;

// The fields of a request; throws when the tools cannot be read.
function requestFields() {
  const out = {};
  for (const name of kNumbers) {
    const text = settingsForm[name].value.trim();
    if (text !== "") out[name] = Number(text);
  }
  // Seeds have 64 bits, of which a JavaScript number keeps 53; larger ones would be silently others.
  if ("seed" in out && !Number.isSafeInteger(out.seed)) throw new Error("The seed must be a whole number below 2^53.");
  const stops = settingsForm.stop.value.split("\n").filter((line) => line !== "");
  if (stops.length) out.stop = stops;
  const tools = readTools();
  if (tools?.length) out.tools = tools;
  if (settingsForm.thinking.value) out.chat_template_kwargs = {thinking: settingsForm.thinking.value === "on"};
  return out;
}

function systemMessages() {
  const text = settingsForm.system.value.trim();
  return text ? [{role: "system", content: text}] : [];
}

settingsForm.addEventListener("input", settingsChanged);
settingsForm.addEventListener("submit", (event) => event.preventDefault());
byId("reset-settings").addEventListener("click", () => {
  settingsForm.reset();
  settingsChanged();
});
