// The page: receives frames as they come, and draws what is new once per screen refresh.
import { Buffer } from "./buffer.js";
import { connect } from "./connection.js";
import { LaneChart } from "./lane_chart.js";
import { Lanes, groups } from "./lanes.js";
import { PaintTimes } from "./paint_times.js";
import { inks as readInks, look } from "./palette.js";
import { Announcer, showCounts, showPresent } from "./present.js";
import { drawAgreement, drawConfidence, drawRibbon } from "./ribbon.js";
import { References, drawSimilar } from "./similar.js";
import { Span } from "./span.js";
import { Mark } from "./mark.js";
import { allowTeaching, offerTeaching, setUpTeaching, showExamples } from "./teach.js";
import { setUpTheme } from "./theme.js";
import { count, figure, percent } from "./words.js";

const $ = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const CALM = 1000; // milliseconds between two pictures, where less motion is asked for

const page = {
  model: null,
  buffer: null,
  now: null, // the latest status
  classes: [],
  chosen: null, // the enlarged channel
  group: "",
  paused: null, // {end, latest} of the picture that stands still
  dropped: 0,
  inks: readInks(),
  lanes: null,
};
const announcer = new Announcer();
const paintTimes = new PaintTimes($("paint"));
const span = new Span($("span"), () => request());
const references = new References(() => request());
const chart = new LaneChart($("lanes"), (channel) => choose(page.chosen === channel ? null : channel), request);
const mark = new Mark([$("ribbon"), $("confidence"), $("lanes")], () => page.view, () => page.buffer, request);
setUpTeaching(() => page.view && shownSteps(), mark);

/** The steps of the picture, for what is taught of them. */
function shownSteps() {
  const { end } = page.view;
  const rate = page.model.rate ?? page.buffer.rate();
  const secondsAgo = (seconds) => page.buffer.stepAgo(seconds, end, rate);
  return { end, width: page.model.width, paused: Boolean(page.paused), secondsAgo };
}

function codes(state) {
  const code = page.classes.indexOf(state);
  return code < 0 ? page.classes.length : code;
}

function take(frame) {
  if (frame.kind === "hello") hello(frame);
  else if (frame.kind === "dropped") page.dropped = page.before + frame.frames;
  else {
    page.buffer.add(frame);
    if (frame.now) page.now = frame.now;
    if (frame.now && frame.n) paintTimes.expect(frame);
  }
  if (page.now?.classes) page.classes = page.now.classes;
  if (!page.paused && page.now?.latest) announcer.state(page.now.latest, page.model.width);
  request();
}

function hello(frame) {
  const same = page.model?.stream === frame.stream && page.buffer.d === frame.channels.length;
  page.before = page.dropped; // the server counts from 0 for every connection
  page.model = frame;
  page.now = frame.now;
  page.classes = frame.now.classes ?? frame.states;
  if (!same) {
    page.buffer = new Buffer(frame.channels.length);
    page.paused = null;
    page.view = null;
    mark.steps = null;
    page.chosen = null;
    page.group = "";
    references.clear();
    span.clear();
    fillChoices();
  }
  offerTeaching(frame);
  showExperts(frame.experts);
  setLanes();
}

/** Who decides, with which weight; nothing where one metric decides alone. */
function showExperts(experts) {
  $("experts").hidden = !experts.length;
  $("agreement").hidden = !experts.length;
  $("experts-about").textContent = experts.map(({ name, weight }) => `${name} ${percent(weight)}`).join(", ");
}

function fillChoices() {
  const { channels, width } = page.model;
  const option = (text, value) => new Option(text, value);
  $("channel").replaceChildren(option("none", ""), ...channels.map((name, c) => option(name, String(c))));
  const found = groups(channels);
  $("group-label").hidden = !found.length;
  const named = found.map(([stem, members]) => option(`${stem} (${members.length})`, stem));
  $("group").replaceChildren(option(`all ${channels.length}`, ""), ...named);
  $("similar-width").textContent = `${width} steps`;
}

function shownChannels() {
  const all = page.model.channels.map((_, c) => c);
  return groups(page.model.channels).find(([stem]) => stem === page.group)?.[1] ?? all;
}

function setLanes() {
  if (!page.model) return;
  const shown = shownChannels();
  page.lanes = new Lanes(page.model, shown, page.chosen);
  $("channels-about").textContent = `${shown.length}, each over its usual range, or by how much it is off`;
  const name = page.lanes.chosen === null ? "" : `, ${page.model.channels[page.chosen]} enlarged`;
  $("lanes").setAttribute("aria-label", `${shown.length} channels over time${name}`);
  chart.set(page.lanes, page.inks);
  request();
}

function choose(channel) {
  page.chosen = channel;
  $("channel").value = channel === null ? "" : String(channel);
  setLanes();
}

function pause(paused) {
  if (paused && page.now?.latest) page.paused = { end: page.buffer.next, latest: page.now.latest };
  else page.paused = null;
  $("pause").textContent = page.paused ? "Go on" : "Pause";
  $("pause").setAttribute("aria-pressed", String(Boolean(page.paused)));
  document.body.classList.toggle("paused", Boolean(page.paused));
  if (page.view) allowTeaching();
  showConnection();
  request();
}

let connection = ["waiting", "Connecting…"];

function showConnection() {
  let [kind, text] = connection;
  if (page.paused && kind === "live") {
    kind = "paused";
    text = `Paused at step ${count(page.paused.end - 1)}`;
  }
  $("connection").dataset.kind = kind;
  if ($("connection-text").textContent !== text) $("connection-text").textContent = text;
}

let asked = false;
let drawnAt = 0;

/** Draw at the next screen refresh, once, however often this is called until then. */
function request() {
  if (asked || document.hidden) return;
  asked = true;
  const wait = calm.matches ? Math.max(0, drawnAt + CALM - performance.now()) : 0;
  if (wait) setTimeout(() => requestAnimationFrame(draw), wait);
  else requestAnimationFrame(draw);
}

function draw() {
  asked = false;
  drawnAt = performance.now();
  const { buffer, model, now, lanes, inks, paused } = page;
  if (!model || !now) return;
  const latest = paused?.latest ?? now.latest;
  if (latest) {
    const end = paused?.end ?? buffer.next;
    const view = (page.view = { ...span.view(buffer, end, model), mark: mark.known() });
    drawRibbon($("ribbon"), buffer, view, codes, inks);
    drawConfidence($("confidence"), buffer, view, inks);
    if (model.experts.length) drawAgreement($("agreement"), buffer, view, inks);
    chart.draw(buffer, view);
    if (!paused) references.want(latest);
    const similarEnd = references.drawn?.step + 1 || end;
    const windows = references.windows();
    drawSimilar($("similar"), buffer, similarEnd, model, lanes, chart.box($("similar")), windows, codes, inks);
    // Texts come last: after one is changed, reading any size forces a layout.
    describeSimilar(references.drawn?.distance ?? null, windows);
    showPresent(latest, page.classes, model, codes, inks);
  }
  showCounts(now, buffer.rate(), page.dropped);
  showExamples(page.classes, now.example);
  paintTimes.painted(Boolean(paused));
}

function describeSimilar(distance, windows) {
  const nearest = windows[0];
  let text = "No complete window yet";
  if (nearest) {
    const kind = nearest.taught ? `taught${nearest.values ? "" : "; its channels were not kept"}` : `reference ${count(nearest.row)}`;
    const far = distance === null ? "" : `, distance ${figure(distance)}`;
    text = `Nearest: ${nearest.state} (${kind})${far}`;
    $("similar-key").style.background = look(codes(nearest.state)).fill;
  }
  if ($("similar-about").textContent !== text) $("similar-about").textContent = text;
}

const theme = setUpTheme(() => {
  page.inks = readInks();
  setLanes();
});
$("pause").addEventListener("click", () => pause(!page.paused));
$("channel").addEventListener("change", ({ target }) => choose(target.value === "" ? null : Number(target.value)));
$("group").addEventListener("change", ({ target }) => {
  page.group = target.value;
  setLanes();
});
document.addEventListener("visibilitychange", request);
new ResizeObserver(request).observe($("similar")); // the lines of text above it may be one or two

function moveChosen(by) {
  const shown = shownChannels();
  const at = shown.indexOf(page.chosen);
  const next = at < 0 ? (by > 0 ? 0 : shown.length - 1) : (at + by + shown.length) % shown.length;
  choose(shown[next]);
}

const KEYS = {
  " ": () => pause(!page.paused),
  ArrowDown: () => moveChosen(1),
  ArrowUp: () => moveChosen(-1),
  Escape: () => (mark.steps ? mark.clear() : choose(null)),
  d: () => theme.toggle(),
};
document.addEventListener("keydown", (event) => {
  const busy = event.target.closest("input, select, button, a, textarea");
  if (busy || event.ctrlKey || event.metaKey || event.altKey || !page.model) return;
  const act = KEYS[event.key] ?? KEYS[event.key.toLowerCase()];
  if (!act) return;
  event.preventDefault();
  act();
});

connect(
  () => (page.model && page.buffer.begun ? { stream: page.model.stream, next: page.buffer.next } : null),
  take,
  (kind, text) => {
    connection = [kind, text];
    showConnection();
  },
);

// For tests and measurements.
globalThis.mlatLive = { page, paintTimes, mark, chart };
