
// Elements are made here, and text is only ever set as text: the page's policy refuses anything else.

const byId = (id) => document.getElementById(id);

function make(tag, className = "", text = "") {
  const out = document.createElement(tag);
  if (className) out.className = className;
  if (text) out.textContent = text;
  return out;
}

function makeButton(text, onClick, className = "quiet small") {
  const out = make("button", className, text);
  out.type = "button";
  out.addEventListener("click", onClick);
  return out;
}

// Storage may be switched off in the browser; the page then forgets, and works.
function remember(storage, name, value) {
  try {
    storage.setItem(name, JSON.stringify(value));
  } catch {
    return;
  }
}
function recall(storage, name, otherwise) {
  try {
    return JSON.parse(storage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}
