// The map: every window is a dot, near those that it resembles. Click a dot to see its place; draw
// around dots to name them all.
import { begin as beginCanvas } from "./canvas.js";

const MARGIN = 10; // pixels around the dots
const NEAR = 12; // pixels from a dot that a click finds
const LEAST = 6; // pixels that a pointer moves to draw around dots

const $ = (id) => document.getElementById(id);

export class MapOfWindows {
  /** @param page what it needs: colour, stateOf, make, read, inks, go, chosen */
  constructor(page) {
    this.page = page;
    this.points = []; // [recording, start, end, x, y], x and y from 0 to 1
    this.version = 0;
    this.chosen = [];
    this.line = null; // what is being drawn around dots
    this.box = $("map");
    this.canvas = $("map-canvas");
    this.box.addEventListener("toggle", () => this.box.open && (this.points.length ? this.draw() : this.make()));
    $("map-again").addEventListener("click", () => this.make());
    this.canvas.addEventListener("pointerdown", (event) => this.press(event));
    this.canvas.addEventListener("pointermove", (event) => this.move(event));
    this.canvas.addEventListener("pointerup", (event) => this.lift(event));
    this.canvas.addEventListener("pointercancel", () => this.lift(null));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  toggle() {
    this.box.open = !this.box.open;
    if (this.box.open) this.box.scrollIntoView({ block: "nearest" });
  }

  make() {
    $("map-said").textContent = "Making it…";
    this.isStale = false;
    return this.page.make();
  }

  /** A classifier has learned something new, so that windows are at other distances. */
  learned(isDone) {
    if (isDone && this.wasLearning && this.points.length) this.isStale = true;
    this.wasLearning = !isDone;
    this.say();
  }

  async read() {
    const found = await this.page.read();
    if (!found) return;
    this.choose([]);
    this.points = found.points;
    this.version = found.version;
    this.error = found.error ?? "";
    this.say();
    this.draw();
  }

  say() {
    let text = this.points.length ? "Alike windows are near each other; pale ones are proposed. Click a dot to see its place; draw around dots, then name them." : "";
    if (this.isStale) text = "More was learned since: make it anew.";
    if (this.error) text = this.error;
    if (text) $("map-said").textContent = text;
  }

  choose(dots) {
    if (!dots.length && !this.chosen.length) return;
    this.chosen = dots;
    this.draw();
    this.page.chosen(dots);
  }

  /** The places of the chosen dots among all, as [first, after the last]: they are many. */
  runs() {
    const chosen = new Set(this.chosen);
    const found = [];
    this.points.forEach((one, i) => {
      if (!chosen.has(one)) return;
      if (found.at(-1)?.[1] === i) found.at(-1)[1] = i + 1;
      else found.push([i, i + 1]);
    });
    return found;
  }

  /** Where a dot is, in pixels. */
  place([, , , x, y], width, height) {
    return [MARGIN + x * (width - 2 * MARGIN), MARGIN + y * (height - 2 * MARGIN)];
  }

  draw() {
    if (!this.box.open) return;
    const { context, width, height } = beginCanvas(this.canvas);
    const inks = this.page.inks();
    const chosen = new Set(this.chosen);
    const states = this.points.map((one) => this.page.stateOf(one));
    // Labelled dots lie above proposed ones.
    for (const labelled of [false, true]) {
      this.points.forEach((one, i) => {
        const state = states[i];
        if ((state?.length === 3) !== labelled) return;
        const [x, y] = this.place(one, width, height);
        context.beginPath();
        context.arc(x, y, labelled ? 4 : 3, 0, 7);
        context.fillStyle = state ? this.page.colour(state[2]).fill : inks.unknown;
        context.globalAlpha = labelled ? 1 : 0.25 + 0.5 * Math.max(0, 2 * (state?.[3] ?? 0.5) - 1);
        context.fill();
        context.globalAlpha = 1;
        context.lineWidth = chosen.has(one) ? 2.5 : 1;
        context.strokeStyle = chosen.has(one) ? inks.accent : inks.surface;
        if (labelled || chosen.has(one)) context.stroke();
      });
    }
    if (this.line) {
      context.beginPath();
      this.line.forEach(([x, y], i) => (i ? context.lineTo(x, y) : context.moveTo(x, y)));
      context.closePath();
      context.strokeStyle = inks.accent;
      context.lineWidth = 1.5;
      context.stroke();
    }
    const counts = new Map();
    for (const state of states) counts.set(state?.[2] ?? "", (counts.get(state?.[2] ?? "") ?? 0) + 1);
    const words = [...counts].map(([state, n]) => `${n} ${state || "unknown"}`).join(", ");
    this.canvas.ariaLabel = `${this.points.length} windows in two dimensions, alike ones near each other: ${words}`;
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  near([x, y]) {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    let best = null;
    let least = NEAR;
    for (const one of this.points) {
      const [a, b] = this.place(one, width, height);
      const away = Math.hypot(a - x, b - y);
      if (away < least) [best, least] = [one, away];
    }
    return best;
  }

  press(event) {
    if (event.button || !this.points.length) return;
    this.canvas.setPointerCapture(event.pointerId);
    this.line = [this.at(event)];
  }

  move(event) {
    if (!this.line) {
      const one = this.near(this.at(event));
      const state = one && this.page.stateOf(one);
      this.canvas.title = state ? `${state[2]}${state.length > 3 ? ", proposed" : ""}` : "";
      return;
    }
    this.line.push(this.at(event));
    this.draw();
  }

  lift(event) {
    const line = this.line;
    this.line = null;
    if (!line || !event) return this.draw();
    const far = Math.max(...line.map(([x, y]) => Math.hypot(x - line[0][0], y - line[0][1])));
    if (far < LEAST) {
      const one = this.near(line[0]);
      if (one) this.page.go(one);
      return this.draw();
    }
    const { clientWidth: width, clientHeight: height } = this.canvas;
    this.choose(this.points.filter((one) => inPolygon(this.place(one, width, height), line)));
    this.draw();
  }
}

function inPolygon([x, y], line) {
  let inside = false;
  for (let i = 0, j = line.length - 1; i < line.length; j = i++) {
    const [[a, b], [c, d]] = [line[i], line[j]];
    if (b > y !== d > y && x < ((c - a) * (y - b)) / (d - b) + a) inside = !inside;
  }
  return inside;
}
