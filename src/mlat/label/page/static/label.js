// The labelling page: what is shown, what is selected, and what every key and button does.
import { inks as readInks, paint } from "./palette.js";
import { setUpTheme } from "./theme.js";
import { Media } from "./media.js";
import { News } from "./news.js";
import { Pieces } from "./pieces.js";
import { MapOfWindows } from "./map.js";
import { drawOverview, drawRibbon, firstAfter, inside, look } from "./ribbons.js";
import { SignalChart } from "./signal_chart.js";
import { View } from "./view.js";

const $ = (id) => document.getElementById(id);
const IGNORE = "(ignore)"; // the state of what is none: the name that the table has
const MOST_BUTTONS = 60; // states that have a button; all others are typed
const NEAR = { mouse: 6, touch: 18, pen: 10 }; // pixels from an edge that grab it

const page = {
  session: null,
  recordings: [],
  number: 0, // the recording that is shown
  version: 0,
  states: [],
  codes: new Map(), // the place of each state, for its colour
  spans: [], // of the recordings: [start, end, state], sorted
  proposals: [],
  selection: null, // [start, end]
  cursor: 0,
  view: null,
  pieces: null,
  media: null,
  connected: false,
  inks: readInks(),
  frames: [], // milliseconds between drawings, for measurements
};

const news = new News(take, (connected) => {
  page.connected = connected;
  showSaved();
});
/** Where a recording is shown; the second one can be hidden. What is done is done to the active one. */
class Pane {
  constructor(suffix) {
    this.signal = $(`signal${suffix}`);
    this.labels = $(`labels${suffix}`);
    this.proposals = $(`proposals${suffix}`);
    this.chart = new SignalChart(this.signal, request);
    this.number = null; // of its recording
    this.kept = null; // its view, pieces and cursor
  }
}

const panes = [new Pane(""), new Pane("-2")];
let active = panes[0];
const other = () => (active === panes[0] ? panes[1] : panes[0]);
const shownPanes = () => panes.filter((pane) => pane.number !== null);
const media = new Media($("media"), (step) => moveCursor(step, { follow: true, fromMedia: true }));

/** The state of a window: of its label, else of its proposal with how sure that is. */
function stateOf([r, start, end]) {
  const middle = (start + end) / 2;
  const label = inside(page.spans[r] ?? [], middle, middle + 1e-9)[0];
  return label ?? inside(page.proposals[r] ?? [], middle, middle + 1e-9)[0] ?? null;
}

const map = new MapOfWindows({
  colour: (state) => look(colour(state)),
  stateOf,
  make: () => ask("map"),
  read: () => getJSON("/map"),
  inks: () => page.inks,
  go: ([r, start, end]) => {
    goTo(r);
    moveCursor(start, { follow: false });
    select(start, end, { show: true });
    looked();
  },
  chosen: (dots) => dots.length && ($("guide").textContent = `${dots.length} windows chosen on the map: press the key of a state, or type one.`),
});

const recording = () => page.recordings[page.number];
const spans = () => page.spans[page.number] ?? [];
const proposals = () => page.proposals[page.number] ?? [];

function colour(state) {
  return state === IGNORE ? -1 : (page.codes.get(state) ?? 0);
}

// --- news

async function take(message) {
  if (message.kind === "hello") await hello(message);
  else if (message.kind === "edit") edit(message);
  else if (message.kind === "proposals") readProposals(message.version);
  else if (message.kind === "learning") showLearning(message);
  else if (message.kind === "map") map.read();
  else if (message.kind === "comparison") showComparison(message.comparison);
}

async function hello(message) {
  const again = page.session === message.session;
  page.session = message.session;
  page.recordings = message.recordings;
  page.model = message.model;
  page.labels = message.labels;
  page.width = message.width;
  page.states = [];
  page.codes = new Map();
  page.spans = message.recordings.map(() => []);
  page.proposals = message.recordings.map(() => []);
  addStates(message.states);
  showNow(message);
  showLearning(message);
  if (message.notes.length) say(message.notes.join(". "), true);
  if (!again || !page.view) {
    media.set(message.media, message.recordings[0].rate);
    fillRecordings();
    open(Math.min(page.number, message.recordings.length - 1));
  }
  await Promise.all([readSpans(), readProposals(message.proposals)]);
  page.ready = true;
  showStates();
  showProposals();
}

function addStates(states) {
  for (const state of states) {
    if (page.codes.has(state) || state === IGNORE) continue;
    page.codes.set(state, page.states.length);
    page.states.push(state);
  }
}

async function readSpans() {
  const all = await Promise.all(page.recordings.map((_, r) => getJSON(`/spans/${r}`)));
  if (all.some((one) => !one)) return;
  page.spans = all.map((one) => one.spans);
  const versions = new Set(all.map((one) => one.version));
  if (versions.size > 1) return readSpans(); // an edit came in between
  page.version = all[0].version;
  for (const one of all) addStates([...new Set(one.spans.map((span) => span[2]))]);
  showStates();
  overviewChanged = true;
  request();
}

const readingProposals = new Set(); // of recordings

function readProposals(version) {
  return Promise.all(shownPanes().map(({ number }) => readProposalsOf(number, version)));
}

async function readProposalsOf(number, version) {
  if (readingProposals.has(number)) return; // the answer will be newer than this
  readingProposals.add(number);
  const found = await getJSON(`/proposals/${number}`);
  readingProposals.delete(number);
  if (!found) return;
  page.proposals[number] = Object.assign(found.proposals, { version: found.version });
  page.proposedAt = performance.now();
  if (found.version < version && shownPanes().some((pane) => pane.number === number)) return readProposalsOf(number, version);
  overviewChanged = true;
  showProposals();
  request();
}

async function getJSON(address) {
  try {
    const answer = await fetch(address, { cache: "no-store" });
    return answer.ok ? await answer.json() : null;
  } catch {
    return null;
  }
}

function edit(message) {
  if (message.version <= page.version) return;
  if (message.version !== page.version + 1) {
    readSpans();
  } else {
    for (const { recording: r, start, end, after } of message.changes) {
      const list = page.spans[r];
      const first = firstAfter(list, start);
      let last = first;
      while (last < list.length && list[last][0] < end) last++;
      list.splice(first, last - first, ...after);
    }
    page.version = message.version;
  }
  addStates(message.used);
  page.editedAt = performance.now();
  overviewChanged = true;
  showNow(message);
  showStates();
  request();
}

// --- what is shown in words

function showNow({ undo, redo }) {
  $("undo").disabled = !undo;
  $("redo").disabled = !redo;
  showSaved();
}

function showSaved() {
  let [kind, text] = ["saved", `All saved in ${page.labels ?? ""}`];
  if (!page.connected) [kind, text] = ["waiting", page.session ? "No connection; trying again" : "Connecting…"];
  else if (news.pending) [kind, text] = ["waiting", "Saving…"];
  else if (page.trouble) [kind, text] = ["trouble", `Saved in the log alone: ${page.trouble}`];
  $("saved").dataset.kind = kind;
  if ($("saved-text").textContent !== text) $("saved-text").textContent = text;
}

function say(text, isNotice = false) {
  $("announcer").textContent = text;
  if (isNotice) {
    $("notice").textContent = text;
    $("notice").hidden = false;
    clearTimeout(say.timer);
    say.timer = setTimeout(() => ($("notice").hidden = true), 9000);
  }
}

function showStates() {
  const seconds = new Map();
  for (const list of page.spans) {
    for (const [start, end, state] of list) seconds.set(state, (seconds.get(state) ?? 0) + end - start);
  }
  const key = JSON.stringify([page.states.slice(0, MOST_BUTTONS), [...seconds.values()], page.inks.ink]);
  if (key !== showStates.key) {
    showStates.key = key;
    const shown = page.states.slice(0, MOST_BUTTONS).map((state, i) => stateButton(state, i, seconds.get(state) ?? 0));
    $("states").replaceChildren(...shown);
    $("known-states").replaceChildren(...page.states.slice(0, 500).map((state) => new Option(state, state)));
    const more = page.states.length - MOST_BUTTONS;
    $("states-about").textContent = more > 0 ? `${page.states.length}; ${more} more can be typed` : "";
  }
  const labelled = page.states.filter((state) => seconds.get(state)).length;
  page.labelledStates = labelled;
  map.draw();
  for (const id of ["save", "compare"]) $(id).disabled = !(labelled >= 2 || (page.model && labelled >= 1));
  guide();
}

function stateButton(state, i, steps) {
  const button = document.createElement("button");
  button.type = "button";
  button.title = state;
  const swatch = document.createElement("canvas");
  swatch.width = swatch.height = 28;
  const context = swatch.getContext("2d");
  const { fill, pattern, ink } = look(i);
  context.fillStyle = paint(context, fill, pattern, ink);
  context.fillRect(0, 0, 28, 28);
  const name = document.createElement("span");
  name.textContent = state;
  button.append(swatch, name);
  if (i < 9) {
    const key = document.createElement("kbd");
    key.textContent = String(i + 1);
    button.append(key);
    button.setAttribute("aria-keyshortcuts", String(i + 1));
  }
  const amount = document.createElement("small");
  amount.textContent = steps && page.view ? page.view.duration(steps) : "";
  button.append(amount);
  button.addEventListener("click", () => label(state));
  const item = document.createElement("li");
  item.append(button);
  return item;
}

/** One sentence about what to do next, for whoever is here for the first time. */
function guide() {
  const n = page.labelledStates ?? 0;
  let text;
  if (!page.ready) text = "Opening…";
  else if (page.selection) {
    const keys = page.states.length ? `press ${page.states.length > 1 ? `1–${Math.min(9, page.states.length)}` : "1"} or type a state and Enter` : "type what it is and press Enter";
    text = `${view().duration(page.selection[1] - page.selection[0])} selected: ${keys}.`;
    if (proposalHere()) text += " Enter takes the proposal.";
  } else if (n === 0 && !proposals().length) text = "Drag over a stretch of the signal where you know the state.";
  else if (n === 1 && !proposals().length) text = "Now label a stretch of another state; with two states the rest is proposed.";
  else if (proposals().some(emptySteps)) text = "Take what is right, correct what is wrong; Next (N) shows where a label helps most.";
  else if (page.current && page.savedModels?.length) text = ""; // all is done
  else text = "Everything has a label. Save the model (M).";
  if ($("guide").textContent !== text) $("guide").textContent = text;
}

function showProposals() {
  const list = proposals();
  const any = list.length > 0;
  const confidence = Number($("confidence").value) / 100;
  const rest = list.filter((one) => one[3] >= confidence && emptySteps(one));
  const steps = rest.reduce((sum, one) => sum + emptySteps(one), 0);
  $("take-all").disabled = !rest.length;
  $("take-all").textContent = rest.length ? `Take all ${rest.length}` : "Take all";
  showTools();
  $("next").disabled = !page.ready;
  $("proposals-about").textContent = any
    ? rest.length ? `${view().duration(steps)} without a label are of at least ${Math.round(100 * confidence)} % confidence` : ""
    : "appear when two states are labelled";
  guide();
}

/** What cannot be done here is off. */
function showTools() {
  if (!page.view) return;
  const here = inside(spans(), page.cursor, page.cursor + 1)[0];
  const can = page.selection || spanAtCursor();
  for (const button of $("states").querySelectorAll("button")) button.disabled = !can;
  $("ignore").disabled = !can;
  $("name-form").querySelector("button").disabled = !can;
  $("take").disabled = !proposalHere();
  $("delete").disabled = !(page.selection ? inside(spans(), ...page.selection)[0] : here);
  $("split").disabled = !(here && here[0] < Math.round(page.cursor));
  $("edge").disabled = $("join").disabled = !spans().length;
  $("join").disabled = spans().length < 2;
}

/** How many steps of a proposal have no label. */
function emptySteps([start, end]) {
  const labelled = inside(spans(), start, end);
  return labelled.reduce((left, [from, to]) => left - (Math.min(to, end) - Math.max(from, start)), end - start);
}

function proposalHere() {
  const at = page.selection ? (page.selection[0] + page.selection[1]) / 2 : page.cursor;
  return inside(proposals(), at, at + 1)[0] ?? null;
}

function showLearning({ doing, fraction, error, current, saved }) {
  $("learning").hidden = !doing;
  $("progress").value = fraction;
  $("doing").textContent = doing ? `${doing} in the background` : "";
  $("learning-error").hidden = !error;
  $("learning-error").textContent = error ? `Not learned: ${error}` : "";
  $("model-about").textContent = current ? "learned from all labels" : page.model ? `${page.model} proposes` : "";
  page.current = current;
  page.savedModels = saved;
  map.learned(current && !doing);
  guide();
}

function showComparison(comparison) {
  const box = $("comparison");
  box.hidden = !comparison;
  if (!comparison) return;
  if (comparison.error) {
    box.textContent = comparison.error;
    return;
  }
  const { old, new: fresh } = comparison;
  const table = document.createElement("table");
  const row = (cells, tag) => {
    const tr = document.createElement("tr");
    tr.append(...cells.map((text) => Object.assign(document.createElement(tag), { textContent: text })));
    return tr;
  };
  const percent = (value) => (value === null || value === undefined ? "–" : `${Math.round(100 * value)} %`);
  const head = document.createElement("thead");
  head.append(row(["steps named right, of those set aside", ...(old ? [`old: ${comparison.model}`] : []), "learned again"], "th"));
  const body = document.createElement("tbody");
  const tested = Object.keys(comparison.tests);
  if (fresh.balanced !== null) {
    body.append(row([`mean of ${tested.length} states`, ...(old ? [percent(old.balanced)] : []), percent(fresh.balanced)], "td"));
  }
  for (const state of tested) {
    body.append(row([state, ...(old ? [percent(old.recall[state])] : []), percent(fresh.recall[state])], "td"));
  }
  table.append(head, body);
  const about = document.createElement("p");
  about.className = "soft";
  const tests = Object.values(comparison.tests).reduce((sum, n) => sum + n, 0);
  const untested = comparison.untested.length
    ? ` Nothing is known of ${comparison.untested.join(", ")}: label a second stretch by hand, elsewhere, of at least ` +
      `${view().duration(comparison.least)}.` : "";
  about.textContent = `Judged by ${tests} stretches that you labelled by hand; the new one learned from other stretches of ` +
    `this recording, so of another day or person it says less. The saved one is learned from all.${untested}`;
  box.replaceChildren(table, about);
}

// --- what is shown

const view = () => page.view;

function fillRecordings() {
  $("beside").hidden = page.recordings.length < 2;
  panes[1].number = null;
  active = panes[0];
  $("recording-label").hidden = page.recordings.length < 2;
  $("recording-name").textContent = page.recordings.length < 2 ? page.recordings[0].name : "";
  $("recording").replaceChildren(...page.recordings.map((one, r) => new Option(one.name, String(r))));
}

const views = new Map(); // of each recording, to come back to

/** Show a recording in the active pane; if the other one has it, they change places. */
function open(number) {
  const before = active.number;
  if (other().number === number && before !== null && before !== number) fill(other(), before);
  fill(active, number);
  use(active);
  $("name").value = "";
  readProposals(0);
}

function fill(pane, number) {
  const one = page.recordings[number];
  const key = `${number} ${one.digest}`;
  if (!views.has(key)) views.set(key, { view: new View(one), pieces: new Pieces(one, request), cursor: 0 });
  pane.number = number;
  pane.kept = views.get(key);
  pane.chart.set(one, pane.kept.pieces, pane.kept.view, page.inks, colour);
}

/** What is done from now on is done to the recording of this pane. */
function use(pane) {
  if (active !== pane) active.kept.cursor = page.cursor;
  active = pane;
  page.number = pane.number;
  $("recording").value = String(pane.number);
  page.view = pane.kept.view;
  page.pieces = pane.kept.pieces;
  page.cursor = pane.kept.cursor;
  page.selection = page.anchor = null;
  for (const one of panes) one.signal.classList.toggle("active", one === pane);
  overviewChanged = true;
  showPanes();
  if (page.ready) showProposals();
  guide();
  request();
}

function showPanes() {
  const two = panes[1].number !== null;
  $("second").hidden = !two;
  $("time").classList.toggle("two", two);
  $("beside").setAttribute("aria-pressed", String(two));
  $("second-name").textContent = two ? page.recordings[panes[1].number].name : "";
  $("overview-name").textContent = two ? recording().name : "Overview";
  $("overview-name").title = two ? recording().name : "";
}

/** A second recording under the first, or no longer. */
function beside() {
  if (page.recordings.length < 2) return say("There is one recording only.");
  if (panes[1].number === null) {
    fill(panes[1], nextRecording());
    $("second").hidden = false; // before its chart asks for its size
    use(panes[1]);
    readProposals(0);
  } else {
    panes[1].number = null;
    use(panes[0]);
  }
  say(panes[1].number === null ? `${recording().name} alone` : `${recording().name} is shown under ${page.recordings[panes[0].number].name}`);
}

/** The one after the active one that is not shown. */
function nextRecording() {
  const n = page.recordings.length;
  const shown = shownPanes().map((pane) => pane.number);
  for (let by = 1; by < n; by++) {
    const number = (page.number + by) % n;
    if (!shown.includes(number)) return number;
  }
  return other().number ?? page.number; // both are shown: they change places
}

/** Go to a recording: where it is shown, or else in the active pane. */
function goTo(number) {
  if (number === page.number) return;
  if (other().number === number) use(other());
  else open(number);
}

let asked = false;
let overviewChanged = true;
let drawnAt = 0;

function request() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(draw);
}

function draw(now) {
  asked = false;
  const { view: v, inks } = page;
  if (!v) return;
  for (const pane of shownPanes()) drawPane(pane);
  if (overviewChanged) {
    overviewChanged = false;
    drawOverview($("overview-canvas"), spans(), proposals(), recording().steps, colour, inks, page.pieces);
  }
  const box = $("window").style;
  box.left = `${(100 * v.begin) / v.steps}%`;
  box.width = `${(100 * v.length) / v.steps}%`;
  showWhere();
  if (page.measuring) page.frames.push(now - drawnAt);
  drawnAt = now;
}

function drawPane(pane) {
  const { view: v, cursor } = pane.kept;
  const labels = page.spans[pane.number] ?? [];
  const mine = pane === active;
  pane.chart.draw({
    spans: inside(labels, v.begin, v.end),
    selection: mine ? page.selection : null,
    cursor: mine ? page.cursor : cursor,
  });
  drawRibbon(pane.labels, labels, v, colour, page.inks);
  drawRibbon(pane.proposals, page.proposals[pane.number] ?? [], v, colour, page.inks, true);
}

function showWhere() {
  const v = page.view;
  const here = inside(spans(), page.cursor, page.cursor + 1)[0];
  const there = proposalHere();
  let text = `Cursor ${v.text(page.cursor, true)}${v.rate ? ` (step ${Math.round(page.cursor).toLocaleString("en-GB")})` : ""}`;
  if (here) text += `, labelled ${here[2]}`;
  if (there) text += `, proposed ${there[2]} ${Math.round(100 * there[3])} % confidence`;
  if (page.selection) text += `; selected ${v.text(page.selection[0], true)} to ${v.text(page.selection[1], true)}`;
  if ($("where").textContent !== text) $("where").textContent = text;
}

// --- what a person does

function select(start, end, { show = false } = {}) {
  start = Math.max(0, Math.min(recording().steps, Math.round(start)));
  end = Math.max(0, Math.min(recording().steps, Math.round(end)));
  page.selection = start === end ? null : [Math.min(start, end), Math.max(start, end)];
  if (page.selection && show) view().show(...page.selection);
  showProposals();
  request();
}

function moveCursor(step, { follow = true, extend = false, fromMedia = false } = {}) {
  const last = recording().steps;
  step = Math.max(0, Math.min(last, fromMedia ? step : Math.round(step)));
  if (extend) {
    const anchor = page.selection ? (page.anchor ?? page.selection[0]) : page.cursor;
    page.anchor = anchor;
    page.cursor = step;
    select(anchor, step);
  } else {
    page.cursor = step;
    if (!fromMedia) page.anchor = null;
  }
  active.kept.cursor = page.cursor;
  const v = view();
  if (follow && (step < v.begin || step > v.end)) v.set(step - v.length / 2, v.length);
  if (!fromMedia) media.seek(step);
  showTools();
  request();
}

let lastView = 0;

function looked() {
  request();
  clearTimeout(lastView);
  lastView = setTimeout(() => {
    const v = view();
    news.ask("view", { recording: page.number, step: Math.round((v.begin + v.end) / 2) });
  }, 500);
}

async function ask(what, more, done) {
  const answer = news.ask(what, more);
  showSaved();
  const told = await answer;
  page.trouble = told.trouble;
  showSaved();
  if (told.error) say(told.error, true);
  else if (done) say(typeof done === "function" ? done(told) : done);
  return told;
}

function label(state) {
  state = state.trim();
  if (!state) return;
  $("why").textContent = "";
  if (map.chosen.length) return labelMany(state);
  const stretch = page.selection ?? spanAtCursor();
  if (!stretch) return say("Select a stretch first: drag over the signal, or Shift and arrow keys.", true);
  const [start, end] = stretch;
  clearSelection();
  return ask("label", { recording: page.number, start, end, state }, `Labelled ${state}`);
}

/** What was chosen on the map, as one edit. */
function labelMany(state) {
  const [n, places, version] = [map.chosen.length, map.runs(), map.version];
  clearSelection();
  return ask("label many", { places, version, state }, `Labelled ${n} windows ${state}`);
}

function clearSelection() {
  map.choose([]);
  page.selection = null;
  page.anchor = null;
  showProposals();
  request();
}

/** What a key is about where nothing is selected: the label under the cursor, or the proposal. */
function spanAtCursor() {
  const found = inside(spans(), page.cursor, page.cursor + 1)[0] ?? proposalHere();
  return found ? found.slice(0, 2) : null;
}

function takeOne() {
  const [start, end] = page.selection ?? proposalHere()?.slice(0, 2) ?? [0, 0];
  const here = inside(proposals(), start, end);
  if (!here.length) return say("There is no proposal here.", true);
  clearSelection();
  const about = { recording: page.number, start, end, version: proposals().version };
  return ask("take", about, (told) => (here.length > 1 ? taken(told) : `Took ${here[0][2]}`));
}

const taken = ({ taken: n }) => `Took ${n} proposal${n === 1 ? "" : "s"}`;

function takeAll() {
  return ask("take all", { confidence: Number($("confidence").value) / 100, version: proposals().version }, taken);
}

function remove() {
  const stretch = page.selection ?? inside(spans(), page.cursor, page.cursor + 1)[0];
  if (!stretch) return say("No label is here.", true);
  clearSelection();
  return ask("clear", { recording: page.number, start: stretch[0], end: stretch[1] }, "Label deleted");
}

function split() {
  return ask("split", { recording: page.number, at: Math.round(page.cursor) }, "Split");
}

function join() {
  const [start, end] = page.selection ?? nearestEdge() ?? [page.cursor, page.cursor + 1];
  clearSelection();
  return ask("join", { recording: page.number, start: Math.max(0, Math.round(start) - 1), end: Math.round(end) + 1 }, "Joined");
}

/** The nearest edge of a label to the cursor, twice: a stretch without length. */
function nearestEdge() {
  let best = null;
  const list = spans();
  const i = firstAfter(list, page.cursor);
  for (const span of list.slice(Math.max(0, i - 1), i + 2)) {
    for (const edge of span.slice(0, 2)) {
      if (best === null || Math.abs(edge - page.cursor) < Math.abs(best - page.cursor)) best = edge;
    }
  }
  return best === null ? null : [best, best];
}

function moveEdge() {
  const edge = nearestEdge();
  if (!edge) return say("There is no label whose edge could move.", true);
  return ask("move", { recording: page.number, edge: edge[0], to: Math.round(page.cursor) }, "Edge moved");
}

/** Select the label or proposal before or after the cursor. */
function step(by) {
  const all = [...spans(), ...proposals().filter(emptySteps)].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  if (!all.length) return say("There are no labels or proposals yet.");
  const at = page.selection ? page.selection[0] : page.cursor;
  const found = by > 0 ? all.find((one) => one[0] > at) : all.findLast((one) => one[0] < at);
  if (!found) return say(by > 0 ? "That was the last." : "That was the first.");
  moveCursor(found[0], { follow: false });
  select(found[0], found[1], { show: true });
  say(`${found[2]}${found.length > 3 ? `, proposed, ${Math.round(100 * found[3])} % confidence` : ", labelled"}`);
  looked();
}

async function next() {
  $("why").textContent = "Looking…";
  const told = await ask("next", { recording: page.number, step: Math.round(page.cursor) });
  const why = told.error ? "" : `This is ${told.why}: label it, and more is known.`;
  $("why").textContent = why;
  if (told.error) return;
  goTo(told.recording);
  moveCursor(told.start, { follow: false });
  select(told.start, told.end, { show: true });
  say(why);
  looked();
}

async function save() {
  $("model-said").textContent = page.current ? "Saving…" : "Learning from all labels first…";
  $("save").disabled = true;
  const told = await ask("save");
  $("model-said").textContent = told.error ? `Not saved: ${told.error}` : `Saved: ${told.file}`;
  showStates.key = "";
  showStates();
}

async function compare() {
  showComparison({ error: "Comparing on spans set aside…" });
  await ask("compare");
}

async function exportStream() {
  const told = await ask("export");
  $("model-said").textContent = told.error ? `Not written: ${told.error}` : `Written: ${told.file}`;
}

// --- pointer

/** Drags over the signal select; with Shift, or with two fingers, they pan and zoom. */
function setUpSignal(pane) {
  const element = pane.signal;
  const { chart } = pane;
  const fingers = new Map();
  let drag = null;
  const onNames = (event) => event.clientX < chart.plot.over.getBoundingClientRect().left;
  element.addEventListener("pointerdown", (event) => {
    if (event.button > 1 || !page.view) return;
    if (active !== pane) use(pane);
    element.focus({ preventScroll: true });
    if (onNames(event)) {
      const channel = chart.channelAt(event.clientY);
      for (const one of panes) one.chart.choose({ chosen: channel === one.chart.chosen ? null : channel });
      return request();
    }
    element.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, event.clientX);
    if (fingers.size === 2) {
      drag = { kind: "pinch", xs: [...fingers.values()], begin: view().begin, length: view().length };
      clearSelection();
    } else if (event.shiftKey || event.button === 1) {
      drag = { kind: "pan", x: event.clientX, begin: view().begin };
    } else drag = { kind: "select", from: chart.step(event.clientX), x: event.clientX, moved: false };
  });
  element.addEventListener("pointermove", (event) => {
    if (!fingers.size && chart.plot) {
      const named = onNames(event) ? (page.recordings[pane.number]?.channels[chart.channelAt(event.clientY)] ?? "") : "";
      const title = named && `${named}: click for more of it`;
      if (element.title !== title) element.title = title;
    }
    if (!drag || !fingers.has(event.pointerId)) return;
    fingers.set(event.pointerId, event.clientX);
    const wide = chart.plot.over.clientWidth || 1;
    const v = view();
    if (drag.kind === "select") {
      if (Math.abs(event.clientX - drag.x) > 3) drag.moved = true;
      if (drag.moved) select(drag.from, chart.step(event.clientX));
    } else if (drag.kind === "pan") {
      v.set(drag.begin - ((event.clientX - drag.x) / wide) * v.length, v.length);
      looked();
    } else if (fingers.size === 2) {
      const [a, b] = drag.xs;
      const [c, d] = [...fingers.values()];
      const length = drag.length * (Math.max(20, Math.abs(a - b)) / Math.max(20, Math.abs(c - d)));
      const left = chart.plot.over.getBoundingClientRect().left;
      const at = drag.begin + (((a + b) / 2 - left) / wide) * drag.length;
      v.set(at - (((c + d) / 2 - left) / wide) * length, length);
      looked();
    }
  });
  const end = (event) => {
    fingers.delete(event.pointerId);
    if (drag?.kind === "select" && event.type === "pointerup") {
      if (drag.moved) {
        page.cursor = page.selection?.[0] ?? page.cursor;
        page.anchor = page.selection?.[0] ?? null;
        media.seek(page.cursor);
        // Nothing has a name yet: whoever drags can type it at once.
        if (page.selection && !page.states.length) $("name").focus();
      } else {
        clearSelection();
        moveCursor(chart.step(event.clientX), { follow: false });
      }
    }
    if (!fingers.size) drag = null;
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
  element.addEventListener("focus", () => page.view && active !== pane && use(pane));
  element.addEventListener(
    "wheel",
    (event) => {
      if (!page.view) return;
      if (active !== pane) use(pane);
      event.preventDefault();
      const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        view().pan((across / (chart.plot.over.clientWidth || 1)) * view().length);
      } else view().zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), chart.step(event.clientX));
      looked();
    },
    { passive: false },
  );
}

/** In the ribbon of labels an edge can be dragged, and a click selects a span. */
function setUpRibbon(pane, canvas, of, movable) {
  let drag = null;
  const list = () => page[of][pane.number] ?? [];
  const view = () => pane.kept.view;
  const stepAt = (event) => {
    const box = canvas.getBoundingClientRect();
    return view().begin + ((event.clientX - box.left) / Math.max(1, box.width)) * view().length;
  };
  const edgeAt = (event) => {
    const at = stepAt(event);
    const reach = ((NEAR[event.pointerType] ?? 6) / Math.max(1, canvas.clientWidth)) * view().length;
    let best = null;
    for (const span of inside(list(), at - reach, at + reach)) {
      for (const edge of [span[0], span[1]]) {
        const away = Math.abs(edge - at);
        if (away <= reach && away < (best?.away ?? Infinity)) best = { edge, away };
      }
    }
    return best?.edge ?? null;
  };
  canvas.addEventListener("pointermove", (event) => {
    if (!page.view || pane.number === null) return;
    if (drag) {
      page.cursor = Math.max(0, Math.min(recording().steps, Math.round(stepAt(event))));
      select(drag.edge, page.cursor);
      return;
    }
    const at = stepAt(event);
    const span = inside(list(), at, at + 1e-9)[0];
    const sure = span?.length > 3 ? `, ${Math.round(100 * span[3])} %` : "";
    canvas.title = span ? `${span[2]}${sure}, ${view().text(span[0], true)} to ${view().text(span[1], true)}` : "";
    if (movable) canvas.style.cursor = edgeAt(event) === null ? "pointer" : "ew-resize";
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (!page.view || event.button) return;
    if (active !== pane) use(pane);
    const edge = movable ? edgeAt(event) : null;
    if (edge !== null) {
      canvas.setPointerCapture(event.pointerId);
      drag = { edge };
      return;
    }
    const at = stepAt(event);
    const span = inside(list(), at, at + 1e-9)[0];
    moveCursor(at, { follow: false });
    if (span) select(span[0], span[1]);
    else clearSelection();
    pane.signal.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!drag) return;
    const { edge } = drag;
    drag = null;
    const to = Math.round(stepAt(event));
    clearSelection();
    if (to !== edge) ask("move", { recording: page.number, edge, to }, "Edge moved");
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
}

function setUpOverview() {
  const element = $("overview");
  let from = null;
  const at = (event) => {
    const box = element.getBoundingClientRect();
    return ((event.clientX - box.left) / Math.max(1, box.width)) * recording().steps;
  };
  element.addEventListener("pointerdown", (event) => {
    if (!page.view) return;
    element.setPointerCapture(event.pointerId);
    const step = at(event);
    const v = view();
    if (step < v.begin || step > v.end) v.set(step - v.length / 2, v.length);
    from = step - v.begin;
    looked();
  });
  element.addEventListener("pointermove", (event) => {
    if (from === null) return;
    view().set(at(event) - from, view().length);
    looked();
  });
  for (const kind of ["pointerup", "pointercancel"]) element.addEventListener(kind, () => (from = null));
}

// --- keys

const undo = () => $("undo").disabled || ask("undo", {}, "Undone");
const redo = () => $("redo").disabled || ask("redo", {}, "Done again");
const theme = setUpTheme(() => {
  page.inks = readInks();
  overviewChanged = true;
  showStates.key = "";
  for (const pane of shownPanes()) fill(pane, pane.number);
  if (page.view) showStates();
  request();
});

function arrow(by, event) {
  const v = view();
  const one = event.altKey ? 1 : Math.max(1, v.length / (event.ctrlKey ? 10 : 100));
  moveCursor(page.cursor + by * one, { extend: event.shiftKey });
  if (!event.shiftKey) clearSelection();
}

function zoom(factor) {
  const v = view();
  const inView = page.cursor >= v.begin && page.cursor <= v.end;
  v.zoom(factor, inView ? page.cursor : undefined);
  looked();
}

function showAll() {
  view().set(0, recording().steps);
  looked();
}

const KEYS = {
  ArrowLeft: (event) => arrow(-1, event),
  ArrowRight: (event) => arrow(1, event),
  ArrowUp: () => zoom(0.5),
  ArrowDown: () => zoom(2),
  "+": () => zoom(0.5),
  "-": () => zoom(2),
  0: () => showAll(),
  PageUp: () => (view().pan(-0.8 * view().length), looked()),
  PageDown: () => (view().pan(0.8 * view().length), looked()),
  Home: (event) => moveCursor(0, { extend: event.shiftKey }),
  End: (event) => moveCursor(recording().steps, { extend: event.shiftKey }),
  "[": () => step(-1),
  "]": () => step(1),
  Enter: () => takeOne(),
  i: () => label(IGNORE),
  g: () => map.toggle(),
  Escape: () => clearSelection(),
  Delete: () => remove(),
  Backspace: () => remove(),
  a: () => $("take-all").disabled || takeAll(),
  n: () => $("next").disabled || next(),
  s: () => split(),
  j: () => join(),
  e: () => moveEdge(),
  t: () => ($("name").focus(), $("name").select()),
  z: (event) => (event.shiftKey ? redo() : undo()),
  y: () => redo(),
  m: () => $("save").disabled || save(),
  r: () => page.recordings.length > 1 && open(nextRecording()),
  b: () => beside(),
  d: () => theme.toggle(),
  " ": () => media.toggle(),
  "?": () => $("help").showModal(),
};
document.addEventListener("keydown", (event) => {
  if (!page.view || $("help").open) return;
  const control = event.ctrlKey || event.metaKey;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const typing = event.target.closest("input[type=text], select, textarea");
  if (typing) {
    if (event.key === "Escape") active.signal.focus({ preventScroll: true });
    return;
  }
  if (event.target.closest("button, a, input") && [" ", "Enter", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].includes(event.key)) return;
  if (control && !["z", "y", "ArrowLeft", "ArrowRight"].includes(key)) return;
  if (event.altKey && !event.key.startsWith("Arrow")) return;
  let act = KEYS[key];
  if (/^[1-9]$/.test(key)) {
    const state = page.states[Number(key) - 1];
    if (state === undefined) return;
    act = () => label(state);
  }
  if (!act) return;
  event.preventDefault();
  act(event);
});

$("name-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const state = $("name").value.trim();
  if (!state) return;
  label(state);
  $("name").value = "";
  active.signal.focus({ preventScroll: true });
});
$("undo").addEventListener("click", undo);
$("redo").addEventListener("click", redo);
$("ignore").addEventListener("click", () => label(IGNORE));
$("split").addEventListener("click", split);
$("join").addEventListener("click", join);
$("edge").addEventListener("click", moveEdge);
$("delete").addEventListener("click", remove);
$("take").addEventListener("click", takeOne);
$("take-all").addEventListener("click", takeAll);
$("next").addEventListener("click", next);
$("save").addEventListener("click", save);
$("compare").addEventListener("click", compare);
$("export").addEventListener("click", exportStream);
$("help-button").addEventListener("click", () => $("help").showModal());
$("recording").addEventListener("change", ({ target }) => open(Number(target.value)));
$("beside").addEventListener("click", beside);
$("zoom-in").addEventListener("click", () => zoom(0.5));
$("zoom-out").addEventListener("click", () => zoom(2));
$("zoom-all").addEventListener("click", showAll);
$("confidence").addEventListener("input", ({ target }) => {
  $("confidence-value").textContent = `${target.value} %`;
  showProposals();
});
for (const pane of panes) {
  setUpSignal(pane);
  setUpRibbon(pane, pane.labels, "spans", true);
  setUpRibbon(pane, pane.proposals, "proposals", false);
}
setUpOverview();
new ResizeObserver(() => {
  overviewChanged = true;
  request();
}).observe($("overview"));

$("scale").addEventListener("change", ({ target }) => {
  for (const pane of panes) pane.chart.choose({ scale: target.value });
  request();
});
$("channels").addEventListener("toggle", showChannels);

/** Which channels are shown, each with its value at the cursor. */
function showChannels() {
  if (!$("channels").open) return;
  const { chart } = active;
  const values = page.pieces.at(Math.max(0, Math.min(Math.floor(page.cursor), recording().steps - 1)));
  $("channel-list").replaceChildren(
    ...recording().channels.map((name, c) => {
      const box = Object.assign(document.createElement("input"), { type: "checkbox", checked: !chart.hidden.has(c) });
      box.addEventListener("change", () => {
        const hidden = new Set(chart.hidden);
        box.checked ? hidden.delete(c) : hidden.add(c);
        if (hidden.size === recording().channels.length) return (box.checked = true);
        for (const pane of panes) pane.chart.choose({ hidden });
        request();
      });
      const label = document.createElement("label");
      label.append(box, name);
      const value = Object.assign(document.createElement("small"), { textContent: chart.valueOf(c, values) });
      const item = document.createElement("li");
      item.append(label, value);
      return item;
    }),
  );
}

// For tests and measurements.
globalThis.mlatLabel = { page, panes, chart: panes[0].chart, request, looked, map };
