// Labels and proposals as ribbons over time: of what is in view, and of the whole recording.
import { FONT, begin as beginCanvas, fitted } from "./canvas.js";
import { inks as readInks, look as lookOf, paint } from "./palette.js";

/** The look of a state; -1 is what is ignored. */
export function look(code) {
  if (code >= 0) return lookOf(code);
  const { unknown, ink } = readInks();
  return { fill: unknown, pattern: "falling", ink };
}

/** The first of sorted spans that ends after a step. */
export function firstAfter(spans, step) {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][1] > step) high = middle;
    else low = middle + 1;
  }
  return low;
}

export function inside(spans, begin, end) {
  const found = [];
  for (let i = firstAfter(spans, begin); i < spans.length && spans[i][0] < end; i++) found.push(spans[i]);
  return found;
}

/** @param shaded whether a span's fourth entry says how opaque it is */
export function drawRibbon(canvas, spans, view, colour, inks, shaded = false) {
  const { context, width, height } = beginCanvas(canvas);
  context.fillStyle = inks.stripe;
  context.fillRect(0, 0, width, height);
  context.font = `600 12px ${FONT}`;
  context.textBaseline = "middle";
  const x = (step) => ((step - view.begin) / view.length) * width;
  let drawn = -1;
  for (const span of inside(spans, view.begin, view.end)) {
    const [start, end, state] = span;
    const from = Math.max(-2, x(start));
    const to = Math.min(width + 2, x(end));
    if (to <= drawn) continue;
    drawn = Math.floor(Math.max(to, from + 1));
    const { fill, pattern, ink } = look(colour(state));
    // A confidence of a half is a guess between two: it is drawn faintly.
    context.globalAlpha = shaded ? 0.15 + 0.85 * Math.max(0, Math.min(1, 2 * span[3] - 1)) : 1;
    context.fillStyle = paint(context, fill, pattern, ink);
    context.fillRect(from, 0, Math.max(1, to - from), height);
    context.globalAlpha = 1;
    if (to - from > 3) {
      context.fillStyle = inks.surface;
      context.fillRect(to - 1, 0, 1, height);
    }
    if (to - from > 26) {
      const whole = shaded ? `${state} ${Math.round(100 * span[3])} %` : state;
      const text = context.measureText(whole).width <= to - from - 10 ? whole : fitted(context, state, to - from - 10);
      if (text) {
        const wide = context.measureText(text).width + 8;
        context.fillStyle = inks.surface;
        context.globalAlpha = 0.82;
        context.fillRect(Math.max(from, 0) + 2, 2, Math.min(wide, to - from - 4), height - 4);
        context.globalAlpha = 1;
        context.fillStyle = inks.ink;
        context.fillText(text, Math.max(from, 0) + 6, height / 2 + 1);
      }
    }
  }
}

const BAND = 10; // pixels of the labels, and of the proposals

/** The whole recording: how much the signal varies, labels above it, proposals below. */
export function drawOverview(canvas, labels, proposals, steps, colour, inks, pieces) {
  const { context, width, height } = beginCanvas(canvas);
  context.fillStyle = inks.stripe;
  context.fillRect(0, 0, width, height);
  const room = height - 2 * BAND - 4;
  const busy = pieces.activity(Math.max(1, Math.round(width)));
  context.fillStyle = inks.soft;
  busy.forEach((share, x) => context.fillRect(x, BAND + 2 + (room * (1 - share)) / 2, 1, Math.max(1, room * share)));
  for (const [spans, top, bottom, isShaded] of [[labels, 0, BAND, false], [proposals, height - BAND, height, true]]) {
    let drawn = -1;
    for (const [start, end, state, confidence] of spans) {
      const from = (start / steps) * width;
      const to = Math.max(from + 1, (end / steps) * width);
      if (to <= drawn) continue;
      drawn = Math.floor(to);
      context.globalAlpha = isShaded ? 0.15 + 0.85 * Math.max(0, 2 * confidence - 1) : 1;
      context.fillStyle = look(colour(state)).fill;
      context.fillRect(from, top, to - from, bottom - top);
    }
  }
  context.globalAlpha = 1;
}
