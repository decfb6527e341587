// Draws /status, asked for every two seconds. What has been seen stays in this page's memory, and ends with it.
// All text goes into the page as text, never as markup.

const EVERY_MS = 2000;
const PATIENCE_MS = 5000;
const KEPT_MS = 10 * 60 * 1000;
const SHORTEST_MS = 60 * 1000; // a chart is as wide as what is known, and at least this
const GAP_MS = 3 * EVERY_MS + PATIENCE_MS; // further apart than this, two samples are not joined by a line
const SVG = "http://www.w3.org/2000/svg";

// By state: class, and a shape of 12 by 12 that is told from the others without its colour.
const DISC = "M6 1a5 5 0 1 0 0 10a5 5 0 1 0 0-10z";
const STATES = {
  running: { tone: "good", shape: DISC },
  behind: { tone: "warn", shape: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9zM6 6h.1", ring: true },
  opening: { tone: "warn", shape: "M6 2a4 4 0 1 0 0 8a4 4 0 1 0 0-8z", ring: true },
  waiting: { tone: "warn", shape: "M6 .8l5.6 10.4H.4z" },
  stopped: { tone: "bad", shape: "M1 1h10v10H1z" },
  silent: { tone: "bad", shape: "M2 2l8 8M10 2l-8 8", ring: true },
};

const whole = new Intl.NumberFormat("en");
const tenth = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

const count = (n) => (n === null ? "–" : whole.format(n));
const rate = (n) => (n === null ? "–" : n > 0 && n < 10 ? tenth.format(n) : whole.format(Math.round(n)));
const plural = (n, noun) => `${count(n)} ${noun}${n === 1 ? "" : "s"}`;

function bytes(n) {
  if (n === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit += 1; }
  return `${unit === 0 || n >= 100 ? whole.format(Math.round(n)) : tenth.format(n)} ${units[unit]}`;
}

function span(seconds) {
  const [d, h, m] = [Math.floor(seconds / 86400), Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60];
  if (d) return `${d} d ${h} h`;
  if (h) return `${h} h ${m} min`;
  return m ? `${m} min` : `${Math.floor(seconds)} s`;
}

function duration(seconds) {
  if (seconds === null) return "–";
  if (seconds < 0.001) return `${whole.format(Math.round(seconds * 1e6))} µs`;
  return seconds < 1 ? `${rate(seconds * 1000)} ms` : `${rate(seconds)} s`;
}

/** `0-2, 5` */
function ranges(numbers) {
  const runs = [];
  for (const n of numbers) {
    if (runs.length && runs[runs.length - 1][1] === n - 1) runs[runs.length - 1][1] = n;
    else runs.push([n, n]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(", ");
}

export const utc = (ms) => (Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString().slice(0, 19).replace("T", " ") : `${ms} ms`);

// ---------------------------------------------------------------------- the page's parts

export const find = (id) => document.getElementById(id);

function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function makeSvg(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

function mark() {
  const svg = makeSvg("svg", { viewBox: "0 0 12 12", "aria-hidden": "true" });
  svg.append(makeSvg("path", {}));
  return svg;
}

function setMark(svg, state) {
  svg.setAttribute("class", `mark ${state.tone}${state.ring ? " mark-ring" : ""}`);
  svg.firstElementChild.setAttribute("d", state.shape);
}

// ---------------------------------------------------------------------- samples and charts

/** Values over time: [ms, value], oldest first, of the last ten minutes. A null value is a gap. */
class Series {
  constructor() { this.points = []; }

  add(now, value) {
    this.points.push([now, value]);
    while (this.points[0][0] < now - KEPT_MS) this.points.shift();
  }

  get values() { return this.points.map((point) => point[1]).filter((value) => value !== null); }
}

/** A line with the present at the right, from 0 to the highest; or from the lowest, where growth is what matters.
    Returns what stands at its edges: the lowest and the highest value, and how many ms it shows. */
function draw(svg, series, now, fromZero = true, least = 1) {
  const [width, height] = [svg.viewBox.baseVal.width, svg.viewBox.baseVal.height];
  const values = series.values;
  const top = Math.max(...values, fromZero ? least : -Infinity);
  const low = fromZero ? 0 : Math.min(...values);
  const room = Math.max(top - low, top / 100, least); // less than a hundredth is no growth
  const shown = Math.max(SHORTEST_MS, now - (series.points[0]?.[0] ?? now));
  const x = (ms) => (width * (1 - (now - ms) / shown)).toFixed(1);
  const y = (value) => (height - 2 - (height - 5) * ((value - low) / room)).toFixed(1);
  const pieces = [];
  let before = null;
  for (const [ms, value] of series.points) {
    if (value === null) { before = null; continue; }
    if (before === null || ms - before > GAP_MS) pieces.push([]);
    pieces[pieces.length - 1].push([x(ms), y(value)]);
    before = ms;
  }
  const line = pieces.map((piece) => `M${piece.map((point) => point.join(" ")).join("L")}`).join("");
  const area = pieces.map((piece) => `M${piece[0][0]} ${height}L${piece.map((point) => point.join(" ")).join("L")}L${piece[piece.length - 1][0]} ${height}z`).join("");
  const last = pieces.length ? pieces[pieces.length - 1] : null;
  const dot = last ? `M${last[last.length - 1].join(" ")}h0` : "";
  if (!svg.childElementCount) svg.append(...["area", "line", "dot"].map((name) => makeSvg("path", { class: name })));
  [area, line, dot].forEach((d, at) => svg.children[at].setAttribute("d", d));
  return { low, top: low + room, shown };
}

const series = new Map();

function sample(name, now, value) {
  if (!series.has(name)) series.set(name, new Series());
  const found = series.get(name);
  found.add(now, value);
  return found;
}

// ---------------------------------------------------------------------- drawing

let last = null; // the document before, for rates
let since = 0;

/** Events per second of each partition since the document before; null at first, and after a restart. */
function rates(status) {
  const seconds = last === null ? 0 : (status.now_ms - last.now_ms) / 1000;
  const restarted = last !== null && status.uptime_seconds < last.uptime_seconds;
  const before = new Map(last === null || restarted ? [] : last.partitions.map((each) => [each.partition, each.applied_events]));
  return new Map(status.partitions.map((each) => {
    const known = before.get(each.partition);
    return [each.partition, (known ?? null) === null || seconds <= 0 ? null : Math.max(0, each.applied_events - known) / seconds];
  }));
}

const total = (numbers) => (numbers.every((n) => n === null) ? null : numbers.reduce((sum, n) => sum + (n ?? 0), 0));

function stateOf(partition) {
  if (partition.condition === "running" && !partition.ready) return STATES.behind;
  return STATES[partition.condition] ?? STATES.waiting;
}

function head(status) {
  say(find("topic"), status.topic);
  say(find("version"), `version ${status.version}`);
  const { host, pid, resp, log } = status.worker;
  say(find("host"), `${host}, process ${pid}`);
  say(find("serves"), resp === null ? log : `Redis clients at ${resp} · ${log}`);
  say(find("uptime"), `up ${span(status.uptime_seconds)}`);
  say(find("asof"), `as of ${clock.format(status.now_ms)}`);
  state(status.ready ? "ready" : "not ready", status.ready ? STATES.running : STATES.stopped);
  document.title = `${status.ready ? "" : "not ready · "}slotlog ${status.topic}`;
  document.body.dataset.state = status.ready ? "ready" : "not-ready";
}

function state(word, shown) {
  const element = find("state");
  setMark(element.firstElementChild, shown);
  element.className = `state ${shown.tone}`;
  say(element.lastElementChild, word);
}

function troubles(status) {
  const found = [];
  for (const name of ["log", "disk", "clock"]) {
    if (!status[name].ready) found.push([`The ${name}`, status[name].reason]);
  }
  for (const warning of status.log.warnings) found.push(["The log", warning]);
  for (const each of status.partitions) {
    if (!each.ready) found.push([`Partition ${each.partition} is ${each.condition}`, each.reason]);
  }
  const text = JSON.stringify(found);
  const list = find("troubles");
  find("trouble").hidden = found.length === 0;
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...found.map(([what, why]) => make("li", {}, make("b", {}, what), why ? `: ${why}` : "")));
}

function peers(status) {
  const text = JSON.stringify(status.peers);
  const list = find("peers").querySelector("ul");
  find("peers").hidden = status.peers.length === 0;
  if (list.dataset.text === text) return;
  list.dataset.text = text;
  list.replaceChildren(...status.peers.map((peer) => {
    const shape = mark();
    setMark(shape, { online: STATES.running, suspected: STATES.waiting }[peer.health] ?? STATES.stopped);
    const what = peer.partitions.length ? `partitions ${ranges(peer.partitions)}` : "no partition";
    return make("li", {}, shape, make("b", {}, peer.address), ` ${what}, ${peer.health === "online" ? "answers" : peer.health}`);
  }));
}

function tile(name, now, value, shown, unit, note, fromZero = true, least = 1) {
  const figure = find(`tile-${name}`);
  const values = sample(name, now, value);
  say(figure.querySelector("b"), shown(value));
  say(figure.querySelector("p span"), unit);
  say(figure.querySelector("small"), note(values.values));
  const chart = figure.querySelector("svg");
  const range = values.values.length ? `from ${shown(Math.min(...values.values))} to ${shown(Math.max(...values.values))}` : "no data";
  chart.setAttribute("aria-label", `The last minutes: ${range}`);
  const axis = draw(chart, values, now, fromZero, least);
  const plot = figure.querySelector(".plot");
  say(plot.querySelector(".top"), values.values.length ? shown(axis.top) : "");
  say(plot.querySelector(".bottom"), values.values.length ? shown(axis.low) : "");
  say(plot.querySelector(".past"), `${span(axis.shown / 1000)} ago`);
}

function tiles(status, now, perSecond) {
  const most = status.partitions.reduce((worst, each) => (worst === null || each.lag_events > worst.lag_events ? each : worst), null);
  const clients = status.clients;
  const cut = status.partitions.some((each) => each.snapshots?.log_begin_offset > 0);
  const peak = (shown, word) => (values) => (values.length ? `${word} ${shown(Math.max(...values))}` : "");
  tile("rate", now, total([...perSecond.values()]), rate, "events/s", peak((n) => `${rate(n)}/s`, "highest"));
  tile("lag", now, total(status.partitions.map((each) => each.lag_events)), count, "events", (values) =>
    most !== null && most.lag_events && status.partitions.length > 1
      ? `most: partition ${most.partition}, ${count(most.lag_events)}` : peak(count, "highest")(values));
  tile("disk", now, total(status.partitions.map((each) => each.disk_bytes)), bytes, "", () =>
    `${bytes(status.disk.free_bytes)} free of ${bytes(status.disk.total_bytes)}`, false);
  tile("log", now, status.log_bytes, bytes, "", () => (status.log_bytes === null ? "not known" : cut ? "cut behind snapshots" : "it keeps every event"), false);
  const [reads, writes, perS] = clients === null ? [null, null, null]
    : [clients.read_p99_seconds, clients.write_p99_seconds, clients.commands_per_second];
  tile("commands", now, perS, rate, clients === null ? "" : "commands/s", peak((n) => `${rate(n)}/s`, "highest"));
  tile("latency", now, writes, duration, "", () => (clients === null ? "" : `reads within ${duration(reads)}; in the last minute`),
    true, 0.001);
  tile("memory", now, status.memory.rss_bytes, bytes, "", () => `highest since the start ${bytes(status.memory.peak_bytes)}`);
  tile("clients", now, clients === null ? null : clients.connected, count, clients === null ? "" : "connected", () =>
    clients === null ? "none are served here" : `${count(clients.blocked)} blocked, ${count(clients.subscribed)} subscribed`);
}

const COLUMNS = ["Next offset", "Behind", "Applied/s", "Disk", "Keys", "Rejected", "Dead"];
const CHARTED = new Set(["Behind", "Applied/s", "Disk"]);

function newRow(partition) {
  const row = make("tr", { role: "row", "data-partition": partition });
  row.append(make("th", { role: "rowheader", scope: "row", "data-label": "Partition" }, String(partition)));
  row.append(make("td", { role: "cell" }, mark(), make("span")));
  for (const label of COLUMNS) {
    const cell = make("td", { role: "cell", class: CHARTED.has(label) ? "number charted" : "number", "data-label": label });
    if (CHARTED.has(label)) {
      const chart = makeSvg("svg", { class: "chart", viewBox: "0 0 88 24", preserveAspectRatio: "none", "aria-hidden": "true" });
      cell.append(make("div", {}, chart, make("span")));
    }
    row.append(cell);
  }
  return row;
}

function partitions(status, now, perSecond) {
  const body = find("partitions").tBodies[0];
  const rows = new Map([...body.rows].map((row) => [Number(row.dataset.partition), row]));
  say(find("owned"), status.partitions.length === status.partitions_of_topic ? "" : `${status.partitions.length} of ${status.partitions_of_topic} are owned by this process`);
  for (const each of status.partitions) {
    const row = rows.get(each.partition) ?? body.appendChild(newRow(each.partition));
    const [, shown, offset, behind, applied, disk, keys, rejected, dead] = row.cells;
    setMark(shown.firstElementChild, stateOf(each));
    say(shown.lastElementChild, each.condition === "running" && !each.ready ? "running, not ready" : each.condition);
    say(offset, count(each.next_offset));
    say(keys, count(each.keys));
    say(rejected, count(each.rejected_commands));
    say(dead, count(each.dead_letters));
    dead.classList.toggle("some", each.dead_letters > 0);
    for (const [cell, name, value, format, fromZero] of [
      [behind, "lag", each.lag_events, count, true],
      [applied, "rate", perSecond.get(each.partition), rate, true],
      [disk, "disk", each.disk_bytes, bytes, false],
    ]) {
      const div = cell.firstElementChild;
      say(div.lastElementChild, format(value));
      draw(div.firstElementChild, sample(`${name} ${each.partition}`, now, value), now, fromZero);
    }
  }
}

const KEPT = ["Stands at", "Age", "Log begins at", "A trim frees"];
const UNDER_WAY = {
  read: "being read", upload: "being uploaded", verify: "being verified", restore: "being restored",
  look: "one is looked for, to restore it", wait: "waits for their store, to restore one",
};

function newSnapshotRow(partition) {
  const row = make("tr", { role: "row", "data-partition": partition });
  row.append(make("th", { role: "rowheader", scope: "row", "data-label": "Partition" }, String(partition)));
  row.append(make("td", { role: "cell" }, mark(), make("span")));
  for (const label of KEPT) row.append(make("td", { role: "cell", class: "number", "data-label": label }));
  row.append(make("td", { role: "cell", class: "running" }, make("progress", { "aria-hidden": "true" }), make("span")));
  return row;
}

function underWay(running) {
  if (running === null) return "";
  const what = UNDER_WAY[running.what] ?? running.what;
  if (!running.total_bytes) return what;
  const left = running.eta_seconds === null ? "" : `, ${span(running.eta_seconds)} left`;
  return `${what}: ${bytes(running.done_bytes)} of ${bytes(running.total_bytes)}${left}`;
}

function snapshots(status) {
  const body = find("snapshots").tBodies[0];
  const rows = new Map([...body.rows].map((row) => [Number(row.dataset.partition), row]));
  const known = status.partitions.filter((each) => (each.snapshots ?? null) !== null);
  find("kept").hidden = known.length === 0;
  for (const { partition, snapshots: each } of known) {
    const row = rows.get(partition) ?? body.appendChild(newSnapshotRow(partition));
    const [, newest, offset, age, begin, frees, running] = row.cells;
    const none = each.newest_offset === null;
    setMark(newest.firstElementChild, each.failing ? STATES.stopped : none || !each.newest_verified ? STATES.waiting : STATES.running);
    say(newest.lastElementChild, `${none ? "none" : each.newest_verified ? "verified" : "not verified"}${each.failing ? ", failing" : ""}`);
    say(offset, count(each.newest_offset));
    say(age, none ? "–" : span(Math.max(0, (status.now_ms - each.newest_ms) / 1000)));
    say(begin, count(each.log_begin_offset));
    say(frees, each.trimmable_offsets === null ? "–" : plural(each.trimmable_offsets, "record"));
    const [bar, text] = running.children;
    bar.hidden = each.running === null || !each.running.total_bytes;
    if (!bar.hidden) [bar.max, bar.value] = [each.running.total_bytes, each.running.done_bytes];
    say(text, underWay(each.running));
  }
}

function letters(status) {
  const { latest, error, since_start } = status.dead_letters;
  const table = find("letters");
  const none = latest === null || latest.length === 0;
  say(find("letters-count"), since_start ? `${count(since_start)} since the start` : "");
  say(find("letters-none"), error || (latest === null ? "Not read yet." : none ? "None." : ""));
  find("letters-none").hidden = !none && !error;
  find("letters-hint").hidden = none;
  table.hidden = none;
  const text = JSON.stringify(latest);
  if (table.dataset.text === text) return;
  table.dataset.text = text;
  table.tBodies[0].replaceChildren(...(latest ?? []).map((letter) => {
    const reason = make("td", { role: "cell" }, letter.reason);
    if (letter.redriven) reason.append(make("span", { class: "sent" }, " (sent again)"));
    return make("tr", { role: "row" },
      make("th", { role: "rowheader", scope: "row" }, `${letter.partition} / ${letter.offset}`),
      make("td", { role: "cell" }, utc(letter.time_ms)),
      reason,
      make("td", { role: "cell", class: "number" }, bytes(letter.bytes)));
  }));
}

function show(status) {
  const now = Date.now();
  const perSecond = rates(status);
  head(status);
  troubles(status);
  peers(status);
  tiles(status, now, perSecond);
  partitions(status, now, perSecond);
  snapshots(status);
  find("history").hidden = !status.history;
  letters(status);
  find("silence").hidden = true;
  last = status;
  since = status.now_ms;
}

function silent(why) {
  const notice = find("silence");
  const seen = since ? ` What stands here is of ${clock.format(since)}.` : "";
  state("no answer", STATES.silent);
  document.title = "no answer · slotlog";
  document.body.dataset.state = "silent";
  say(notice, `The service does not answer (${why}).${seen} Asking again every two seconds.`);
  notice.hidden = false;
  for (const each of series.values()) each.add(Date.now(), null);
}

// ---------------------------------------------------------------------- asking

let timer = 0;

async function ask() {
  clearTimeout(timer);
  let status = null;
  let why = "";
  try {
    const response = await fetch("/status", { cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS) });
    if (response.ok) status = await response.json();
    else why = `HTTP ${response.status}`;
  } catch (error) {
    why = error.name === "TimeoutError" ? `nothing within ${PATIENCE_MS / 1000} s` : "no connection";
  }
  if (status === null) silent(why);
  else show(status);
  if (!document.hidden) timer = setTimeout(ask, EVERY_MS);
}

document.addEventListener("visibilitychange", () => { if (!document.hidden) ask(); });
ask();
