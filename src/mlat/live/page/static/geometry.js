// Lanes: every channel has its own, scaled to its usual values; the enlarged one is higher.
const ENLARGED = 6; // lanes that the enlarged one takes

export class Lanes {
  /**
   * @param shown channels, top to bottom
   * @param chosen the enlarged channel, or null
   */
  constructor(model, shown, chosen) {
    this.model = model;
    this.shown = shown;
    this.chosen = shown.includes(chosen) ? chosen : null;
    this.heights = shown.map((c) => (c === this.chosen && shown.length > 1 ? ENLARGED : 1));
    this.total = this.heights.reduce((sum, height) => sum + height, 0);
    let top = this.total;
    this.centres = this.heights.map((height) => (top -= height) + height / 2);
  }

  /** A value's height, from 0 (bottom) to `total`; one beyond the lane is drawn at its edge. */
  place(i, value) {
    const c = this.shown[i];
    // Usual values fill the lane; lines may reach a little into the next, as hand-drawn traces do.
    const z = (0.45 * (value - this.model.middle[c])) / this.model.half[c];
    return this.centres[i] + this.heights[i] * Math.max(-0.6, Math.min(0.6, z));
  }

  /** The value at the edge of a lane: +1 above, -1 below the middle. */
  edge(i, side) {
    const c = this.shown[i];
    return this.model.middle[c] + side * this.model.half[c];
  }

  /** Which channel lies at a height. */
  at(y) {
    const i = this.centres.findIndex((centre, k) => Math.abs(y - centre) <= this.heights[k] / 2);
    return i < 0 ? null : this.shown[i];
  }
}

/** Channels whose names begin alike ("wrist x", "acc_y"), where that makes a few groups. */
export function groups(channels) {
  const found = new Map();
  channels.forEach((name, c) => {
    const stem = /^(.+)[ _.:/-][^ _.:/-]+$/.exec(name)?.[1];
    if (stem) found.set(stem, [...(found.get(stem) ?? []), c]);
  });
  const several = [...found].filter(([, members]) => members.length > 1);
  return several.length > 1 ? several : [];
}

export function figure(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}
