// The last steps, by their number: no step is kept twice, and a step that never came is marked.
export const CAPACITY = 12000;
export const MISSED = -1; // the label of a step that never came

export class Buffer {
  constructor(channels) {
    this.d = channels;
    this.values = new Float32Array(CAPACITY * channels);
    this.proba = new Float32Array(CAPACITY);
    this.agreement = new Float32Array(CAPACITY); // the weight of the experts who say the same; NaN of an unknown state
    this.label = new Int16Array(CAPACITY);
    this.arrived = new Float64Array(CAPACITY); // milliseconds since 1970
    this.time = new Float64Array(CAPACITY); // seconds, as the source says; NaN without
    this.labels = []; // [state or null, why]
    this.indices = new Map(); // of labels, by their text
    this.clear();
  }

  clear() {
    this.first = this.next = 0;
    this.begun = false;
    this.missed = this.doubled = 0;
  }

  at(step) {
    return step % CAPACITY;
  }

  add(frame) {
    if (!frame.n) return;
    if (!this.begun || frame.first - this.next > CAPACITY) {
      this.first = this.next = frame.first;
      this.begun = true;
    }
    while (this.next < frame.first) this.skip();
    const ends = [...frame.runs.slice(1).map((run) => run[0]), frame.first + frame.n];
    const [oldest, newest] = frame.arrived;
    let run = 0;
    for (let i = 0; i < frame.n; i++) {
      const step = frame.first + i;
      while (step >= ends[run]) run++;
      if (step < this.next) {
        this.doubled++;
        continue;
      }
      const at = this.at(step);
      for (let c = 0; c < this.d; c++) this.values[at * this.d + c] = frame.values[i * frame.d + c];
      this.proba[at] = frame.proba[i];
      this.agreement[at] = frame.agreement ? frame.agreement[i] : Number.isNaN(frame.proba[i]) ? NaN : 1;
      this.label[at] = this.indexOf(frame.runs[run]);
      this.arrived[at] = frame.n > 1 ? oldest + ((newest - oldest) * i) / (frame.n - 1) : newest;
      this.time[at] = frame.seconds ? frame.time + frame.seconds[i] : NaN;
      this.forward();
    }
  }

  skip() {
    const at = this.at(this.next);
    this.values.fill(NaN, at * this.d, (at + 1) * this.d);
    this.proba[at] = this.agreement[at] = this.time[at] = this.arrived[at] = NaN;
    this.label[at] = MISSED;
    this.missed++;
    this.forward();
  }

  forward() {
    this.next++;
    this.first = Math.max(this.first, this.next - CAPACITY);
  }

  indexOf([, state, why]) {
    const key = `${typeof state} ${state}\n${why}`;
    if (!this.indices.has(key)) {
      this.indices.set(key, this.labels.length);
      this.labels.push([state, why]);
    }
    return this.indices.get(key);
  }

  /** Runs of one label within begin..end-1: [begin, end, label]. */
  runs(begin, end) {
    const found = [];
    for (let step = Math.max(begin, this.first); step < Math.min(end, this.next); step++) {
      const label = this.label[this.at(step)];
      const last = found.at(-1);
      if (last && last[2] === label) last[1] = step + 1;
      else found.push([step, step + 1, label]);
    }
    return found;
  }

  /** Steps a second over the last 500 steps: by the source's clock, or else by arrival. */
  rate() {
    const end = this.next - 1;
    let begin = Math.max(this.first, this.next - 500);
    while (begin < end && this.label[this.at(begin)] === MISSED) begin++;
    if (end - begin < 8) return null;
    const step = this.usualStep(begin, end);
    if (step !== null) return 1 / step;
    const [a, b] = [this.at(begin), this.at(end)];
    const elapsed = (this.arrived[b] - this.arrived[a]) / 1000;
    return elapsed > 0.05 ? (end - begin) / elapsed : null;
  }

  /** The median time between steps by the source's clock: a gap does not count; null without. */
  usualStep(begin, end) {
    const elapsed = [];
    for (let step = begin + 1; step <= end; step++) {
      const seconds = this.time[this.at(step)] - this.time[this.at(step - 1)];
      if (seconds > 0) elapsed.push(seconds);
    }
    if (elapsed.length < 4) return null;
    return Float64Array.from(elapsed).sort()[elapsed.length >> 1];
  }

  /** The first step within the seconds before `end`: by the source's clock, or else by the rate. */
  stepAgo(seconds, end, rate) {
    if (!(seconds > 0)) return end;
    if (Number.isNaN(this.time[this.at(end - 1)])) return Math.max(this.first, Math.round(end - seconds * (rate ?? 1)));
    let step = end;
    while (step > this.first && !(this.secondsBefore(step - 1, end) >= seconds)) step--;
    return step;
  }

  /** Seconds from a step to the last one before `end` by the source's clock; NaN where unknown. */
  secondsBefore(step, end) {
    if (step < this.first || step >= end) return NaN;
    return this.time[this.at(end - 1)] - this.time[this.at(step)];
  }
}
