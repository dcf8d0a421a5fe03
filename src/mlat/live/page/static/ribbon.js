// The predicted states and their probabilities over time, aligned with the channels.
import { FONT, RIGHT, begin, fitted, gutter } from "./canvas.js";
import { MISSED } from "./buffer.js";
import { look, paint } from "./palette.js";
import { reasonShort } from "./words.js";

function scale(view, width) {
  const left = gutter();
  const room = width - left - RIGHT;
  return { left, room, x: (step) => left + ((step - view.begin) / (view.end - view.begin)) * room };
}

/** @param codes (state) => its number, which decides colour and pattern */
export function drawRibbon(canvas, buffer, view, codes, inks) {
  const { context: c, width, height } = begin(canvas);
  const { left, room, x } = scale(view, width);
  c.save();
  c.beginPath();
  c.rect(left, 0, room, height);
  c.clip();
  c.fillStyle = inks.stripe;
  c.fillRect(left, 0, room, height);
  for (const [from, to, label] of buffer.runs(Math.floor(view.begin), Math.ceil(view.end))) {
    const [x0, x1] = [x(from), x(to)];
    const { fill, pattern, ink, text } = shown(buffer, label, codes, inks);
    if (label !== MISSED) {
      c.fillStyle = paint(c, fill, pattern, ink);
      c.fillRect(x0, 0, x1 - x0 + 0.5, height);
    }
    name(c, text, Math.max(x0, left), Math.min(x1, left + room), height, fill, ink);
  }
  if (view.mark) {
    const [x0, x1] = view.mark.map(x);
    c.strokeStyle = inks.surface;
    c.lineWidth = 5;
    c.strokeRect(x0, 1.5, x1 - x0, height - 3);
    c.strokeStyle = inks.ink;
    c.lineWidth = 2;
    c.strokeRect(x0, 1.5, x1 - x0, height - 3);
  }
  c.restore();
}

function shown(buffer, label, codes, inks) {
  if (label === MISSED) return { fill: inks.stripe, ink: inks.soft, text: "not received" };
  const [state, why] = buffer.labels[label];
  if (state !== null) return { ...look(codes(state)), text: String(state) };
  const text = why ? `unknown: ${reasonShort(why)}` : "unknown";
  return { fill: inks.unknown, pattern: "cross", ink: inks.ink, text };
}

/** The name of a run in a box of its colour, where there is room. */
function name(c, text, from, to, height, fill, ink) {
  c.font = `600 12px ${FONT}`;
  let fits = to - from < 26 ? "" : fitted(c, text, to - from - 14);
  if (fits.length < 7 && fits !== text) fits = text.startsWith("unknown") && to - from > 12 ? "?" : "";
  if (!fits) return;
  const half = c.measureText(fits).width / 2 + 5;
  const middle = (from + to) / 2;
  c.fillStyle = fill;
  c.fillRect(middle - half, height / 2 - 9, 2 * half, 18);
  c.fillStyle = ink;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillText(fits, middle, height / 2 + 0.5);
}

/**
 * How far the experts agree: a bar as high as the weight of those who say the predicted state, and
 * above it, hatched, that of those who say another. Nothing where the state is unknown.
 */
export function drawAgreement(canvas, buffer, view, inks) {
  const { context: c, width, height } = begin(canvas);
  const { left, room, x } = scale(view, width);
  c.font = `11px ${FONT}`;
  c.fillStyle = inks.soft;
  c.textAlign = "right";
  c.textBaseline = "middle";
  c.fillText("all", left - 8, 7);
  c.fillText("none", left - 8, height - 6);
  c.save();
  c.beginPath();
  c.rect(left, 0, room, height);
  c.clip();
  c.fillStyle = inks.stripe;
  c.fillRect(left, 0, room, height);
  const against = paint(c, inks.warn, "rising", inks.surface);
  const first = Math.max(buffer.first, Math.floor(view.begin));
  const end = Math.min(buffer.next, Math.ceil(view.end));
  for (let step = first; step < end; ) {
    const part = buffer.agreement[buffer.at(step)];
    let stop = step + 1; // steps of the same height in one rectangle
    while (stop < end && buffer.agreement[buffer.at(stop)] === part) stop++;
    if (!Number.isNaN(part)) {
      const [x0, x1] = [x(step), x(stop)];
      const top = (1 - part) * height;
      c.fillStyle = against;
      c.fillRect(x0, 0, x1 - x0, top);
      c.globalAlpha = 0.35; // so that those who disagree stand out
      c.fillStyle = inks.accent;
      c.fillRect(x0, top, x1 - x0, height - top);
      c.globalAlpha = 1;
    }
    step = stop;
  }
  c.restore();
}

/** The probability as a line over a tinted area; a gap where the state is unknown. */
export function drawConfidence(canvas, buffer, view, inks) {
  const { context: c, width, height } = begin(canvas);
  const { left, room, x } = scale(view, width);
  const y = (p) => 5 + (1 - p) * (height - 10);
  c.font = `11px ${FONT}`;
  c.fillStyle = inks.soft;
  c.strokeStyle = inks.faint;
  c.textAlign = "right";
  c.textBaseline = "middle";
  for (const level of [0, 0.5, 1]) {
    c.beginPath();
    c.moveTo(left, y(level));
    c.lineTo(left + room, y(level));
    c.stroke();
    c.fillText(`${100 * level} %`, left - 8, Math.min(height - 6, Math.max(6, y(level))));
  }
  c.save();
  c.beginPath();
  c.rect(left, 0, room, height);
  c.clip();
  const first = Math.max(buffer.first, Math.floor(view.begin));
  const end = Math.min(buffer.next, Math.ceil(view.end));
  const line = new Path2D();
  const area = new Path2D();
  let open = null;
  const close = (step) => {
    if (open === null) return;
    area.lineTo(x(step - 0.5), y(0));
    area.lineTo(x(open - 0.5), y(0));
    open = null;
  };
  for (let step = first; step < end; step++) {
    const p = buffer.proba[buffer.at(step)];
    if (Number.isNaN(p)) {
      close(step);
      continue;
    }
    if (open === null) {
      open = step;
      line.moveTo(x(step - 0.5), y(p));
      area.moveTo(x(step - 0.5), y(p));
    }
    line.lineTo(x(step + 0.5), y(p));
    area.lineTo(x(step + 0.5), y(p));
  }
  close(end);
  c.globalAlpha = 0.18;
  c.fillStyle = inks.accent;
  c.fill(area);
  c.globalAlpha = 1;
  c.strokeStyle = inks.accent;
  c.lineWidth = 1.5;
  c.stroke(line);
  c.restore();
}
