// Labels and proposals as ribbons over time: of what is in view, and of the whole recording.
import { FONT, begin as beginCanvas, fitted } from "./canvas.js";
import { look, paint } from "./palette.js";

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

/** The whole recording: labels above, proposals below them. */
export function drawOverview(canvas, labels, proposals, steps, colour, inks) {
  const { context, width, height } = beginCanvas(canvas);
  context.fillStyle = inks.faint;
  context.fillRect(0, 0, width, height);
  const half = Math.round(height * 0.62);
  for (const [spans, top, bottom, isShaded] of [[labels, 0, half, false], [proposals, half + 1, height, true]]) {
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
