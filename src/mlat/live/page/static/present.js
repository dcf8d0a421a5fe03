// The present state, the probabilities of all states, and the counts, as text and bars.
import { begin } from "./canvas.js";
import { look, paint } from "./palette.js";
import { agreeing, count, percent, reason, reasonShort, seconds, confidently } from "./words.js";

const $ = (id) => document.getElementById(id);
const QUIET = 1500; // milliseconds between two announcements of a screen reader
const MOST_BARS = 60;

function say(id, text) {
  const element = $(id);
  if (element.textContent !== text) element.textContent = text; // writing the same text would force a layout
}

/** The state, its confidence, and why there is none. */
export function showPresent(latest, classes, model, codes, inks) {
  const known = latest.state !== null;
  say("state", known ? String(latest.state) : "unknown");
  const unlike = known && model.unlike !== null && latest.distance > model.unlike;
  say("probability", unlike ? "a guess: unlike anything it knows" : known ? confidently(latest.proba) : "no state is predicted");
  $("agree").hidden = !known || !model.experts.length;
  say("agree", known ? agreeing(latest.agreement) : "");
  $("why").hidden = known;
  say("why", known ? "" : reason(latest.why, model.width));
  swatch(known ? look(codes(latest.state)) : { fill: inks.unknown, pattern: "cross", ink: inks.ink });
  showProbabilities(latest.probabilities, classes, codes);
}

function swatch({ fill, pattern, ink }) {
  const { context, width, height } = begin($("state-swatch"));
  context.fillStyle = paint(context, fill, pattern, ink);
  context.beginPath();
  context.roundRect(0, 0, width, height, 6);
  context.fill();
}

/** The probability of every state as bars, in the model's order, so that none jumps; of very many the most probable. */
function showProbabilities(probabilities, classes, codes) {
  const list = $("probabilities");
  const order = probabilities.map((_, i) => i).sort((a, b) => probabilities[b] - probabilities[a]);
  const shown = classes.length <= MOST_BARS ? classes.map((_, i) => i) : order.slice(0, MOST_BARS);
  while (list.children.length < shown.length) list.append(bar());
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach((i, k) => {
    const [name, track, figure] = list.children[k].children;
    const proba = probabilities[i] ?? null;
    const texts = [String(classes[i]), percent(proba)];
    if (name.textContent !== texts[0]) name.textContent = texts[0];
    if (figure.textContent !== texts[1]) figure.textContent = texts[1];
    track.firstChild.style.width = `${100 * (proba ?? 0)}%`;
    track.firstChild.style.background = look(codes(classes[i])).fill;
  });
}

function bar() {
  const item = document.createElement("li");
  const [name, track, figure] = ["span", "span", "span"].map((tag) => document.createElement(tag));
  track.className = "track";
  track.setAttribute("aria-hidden", "true");
  track.append(document.createElement("span"));
  item.append(name, track, figure);
  return item;
}

export function showCounts(now, rate, dropped) {
  $("drift").hidden = !now.drift.length;
  say("drift", now.drift.length ? `Not as in training: ${now.drift.slice(0, 3).join("; ")}` : "");
  const unknown = Object.entries(now.unknown).sort((a, b) => b[1] - a[1]);
  const total = unknown.reduce((sum, [, n]) => sum + n, 0);
  say("count-lag", seconds(now.lag));
  say("count-rate", rate === null ? "–" : `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} /s`);
  say("count-steps", count(now.steps));
  say("count-unknown", count(total) + (total ? ` (${reasonShort(unknown[0][0])})` : ""));
  say("count-late", count(now.counters.late ?? 0));
  say("count-refused", count(now.refused + (now.counters.rejected ?? 0)));
  say("count-dropped", count(dropped));
  say("count-clients", count(now.clients));
  $("count-dropped").parentElement.classList.toggle("bad", dropped > 0);
  showNotice(now.notice, now.refused);
}

const REFUSAL_SHOWN = 10000; // milliseconds; it stays in the count
let noticed = "";
let since = 0;

function showNotice(notice, refused) {
  const text = notice && notice.kind !== "connected" ? `Source ${notice.kind}: ${notice.text}` : "";
  const key = `${text} ${refused}`;
  if (key !== noticed) [noticed, since] = [key, performance.now()];
  const over = notice?.kind === "refused" && performance.now() - since > REFUSAL_SHOWN;
  $("notice").hidden = !text || over;
  say("notice", text);
}

/** Announces a new state to screen readers, but not every short change. */
export class Announcer {
  constructor() {
    this.announced = undefined;
    this.timer = null;
  }

  state(latest, width) {
    const text = latest.state === null ? `unknown. ${reason(latest.why, width)}` : String(latest.state);
    this.next = text;
    if (text === this.announced || this.timer) return;
    this.say(text);
    this.timer = setTimeout(() => {
      this.timer = null;
      if (this.next !== this.announced) this.say(this.next);
    }, QUIET);
  }

  say(text) {
    this.announced = text;
    $("announcer").textContent = `State: ${text}`;
  }
}
