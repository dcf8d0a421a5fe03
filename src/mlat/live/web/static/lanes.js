// The geometry of lanes: each channel has one, scaled to its usual values; the enlarged is higher.
const ENLARGED = 6; // times the height of other lanes

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

  /** A value's height, from 0 (bottom) to `total`, limited to its lane and a little more. */
  place(i, value) {
    const c = this.shown[i];
    // Usual values fill the lane; lines may reach a little into the next.
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

/** Groups of channels whose names have the same beginning ("wrist x"), if there are several. */
export function groups(channels) {
  const found = new Map();
  channels.forEach((name, c) => {
    const stem = /^(.+)[ _.:/-][^ _.:/-]+$/.exec(name)?.[1];
    if (stem) found.set(stem, [...(found.get(stem) ?? []), c]);
  });
  const several = [...found].filter(([, members]) => members.length > 1);
  return several.length > 1 ? several : [];
}
