// The present state in words, and the counts.
import { begin } from "./canvas.js";
import { look, paint } from "./palette.js";
import { count, percent, reason, reasonShort, seconds, surely } from "./words.js";

const $ = (id) => document.getElementById(id);
const QUIET = 1500; // milliseconds between two announcements: a listener is not to be flooded
const MOST_SHARES = 4;

function say(id, text) {
  const element = $(id);
  if (element.textContent !== text) element.textContent = text; // an unchanged text is not touched
}

/** The state, how sure it is, and why there is none. */
export function showPresent(latest, classes, model, codes, inks) {
  const known = latest.state !== null;
  say("state", known ? String(latest.state) : "unknown");
  say("sure", known ? surely(latest.proba) : "no state is told");
  $("why").hidden = known;
  say("why", known ? "" : reason(latest.why, model.width));
  swatch(known ? look(codes(latest.state)) : { fill: inks.unknown, pattern: "cross", ink: inks.ink });
  showShares(latest.shares, classes, codes);
}

function swatch({ fill, pattern, ink }) {
  const { context, width, height } = begin($("state-swatch"));
  context.fillStyle = paint(context, fill, pattern, ink);
  context.beginPath();
  context.roundRect(0, 0, width, height, 6);
  context.fill();
}

/** The most probable states as bars; always in the order of the model, so that none jumps about. */
function showShares(shares, classes, codes) {
  const list = $("shares");
  const order = shares.map((share, i) => i).sort((a, b) => shares[b] - shares[a]);
  const shown = classes.length <= MOST_SHARES ? classes.map((_, i) => i) : order.slice(0, MOST_SHARES);
  while (list.children.length < shown.length) list.append(bar());
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach((i, k) => {
    const [name, track, figure] = list.children[k].children;
    const share = shares[i] ?? null;
    const texts = [String(classes[i]), percent(share)];
    if (name.textContent !== texts[0]) name.textContent = texts[0];
    if (figure.textContent !== texts[1]) figure.textContent = texts[1];
    track.firstChild.style.width = `${100 * (share ?? 0)}%`;
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

const SHORTLY = 10000; // milliseconds for which something refused is told; it stays in the count
let noticed = "";
let since = 0;

function showNotice(notice, refused) {
  const text = notice && notice.kind !== "connected" ? `Source ${notice.kind}: ${notice.text}` : "";
  const key = `${text} ${refused}`;
  if (key !== noticed) [noticed, since] = [key, performance.now()];
  const over = notice?.kind === "refused" && performance.now() - since > SHORTLY;
  $("notice").hidden = !text || over;
  say("notice", text);
}

/** Tells screen readers of a new state, but not of every flicker. */
export class Announcer {
  constructor() {
    this.told = undefined;
    this.timer = null;
  }

  state(latest, width) {
    const text = latest.state === null ? `unknown. ${reason(latest.why, width)}` : String(latest.state);
    this.next = text;
    if (text === this.told || this.timer) return;
    this.say(text);
    this.timer = setTimeout(() => {
      this.timer = null;
      if (this.next !== this.told) this.say(this.next);
    }, QUIET);
  }

  say(text) {
    this.told = text;
    $("announcer").textContent = `State: ${text}`;
  }
}
