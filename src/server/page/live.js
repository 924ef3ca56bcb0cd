
// The live panels: /metrics, once a second while somebody looks.

const kSeconds = 60;  // of history, and for shares of what happened lately
const samples = [];   // {at, of(name), each(name)}, oldest first; null where the server could not be asked

// Prometheus's text format, as far as this server writes it: name -> [{labels, value}].
function parseMetrics(text) {
  const out = new Map();
  for (const line of text.split("\n")) {
    const parts = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line);
    if (!parts) continue;
    const labels = {};
    for (const [, name, value] of (parts[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) labels[name] = value;
    if (!out.has(parts[1])) out.set(parts[1], []);
    out.get(parts[1]).push({labels, value: Number(parts[3])});
  }
  return out;
}

function sampleOf(text) {
  const metrics = parseMetrics(text);
  const each = (name) => metrics.get(name) ?? [];
  return {at: performance.now(), each, of: (name) => each(name).find((one) => !("rank" in one.labels))?.value};
}

function takeSample(sample) {
  const before = samples.at(-1);
  // A server that was started anew counts from zero; what was before says nothing about it.
  const started = "process_start_time_seconds";
  if (sample && before && sample.of(started) !== before.of(started)) samples.length = 0;
  samples.push(sample);
  if (samples.length > kSeconds + 1) samples.shift();
}

// What a counter grew by between two samples; undefined where it is not known.
function growth(name, from, to) {
  if (!from || !to) return undefined;
  const before = from.of(name) ?? 0, after = to.of(name);
  return after === undefined ? undefined : after - before;
}
function rates(name) {
  return samples.slice(1).map((sample, i) => {
    const grown = growth(name, samples[i], sample);
    return grown === undefined ? undefined : 1000 * grown / (sample.at - samples[i].at);
  });
}

// Numbers of the last minute, or since the server's start where nothing happened in it.
function lately(measure) {
  const last = samples.at(-1);
  const first = samples.find((sample) => sample);
  const nothing = {of: () => 0, each: () => []};
  const recent = first && first !== last ? measure(first, last) : undefined;
  if (recent !== undefined) return {value: recent, span: "in the last minute"};
  return {value: measure(nothing, last), span: "since the start"};
}

const show = (id, text) => { byId(id).textContent = text; };
const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;
const whole = (value) => Math.round(value).toLocaleString("en");
const milliseconds = (value) => `${value >= 10 ? rounded(value) : value.toFixed(2)} ms`;
const rate = (value) => value === undefined ? "–" : value >= 100 || value === 0 ? whole(value) : value.toFixed(1);

const kSvg = "http://www.w3.org/2000/svg";
function drawPlot(id, series, least) {
  const top = Math.max(least, ...series.flatMap(({values}) => values.filter((value) => value !== undefined)));
  const shapes = [];
  for (const {values, kind} of series) {
    const offset = kSeconds - values.length;
    let line = "", area = "", begun = false;
    values.forEach((value, i) => {
      if (value === undefined) {
        begun = false;
        return;
      }
      const x = 120 * (offset + i) / (kSeconds - 1), y = 31 - 29 * value / top;
      if (!begun) area += `${area ? "V32Z" : ""}M${x.toFixed(1)} 32`;
      line += `${begun ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      area += `L${x.toFixed(1)} ${y.toFixed(1)}`;
      if (i + 1 === values.length || values[i + 1] === undefined) area += `L${x.toFixed(1)} 32`;
      begun = true;
    });
    for (const [name, d] of kind === "first" ? [["area", area], ["line", line]] : [["line second", line]]) {
      const path = document.createElementNS(kSvg, "path");
      path.setAttribute("class", name);
      path.setAttribute("d", d);
      shapes.push(path);
    }
  }
  byId(id).replaceChildren(...shapes);
  return top;
}

// rows: {name, share 0..1, text, kind}. Elements are kept from draw to draw, so that the bars move.
function drawBars(id, rows) {
  const box = byId(id);
  while (box.children.length > rows.length) box.lastChild.remove();
  rows.forEach(({name, share, text, kind}, i) => {
    let row = box.children[i];
    if (!row) {
      row = make("div");
      const track = make("div", "track");
      track.append(make("div", "fill"));
      row.append(make("span", "name"), track, make("span", "value"));
      box.append(row);
    }
    row.className = `bar ${kind ?? ""}`;
    row.children[0].textContent = name;
    row.children[1].firstChild.style.setProperty("--share", Math.min(Math.max(share, 0), 1).toFixed(4));
    row.children[2].textContent = text;
  });
}

function drawThroughput() {
  const generated = rates("vllm:generation_tokens_total"), prompt = rates("vllm:prompt_tokens_total");
  show("generated-rate", rate(generated.at(-1)));
  show("prompt-rate", rate(prompt.at(-1)));
  const top = drawPlot("throughput-plot", [{values: generated, kind: "first"}], 1);
  show("throughput-note", generated.some((value) => value > 0) ? `peak of ${rate(top)} in the last minute` : "");
}

function drawRequests(now) {
  const running = "vllm:num_requests_running", waiting = "vllm:num_requests_waiting";
  show("running", whole(now.of(running) ?? 0));
  show("waiting", whole(now.of(waiting) ?? 0));
  const lineOf = (name, kind) => ({values: samples.slice(1).map((sample) => sample?.of(name)), kind});
  // What runs is drawn last: where both are alike, it is on top.
  const top = drawPlot("requests-plot", [lineOf(waiting, "second"), lineOf(running, "first")], 1);
  show("requests-note", `the last minute; top of the plot: ${whole(top)}`);
}

function drawKv(now) {
  const name = "vllm:kv_cache_usage_perc";
  const bar = (label, share) => ({name: label, share, text: percent(share), kind: share > 0.95 ? "full" : ""});
  const ranks = now.each("tessera:kv_cache_usage_perc").filter((one) => "rank" in one.labels)
    .sort((a, b) => Number(a.labels.rank) - Number(b.labels.rank));
  drawBars("kv", ranks.length ? ranks.map((one) => bar(`rank ${one.labels.rank}`, one.value)) : [bar("pool", now.of(name) ?? 0)]);
  const config = now.each("vllm:cache_config_info")[0]?.labels;
  if (!config) return show("kv-note", "");
  const room = `room for ${whole(config.num_gpu_blocks * config.block_size)} tokens in blocks of ${config.block_size}`;
  const dtype = config.cache_dtype === "auto" ? "" : `, ${config.cache_dtype}`;
  show("kv-note", room + dtype);
}

function drawSpeculation(now) {
  const accepted = "vllm:spec_decode_num_accepted_tokens_per_pos_total";
  const verified = "tessera:speculation_verified_tokens_per_pos_total";
  const positions = now.each(accepted).length;
  if (!positions) {
    drawBars("acceptance", []);
    show("speculation-note", "No draft: start the server with --speculative-config.");
    return;
  }
  const {value, span} = lately((from, to) => {
    const grown = (name) => to.each(name).map((one, i) => one.value - (from.each(name)[i]?.value ?? 0));
    const tried = grown(verified), stood = grown(accepted);
    return tried[0] > 0 ? {tried, stood} : undefined;
  });
  // Of the drafts that there were at a position: where the draft length varies, later ones are fewer.
  drawBars("acceptance", Array.from({length: positions}, (_, i) => {
    const share = value?.tried[i] > 0 ? value.stood[i] / value.tried[i] : undefined;
    return {name: i === 0 ? "1st" : i === 1 ? "2nd" : i === 2 ? "3rd" : `${i + 1}th`,
            share: share ?? 0, text: share === undefined ? "–" : percent(share), kind: "draft"};
  }));
  const length = now.of("tessera:speculation_draft_length");
  show("speculation-note", value
    ? `${(value.stood.reduce((sum, count) => sum + count, 0) / value.tried[0]).toFixed(2)} accepted a drafting step ${span}; `
      + `draft length now ${length}`
    : "Nothing drafted yet.");
}

function drawStep() {
  const part = (name, from, to) => (to.of(name) ?? 0) - (from.of(name) ?? 0);
  const {value, span} = lately((from, to) => {
    const steps = part("tessera:engine_steps_total", from, to);
    if (!(steps > 0)) return undefined;
    const all = part("tessera:engine_step_seconds_total", from, to), host = part("tessera:engine_host_seconds_total", from, to);
    return {all: 1000 * all / steps, host: 1000 * host / steps};
  });
  const box = byId("step-parts");
  if (!box.children.length) box.append(make("div", "model"), make("div", "host"));
  show("step-time", value ? rounded(value.all) : "–");
  if (!value) return show("step-note", "No step yet.");
  const model = Math.max(value.all - value.host, 0);
  box.children[0].style.setProperty("--share", model.toFixed(6));
  box.children[1].style.setProperty("--share", value.host.toFixed(6));
  const keyed = (kind, text) => {
    const part = make("span", "part", text);
    part.prepend(make("span", `key ${kind}`));
    return part;
  };
  byId("step-note").replaceChildren(keyed("first", `model ${milliseconds(model)}`),
                                    keyed("second", `host ${milliseconds(value.host)}`), make("span", "part", span));
}

function drawPrefix() {
  const queries = "vllm:prefix_cache_queries_total", hits = "vllm:prefix_cache_hits_total";
  const {value, span} = lately((from, to) => {
    const asked = (to.of(queries) ?? 0) - (from.of(queries) ?? 0);
    return asked > 0 ? {asked, found: (to.of(hits) ?? 0) - (from.of(hits) ?? 0)} : undefined;
  });
  const share = value ? value.found / value.asked : 0;
  drawBars("prefix", [{name: "tokens", share, text: percent(share)}]);
  show("prefix-note", value ? `${whole(value.found)} of ${whole(value.asked)} prompt tokens ${span}` : "No prompt yet.");
}

function drawLive() {
  const now = samples.at(-1);
  drawThroughput();
  if (!now) return;
  drawRequests(now);
  drawKv(now);
  drawSpeculation(now);
  drawStep();
  drawPrefix();
}

async function lookAtMetrics() {
  let sample = null;
  try {
    const response = await fetch("metrics", {cache: "no-store"});
    if (response.ok) sample = sampleOf(await response.text());
  } catch {
    sample = null;
  }
  takeSample(sample);
  drawLive();
}
