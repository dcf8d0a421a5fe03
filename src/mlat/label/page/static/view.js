// Which steps are shown, and how times are written.
export class View {
  constructor(recording) {
    this.steps = recording.steps;
    this.rate = recording.rate;
    this.begin = 0;
    this.end = Math.max(1, recording.steps);
  }

  get length() {
    return this.end - this.begin;
  }

  set(begin, length) {
    const shortest = Math.min(20, Math.max(1, this.steps));
    length = Math.max(shortest, Math.min(length, this.steps));
    this.begin = Math.max(0, Math.min(begin, this.steps - length));
    this.end = this.begin + length;
  }

  zoom(factor, at = this.begin + this.length / 2) {
    const length = Math.max(20, Math.min(this.length * factor, this.steps));
    this.set(at - ((at - this.begin) / this.length) * length, length);
  }

  pan(steps) {
    this.set(this.begin + steps, this.length);
  }

  /** Show a stretch, with some of what is around it; nothing moves if it is seen well already. */
  show(start, end) {
    const wide = end - start;
    if (start >= this.begin && end <= this.end && wide > this.length / 40) return;
    const length = Math.max(this.length < 3 * wide ? 3 * wide : Math.min(this.length, 20 * wide), 200);
    this.set((start + end - length) / 2, length);
  }

  /** A step as a time, or as its number where nobody knows how long a step takes. */
  text(step, precise = false) {
    if (!this.rate) return Math.round(step).toLocaleString("en-GB");
    const seconds = step / this.rate;
    const digits = precise ? 2 : this.length / this.rate < 10 ? 1 : 0;
    const h = Math.floor(seconds / 3600);
    const m = Math.floor((seconds % 3600) / 60);
    const s = (seconds % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
    return h ? `${h}:${String(m).padStart(2, "0")}:${s}` : `${m}:${s}`;
  }

  /** How long some steps are. */
  duration(steps) {
    if (!this.rate) return `${Math.round(steps).toLocaleString("en-GB")} steps`;
    const seconds = steps / this.rate;
    if (seconds < 120) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
    return seconds < 7200 ? `${(seconds / 60).toFixed(1)} min` : `${(seconds / 3600).toFixed(1)} h`;
  }

  ticks(most) {
    const unit = this.rate ?? 1;
    const span = this.length / unit / most;
    const sizes = this.rate
      ? [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]
      : Array.from({ length: 30 }, (_, k) => [1, 2, 5][k % 3] * 10 ** Math.floor(k / 3));
    const size = (sizes.find((s) => s >= span) ?? sizes.at(-1)) * unit;
    const found = [];
    for (let k = Math.ceil(this.begin / size); k * size <= this.end; k++) found.push(k * size);
    return found;
  }
}
