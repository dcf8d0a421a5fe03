// The signal in pieces: of each zoom level only what is looked at is fetched, and kept for a while.
const PIECE = 1024; // blocks of a piece, as the server cuts them
const MOST = 600; // pieces that are kept
const AT_ONCE = 6;

export class Pieces {
  /** @param arrived () => void, when there is more to draw */
  constructor(recording, arrived) {
    this.recording = recording;
    this.arrived = arrived;
    this.held = new Map(); // "level/number" to Float32Array, the least used first
    this.under = new Set();
    this.wanted = [];
    this.coarsest = recording.blocks.length - 1;
    const last = this.count(this.coarsest);
    for (let i = 0; i < last; i++) this.wanted.push([this.coarsest, i]);
    this.fetchMore();
  }

  count(level) {
    return Math.ceil(this.recording.steps / this.recording.blocks[level] / PIECE);
  }

  /** The coarsest level whose blocks are no wider than a column of so many steps. */
  level(steps) {
    const { blocks } = this.recording;
    let level = 0;
    while (level < this.coarsest && blocks[level + 1] <= steps) level++;
    return level;
  }

  /** Ask for what is looked at now, and forget what was asked for before. */
  want(level, begin, end) {
    const block = this.recording.blocks[level] * PIECE;
    const first = Math.max(0, Math.floor(begin / block));
    const last = Math.min(this.count(level) - 1, Math.floor(end / block));
    const list = this.wanted.filter(([l]) => l === this.coarsest);
    for (let i = first; i <= last; i++) if (!this.held.has(`${level}/${i}`)) list.push([level, i]);
    this.wanted = list;
    this.fetchMore();
  }

  get(level, number) {
    const key = `${level}/${number}`;
    const piece = this.held.get(key);
    if (piece) {
      this.held.delete(key); // to the end: it was used last
      this.held.set(key, piece);
    }
    return piece;
  }

  async fetchMore() {
    while (this.wanted.length && this.under.size < AT_ONCE) {
      const [level, number] = this.wanted.shift();
      const key = `${level}/${number}`;
      if (this.held.has(key) || this.under.has(key)) continue;
      this.under.add(key);
      this.load(key).finally(() => {
        this.under.delete(key);
        this.fetchMore();
      });
    }
  }

  async load(key) {
    try {
      const answer = await fetch(`/signal/${this.recording.digest}/${key}`);
      if (!answer.ok) return;
      this.held.set(key, new Float32Array(await answer.arrayBuffer()));
    } catch {
      return; // the connection is lost; it is asked for again when it is drawn again
    }
    for (const old of this.held.keys()) {
      if (this.held.size <= MOST) break;
      if (!old.startsWith(`${this.coarsest}/`)) this.held.delete(old);
    }
    this.arrived();
  }

  /**
   * Minimum and maximum of every channel in each of n columns of the steps [begin, end), into
   * `low` and `high` (n * d); NaN where nothing is known yet. Whether all is of the level wanted.
   */
  columns(begin, end, n, low, high) {
    const d = this.recording.channels.length;
    low.fill(NaN);
    high.fill(NaN);
    const level = this.level((end - begin) / n);
    this.want(level, begin, end);
    let whole = true;
    const each = (end - begin) / n;
    const { steps, blocks } = this.recording;
    for (let x = 0; x < n; x++) {
      const from = Math.max(0, begin + x * each);
      const to = Math.min(steps, begin + (x + 1) * each);
      if (to <= 0 || from >= steps || to <= from) continue;
      for (let l = level; l <= this.coarsest; l++) {
        if (this.column(l, from, to, x, d, low, high, blocks[l])) break;
        whole = false;
      }
    }
    return whole;
  }

  column(level, from, to, x, d, low, high, block) {
    const first = Math.floor(from / block);
    const last = Math.max(first, Math.ceil(to / block) - 1);
    let number = -1;
    let piece = null;
    for (let b = first; b <= last; b++) {
      const now = Math.floor(b / PIECE);
      if (now !== number) {
        piece = this.held.get(`${level}/${now}`);
        number = now;
      }
      if (!piece) return false;
      const at = (b - number * PIECE) * d;
      for (let c = 0; c < d; c++) {
        const lo = level ? piece[2 * (at + c)] : piece[at + c];
        const hi = level ? piece[2 * (at + c) + 1] : lo;
        const i = x * d + c;
        if (!(low[i] <= lo)) if (lo === lo) low[i] = lo;
        if (!(high[i] >= hi)) if (hi === hi) high[i] = hi;
      }
    }
    return true;
  }

  /** How much all channels vary in each of n columns of the recording, from 0 to 1. */
  activity(n) {
    const d = this.recording.channels.length;
    const { steps, blocks } = this.recording;
    const [low, high] = [new Float32Array(n * d).fill(NaN), new Float32Array(n * d).fill(NaN)];
    const found = new Float32Array(n);
    for (let x = 0; x < n; x++) {
      this.column(this.coarsest, (x * steps) / n, ((x + 1) * steps) / n, x, d, low, high, blocks[this.coarsest]);
      for (let c = 0; c < d; c++) found[x] += high[x * d + c] - low[x * d + c] || 0;
    }
    const sorted = Float32Array.from(found).sort();
    const usual = sorted[Math.floor(0.95 * (n - 1))] || 1;
    return found.map((value) => Math.min(1, value / usual));
  }

  /** The values at a step (d), or null while they are on their way. */
  at(step) {
    const number = Math.floor(step / PIECE);
    const d = this.recording.channels.length;
    const piece = this.get(0, number);
    if (piece) return piece.subarray((step - number * PIECE) * d, (step - number * PIECE + 1) * d);
    const key = `0/${number}`;
    if (!this.under.has(key) && this.under.size < AT_ONCE) {
      this.under.add(key);
      this.load(key).finally(() => this.under.delete(key));
    }
    return null;
  }

  /** The steps themselves, (n * d) from `begin`; null if they are not all here. */
  steps(begin, end) {
    this.want(0, begin, end);
    const d = this.recording.channels.length;
    const values = new Float32Array((end - begin) * d);
    for (let number = Math.floor(begin / PIECE); number * PIECE < end; number++) {
      const piece = this.get(0, number);
      if (!piece) return null;
      const from = Math.max(begin, number * PIECE);
      const to = Math.min(end, (number + 1) * PIECE);
      values.set(piece.subarray((from - number * PIECE) * d, (to - number * PIECE) * d), (from - begin) * d);
    }
    return values;
  }
}
