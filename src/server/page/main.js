
// The frame: which model, is the server there, side panel, theme. Starts everything.

let servedModel = "";
let checkedIn = false;  // the model's name is known since the server was last unreachable

async function lookAtServer() {
  let state = "unreachable", text = "server unreachable";
  try {
    const {body} = await getJson("health");
    state = body.status;
    text = state === "loading" ? `${body.phase}${body.progress > 0 ? ` ${Math.round(100 * body.progress)} %` : ""}` : state;
  } catch {
    checkedIn = false;
  }
  serverReady = state === "ready";
  if (serverReady && !checkedIn) {
    try {
      const {status, body} = await getJson("v1/models", apiKey());
      servedModel = status === 200 ? body.data[0].id : "";
      show("model", servedModel);
      document.title = servedModel ? `${servedModel} · Tessera` : "Tessera";
      checkedIn = status === 200;
    } catch {
      serverReady = false;  // gone again in between; the next look tells
    }
  }
  const badge = byId("state");
  if (badge.textContent !== text) badge.textContent = text;  // it is read aloud: only when it changes
  badge.dataset.state = state;
  busyChanged();
}

function openSide(tab) {
  byId("side").classList.add("open");
  byId("open-side").setAttribute("aria-expanded", "true");
  selectTab(tab);
}
function closeSide() {
  byId("side").classList.remove("open");
  byId("open-side").setAttribute("aria-expanded", "false");
}
function selectTab(name) {
  for (const other of ["live", "settings"]) {
    const tab = byId(`tab-${other}`);
    tab.setAttribute("aria-selected", String(other === name));
    tab.tabIndex = other === name ? 0 : -1;
    byId(other).hidden = other !== name;
  }
}
for (const name of ["live", "settings"]) {
  byId(`tab-${name}`).addEventListener("click", () => selectTab(name));
  byId(`tab-${name}`).addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    const other = name === "live" ? "settings" : "live";
    selectTab(other);
    byId(`tab-${other}`).focus();
  });
}
byId("open-side").addEventListener("click", () => {
  openSide("live");
  byId("tab-live").focus();
});
byId("close-side").addEventListener("click", () => {
  closeSide();
  byId("open-side").focus();
});

const kThemes = ["auto", "light", "dark"];
function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = theme;
  show("theme-name", theme);
  remember(localStorage, "tessera-theme", theme);
}
byId("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme ?? "auto";
  setTheme(kThemes[(kThemes.indexOf(now) + 1) % kThemes.length]);
});

// Once a second, one round after the other, and not while nobody looks.
async function keepLooking() {
  for (;;) {
    if (!document.hidden) await Promise.all([lookAtServer(), lookAtMetrics()]);
    await new Promise((resolve) => { setTimeout(resolve, 1000); });
  }
}

setTheme(recall(localStorage, "tessera-theme", "auto"));
restoreSettings();
restoreConversation();
busyChanged();
input.focus();
keepLooking();
