// The signal: a lane for each channel. The lines of a long recording are drawn as pixels, column by
// column, which takes as long for an hour as for a day.
import { FONT, fitted, gutter } from "./canvas.js";
import { LanePlot } from "./lane_plot.js";
import { Lanes } from "./lanes.js";
import { look } from "./ribbons.js";

const X_AXIS = 24;
const LIMIT = 1.06; // of the usual values: lines stay in their band
const BUSY = 8; // steps in a column of pixels, from which the lines are an envelope
const LIGHT = 140; // of 255: how opaque it is where it is high
const VALUE_ROOM = 27; // pixels of a lane that has its value under its name

export class SignalChart extends LanePlot {
  constructor(element, resized) {
    super(element, resized);
    [this.hidden, this.chosen, this.scale] = [new Set(), null, "usual"];
    this.layer = document.createElement("canvas"); // the pixels of the lines
  }

  set(recording, pieces, view, inks, colour) {
    this.plot?.destroy();
    Object.assign(this, { recording, pieces, view, inks, colour });
    const d = recording.channels.length;
    // Values come relative to the usual range of their channel.
    const unit = { channels: recording.channels, middle: Array(d).fill(0), half: Array(d).fill(1) };
    const all = recording.channels.map((_, c) => c);
    this.lanes = new Lanes(unit, all.filter((c) => !this.hidden.has(c)), this.chosen);
    this.named = null;
    this.marks ??= { spans: [], selection: null, cursor: 0 };
    const time = {
      size: X_AXIS,
      splits: (u) => this.view.ticks(Math.max(2, u.bbox.width / devicePixelRatio / 110)),
      values: (_, splits) => splits.map((step) => this.view.text(step)),
    };
    const hooks = { drawClear: [(u) => this.ground(u)], draw: [(u) => this.lines(u)] };
    const options = this.options(time, [{ points: { show: false } }], hooks);
    this.plot = new uPlot(options, [[0, 1], [null, null]], this.element);
    this.resize();
  }

  names(u) {
    const cursor = Math.min(Math.floor(this.marks.cursor), this.recording.steps - 1);
    const values = this.pieces.at(Math.max(0, cursor));
    const key = `${u.bbox.height} ${gutter()} ${cursor} ${values !== null}`;
    if (this.named !== key) {
      this.named = key;
      u.ctx.font = `${11 * devicePixelRatio}px ${FONT}`;
      const room = (gutter() - 14) * devicePixelRatio;
      const lane = u.bbox.height / devicePixelRatio / this.lanes.total;
      const every = Math.ceil(13 / Math.max(1, lane));
      this.texts = this.lanes.shown.map((c, i) => {
        if (i % every && c !== this.chosen) return "";
        const name = fitted(u.ctx, this.recording.channels[c], room);
        const value = lane * this.lanes.heights[i] > VALUE_ROOM ? this.valueOf(c, values) : "";
        return value ? `${name}\n${value}` : name;
      });
    }
    return this.texts;
  }

  /** Lanes in turn tinted, and the labels behind them. */
  ground(u) {
    const { ctx } = u;
    const { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    this.stripes(u);
    const x = (step) => left + ((step - this.view.begin) / this.view.length) * width;
    ctx.globalAlpha = 0.16;
    let drawn = -1;
    for (const [start, end, state] of this.marks.spans) {
      const [from, to] = [x(start), x(end)];
      if (to <= drawn) continue; // thinner than a pixel, beside one that was drawn
      ctx.fillStyle = look(this.colour(state)).fill;
      ctx.fillRect(from, top, Math.max(1, to - from), height);
      drawn = Math.floor(Math.max(to, from + 1));
    }
    ctx.restore();
  }

  lines(u) {
    const { ctx } = u;
    const box = u.bbox;
    const x = (step) => box.left + ((step - this.view.begin) / this.view.length) * box.width;
    if (this.view.length < box.width / devicePixelRatio / 2) this.polylines(ctx, box, x);
    else this.pixels(ctx, box);
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    const { selection, cursor } = this.marks;
    if (selection) {
      const [from, to] = [x(selection[0]), x(selection[1])];
      ctx.fillStyle = this.inks.accent;
      ctx.globalAlpha = 0.22;
      ctx.fillRect(from, box.top, Math.max(2, to - from), box.height);
      ctx.globalAlpha = 1;
      ctx.fillRect(from, box.top, 2 * devicePixelRatio, box.height);
      ctx.fillRect(to - 2 * devicePixelRatio, box.top, 2 * devicePixelRatio, box.height);
    }
    ctx.fillStyle = this.inks.warn;
    ctx.fillRect(x(cursor) - devicePixelRatio / 2, box.top, 1.5 * devicePixelRatio, box.height);
    ctx.restore();
  }

  /** The channel, its middle and half its height in pixels, of each lane. */
  bands(height) {
    const { lanes } = this;
    const unit = height / lanes.total;
    return lanes.shown.map((c, i) => [c, (lanes.total - lanes.centres[i]) * unit, 0.45 * lanes.heights[i] * unit]);
  }

  /** How a channel's values become heights from -1 to 1; what is beyond stays in its band. */
  scaled(c, low, high, n, d) {
    if (this.scale !== "view") return (z) => Math.max(-LIMIT, Math.min(LIMIT, z));
    let [least, most] = [Infinity, -Infinity];
    for (let i = c; i < n * d; i += d) {
      if (low[i] < least) least = low[i];
      if (high[i] > most) most = high[i];
    }
    const [middle, half] = [(least + most) / 2, (most - least) / 2 || 1];
    return (z) => (z - middle) / half;
  }

  /** Many steps in a column: from its smallest to its largest value. */
  pixels(ctx, box) {
    const [n, h] = [Math.round(box.width), Math.round(box.height)];
    const d = this.recording.channels.length;
    if (n < 2 || h < 2) return;
    const { layer } = this;
    if (layer.width !== n || layer.height !== h) {
      layer.width = n;
      layer.height = h;
      this.image = layer.getContext("2d").createImageData(n, h);
      this.dots = new Uint32Array(this.image.data.buffer);
      this.low = new Float32Array(n * d);
      this.high = new Float32Array(n * d);
    }
    const { low, high, dots } = this;
    this.whole = this.pieces.columns(this.view.begin, this.view.end, n, low, high);
    dots.fill(0);
    const ink = pixel(this.inks.ink);
    const light = (ink & 0x00ffffff) | (LIGHT << 24); // of an envelope: of many steps in a column
    const inside = this.view.length / n > BUSY ? light : ink;
    for (const [c, centre, half] of this.bands(h)) {
      const height = this.scaled(c, low, high, n, d);
      let before = -1;
      for (let x = 0; x < n; x++) {
        const i = x * d + c;
        if (!(low[i] <= high[i])) {
          before = -1;
          continue;
        }
        let from = Math.max(0, centre - half * height(high[i]));
        let to = Math.min(h - 1, centre - half * height(low[i]));
        const middle = (from + to) / 2;
        if (before >= 0) {
          // Columns are joined, so that a steep line has no holes.
          from = Math.min(from, before);
          to = Math.max(to, before);
        }
        before = middle;
        const [first, last] = [Math.round(from), Math.max(Math.round(from), Math.floor(to))];
        const shade = last - first < 4 ? ink : inside;
        for (let y = first; y <= last; y++) dots[y * n + x] = shade;
      }
    }
    layer.getContext("2d").putImageData(this.image, 0, 0);
    ctx.drawImage(layer, Math.round(box.left), Math.round(box.top));
  }

  /** Few steps: the lines themselves. */
  polylines(ctx, box, x) {
    const begin = Math.max(0, Math.floor(this.view.begin));
    const end = Math.min(this.recording.steps, Math.ceil(this.view.end) + 1);
    const values = this.pieces.steps(begin, end);
    this.whole = values !== null;
    if (!values) return this.pixels(ctx, box);
    const d = this.recording.channels.length;
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    ctx.strokeStyle = this.inks.ink;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    for (const [c, centre, half] of this.bands(box.height)) {
      const height = this.scaled(c, values, values, end - begin, d);
      let pen = false;
      for (let k = 0; k < end - begin; k++) {
        const value = values[k * d + c];
        if (Number.isNaN(value)) {
          pen = false;
          continue;
        }
        const y = box.top + centre - half * height(value);
        if (pen) ctx.lineTo(x(begin + k), y);
        else ctx.moveTo(x(begin + k), y);
        pen = true;
      }
    }
    ctx.stroke();
    ctx.restore();
  }

  /** Show these channels alone, one of them higher, by their usual values or by those in view. */
  choose({ hidden = this.hidden, chosen = this.chosen, scale = this.scale }) {
    Object.assign(this, { hidden, chosen, scale });
    if (this.plot) this.set(this.recording, this.pieces, this.view, this.inks, this.colour);
  }

  /** The channel at a height of the screen. */
  channelAt(clientY) {
    const box = this.plot.over.getBoundingClientRect();
    return this.lanes.at(this.lanes.total * (1 - (clientY - box.top) / Math.max(1, box.height)));
  }

  /** A channel's value at the cursor, as it was measured; empty while it is not known. */
  valueOf(c, values) {
    if (!values || Number.isNaN(values[c])) return "";
    const { middle, half } = this.recording;
    return String(Number((middle[c] + half[c] * values[c]).toPrecision(3)));
  }

  draw(marks) {
    if (!this.plot) return;
    this.marks = marks;
    this.plot.redraw(false, true);
    this.plot.setScale("x", { min: this.view.begin, max: this.view.end });
  }

  /** The step at a place of the screen. */
  step(clientX) {
    const box = this.plot.over.getBoundingClientRect();
    return this.view.begin + ((clientX - box.left) / Math.max(1, box.width)) * this.view.length;
  }
}

const known = new Map();

/** A colour of the style sheet as a pixel. */
function pixel(colour) {
  if (!known.has(colour)) {
    const context = document.createElement("canvas").getContext("2d");
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    known.set(colour, new Uint32Array(context.getImageData(0, 0, 1, 1).data.buffer)[0]);
  }
  return known.get(colour);
}
