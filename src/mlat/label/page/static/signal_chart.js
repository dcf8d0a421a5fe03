// The signal: a lane for each channel. uPlot makes the axes, the scales and the cursor; the lines of
// a long recording are drawn as pixels, column by column, which takes as long for an hour as for a day.
import { FONT, RIGHT, fitted, gutter } from "./canvas.js";
import { Lanes } from "./lanes.js";
import { look } from "./palette.js";

const X_AXIS = 24;

export class SignalChart {
  /** @param resized () => void */
  constructor(element, resized) {
    this.element = element;
    this.plot = null;
    this.layer = document.createElement("canvas"); // the pixels of the lines
    new ResizeObserver(() => {
      this.resize();
      resized();
    }).observe(element);
  }

  set(recording, pieces, view, inks, colour) {
    this.plot?.destroy();
    Object.assign(this, { recording, pieces, view, inks, colour });
    const d = recording.channels.length;
    // Values come relative to the usual range of their channel.
    const unit = { channels: recording.channels, middle: Array(d).fill(0), half: Array(d).fill(1) };
    this.lanes = new Lanes(unit, recording.channels.map((_, c) => c), null);
    this.marks = { spans: [], selection: null, cursor: 0 };
    this.plot = new uPlot(this.options(), [[0, 1], [null, null]], this.element);
    this.resize();
  }

  options() {
    const { inks, lanes } = this;
    const axis = { stroke: inks.soft, font: `11px ${FONT}`, ticks: { show: false } };
    return {
      width: 300,
      height: 200,
      legend: { show: false },
      cursor: { show: true, x: true, y: false, points: { show: false }, drag: { x: false, y: false } },
      padding: [2, RIGHT, 0, 0],
      scales: {
        x: { time: false, range: () => [this.view.begin, this.view.end] },
        y: { range: () => [0, lanes.total] },
      },
      series: [{}, { points: { show: false } }],
      axes: [
        {
          ...axis,
          size: X_AXIS,
          gap: 6,
          grid: { stroke: inks.faint, width: 1 },
          splits: (u) => this.view.ticks(Math.max(2, u.bbox.width / devicePixelRatio / 110)),
          values: (_, splits) => splits.map((step) => this.view.text(step)),
        },
        {
          ...axis,
          stroke: inks.ink,
          size: gutter(),
          gap: 8,
          grid: { show: false },
          splits: () => lanes.centres,
          values: (u) => this.names(u),
        },
      ],
      hooks: { drawClear: [(u) => this.ground(u)], draw: [(u) => this.lines(u)] },
    };
  }

  names(u) {
    const key = `${u.bbox.height} ${gutter()}`;
    if (this.named !== key) {
      this.named = key;
      u.ctx.font = `${11 * devicePixelRatio}px ${FONT}`;
      const room = (gutter() - 14) * devicePixelRatio;
      const every = Math.ceil((13 * devicePixelRatio * this.lanes.total) / Math.max(1, u.bbox.height));
      this.texts = this.recording.channels.map((name, c) => (c % every ? "" : fitted(u.ctx, name, room)));
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
    ctx.fillStyle = this.inks.stripe;
    const lane = height / this.lanes.total;
    for (let i = 0; i < this.lanes.total; i += 2) ctx.fillRect(left, top + i * lane, width, lane);
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
    const lane = h / this.lanes.total;
    for (let c = 0; c < d; c++) {
      const centre = (c + 0.5) * lane;
      const scale = 0.45 * lane;
      const [top, bottom] = [Math.max(0, centre - 0.6 * lane), Math.min(h - 1, centre + 0.6 * lane)];
      let before = -1;
      for (let x = 0; x < n; x++) {
        const i = x * d + c;
        if (!(low[i] <= high[i])) {
          before = -1;
          continue;
        }
        let from = Math.max(top, Math.min(bottom, centre - scale * high[i]));
        let to = Math.max(top, Math.min(bottom, centre - scale * low[i]));
        const middle = (from + to) / 2;
        if (before >= 0) {
          // Columns are joined, so that a steep line has no holes.
          from = Math.min(from, before);
          to = Math.max(to, before);
        }
        before = middle;
        for (let y = Math.round(from); y <= to || y === Math.round(from); y++) dots[y * n + x] = ink;
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
    const lane = box.height / this.lanes.total;
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.width, box.height);
    ctx.clip();
    ctx.strokeStyle = this.inks.ink;
    ctx.lineWidth = devicePixelRatio;
    ctx.beginPath();
    for (let c = 0; c < d; c++) {
      const centre = box.top + (c + 0.5) * lane;
      let pen = false;
      for (let k = 0; k < end - begin; k++) {
        const value = values[k * d + c];
        if (Number.isNaN(value)) {
          pen = false;
          continue;
        }
        const y = centre - 0.45 * lane * Math.max(-1.3, Math.min(1.3, value));
        if (pen) ctx.lineTo(x(begin + k), y);
        else ctx.moveTo(x(begin + k), y);
        pen = true;
      }
    }
    ctx.stroke();
    ctx.restore();
  }

  resize() {
    if (!this.plot) return;
    const { clientWidth: width, clientHeight: height } = this.element;
    if (width && height) this.plot.setSize({ width, height });
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
