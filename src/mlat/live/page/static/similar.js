// The live window over its nearest references, in the same lanes as the channels over time.
import { FONT, begin } from "./canvas.js";
import { look } from "./palette.js";

const MOST_KEPT = 64; // reference windows
const REQUEST_EVERY = 150; // milliseconds: the nearest reference changes with every step
const MOST_DRAWN = 3; // references at once

export class References {
  /** @param arrived () => void, when there is something new to draw */
  constructor(arrived) {
    this.arrived = arrived;
    this.clear();
  }

  clear() {
    this.kept = new Map();
    this.drawn = null; // {rows, step, distance}: which references were nearest, at which step
    this.busy = false;
    this.last = 0;
  }

  /**
   * Fetch the references that are nearest now. Until they are here, the last ones stay drawn
   * together with the live window that they were nearest to, so that the two belong together.
   */
  want({ neighbours, step, distance }) {
    const wanted = { rows: neighbours.slice(0, MOST_DRAWN), step, distance };
    if (wanted.rows.every((row) => this.kept.has(row))) this.drawn = wanted;
    else if (!this.busy && performance.now() - this.last >= REQUEST_EVERY) this.fetch(wanted);
  }

  async fetch(wanted) {
    this.busy = true;
    this.last = performance.now();
    const kept = this.kept;
    try {
      for (const row of wanted.rows) {
        if (kept.has(row)) continue;
        const answer = await fetch(`/references/${row}`);
        kept.set(row, answer.ok ? await answer.json() : null);
      }
      while (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value);
      if (kept === this.kept) this.drawn = wanted;
      this.arrived();
    } catch {
      // the server is away: what is drawn stays, and the next step tries again
    }
    this.busy = false;
  }

  windows() {
    return (this.drawn?.rows ?? []).map((row) => this.kept.get(row)).filter((window) => window);
  }
}

/** @param box where the lanes beside are drawn: {top, height} from the top of the canvas */
export function drawSimilar(canvas, buffer, end, model, lanes, box, windows, codes, inks) {
  const { context: c, width, height } = begin(canvas);
  const [left, right] = [6, 6];
  const y = (place) => box.top + (1 - place / lanes.total) * box.height;
  const x = (k) => left + ((k + 0.5) / model.width) * (width - left - right);
  lanes.centres.forEach((centre, i) => {
    if (i % 2) return;
    const half = lanes.heights[i] / 2;
    c.fillStyle = inks.stripe;
    c.fillRect(left, y(centre + half), width - left - right, y(centre - half) - y(centre + half));
  });
  c.lineJoin = c.lineCap = "round";
  for (const window of windows.filter(({ values }) => values).reverse()) {
    c.strokeStyle = look(codes(window.state)).fill;
    c.lineWidth = window === windows[0] ? 4 : 2;
    c.globalAlpha = window === windows[0] ? 0.75 : 0.45;
    const lines = new Path2D(); // all lanes in one path: one stroke costs less than many
    lanes.shown.forEach((channel, i) => {
      trace(lines, model.width, (k) => window.values[channel][k], (v) => y(lanes.place(i, v)), x);
    });
    c.stroke(lines);
  }
  c.globalAlpha = 1;
  c.strokeStyle = inks.ink;
  c.lineWidth = 1.5;
  const start = end - model.width;
  if (start < buffer.first) return;
  const lines = new Path2D();
  lanes.shown.forEach((channel, i) => {
    const value = (k) => buffer.values[buffer.at(start + k) * buffer.d + channel];
    trace(lines, model.width, value, (v) => y(lanes.place(i, v)), x);
  });
  c.stroke(lines);
  c.font = `11px ${FONT}`;
  c.fillStyle = inks.soft;
  c.textBaseline = "alphabetic";
  const below = Math.min(height - 4, box.top + box.height + 18);
  c.fillText(`−${model.width - 1} steps`, left, below);
  c.textAlign = "right";
  c.fillText("now", width - right, below);
  c.textAlign = "left";
}

function trace(path, n, value, y, x) {
  let drawing = false;
  for (let k = 0; k < n; k++) {
    const v = value(k);
    if (v === null || Number.isNaN(v)) {
      drawing = false;
      continue;
    }
    if (drawing) path.lineTo(x(k), y(v));
    else path.moveTo(x(k), y(v));
    drawing = true;
  }
}
