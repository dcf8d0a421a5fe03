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
    this.offsets = shown.map(() => 0); // of channels that are not where they usually are
    this.centres = this.heights.map((height) => (top -= height) + height / 2);
  }

  /** Move a lane to its values, from `low` to `high`, where none of them is usual. */
  follow(i, low, high) {
    const c = this.shown[i];
    const [middle, half] = [this.model.middle[c], this.model.half[c]];
    const away = Math.abs(this.offsets[i]) > 0 ? 0.5 : 1; // so that it does not go back and forth
    const isOff = low > middle + away * half || high < middle - away * half;
    if (!isOff) this.offsets[i] = 0;
    else if (!this.offsets[i] || low > this.edge(i, 1) || high < this.edge(i, -1)) this.offsets[i] = (low + high) / 2 - middle;
  }

  /** A value's height, from 0 (bottom) to `total`, within its lane, which usual values fill. */
  place(i, value) {
    const c = this.shown[i];
    const z = (0.45 * (value - this.model.middle[c] - this.offsets[i])) / this.model.half[c];
    return this.centres[i] + this.heights[i] * Math.max(-0.49, Math.min(0.49, z));
  }

  /** The value at the edge of a lane: +1 above, -1 below the middle. */
  edge(i, side) {
    const c = this.shown[i];
    return this.model.middle[c] + this.offsets[i] + side * this.model.half[c];
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
