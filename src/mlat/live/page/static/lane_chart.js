// The chart of the channels over time, by uPlot: one lane each in one canvas.
import { FONT, fitted, gutter } from "./canvas.js";
import { LanePlot } from "./lane_plot.js";
import { figure } from "./words.js";

const SMALLEST = 11; // CSS pixels of a lane whose name can be read
const X_AXIS = 26;
const MOST_POINTS = 1600; // of a line; for more steps, minimum and maximum of every few are drawn

export class LaneChart extends LanePlot {
  /** @param choose (channel) => void, when a lane is clicked */
  constructor(element, choose, resized) {
    super(element, resized);
    this.choose = choose;
  }

  /** Make a new chart, for other lanes or another theme. */
  set(lanes, inks) {
    this.plot?.destroy();
    this.lanes = lanes;
    this.inks = inks;
    this.view = { begin: 0, end: 1, width: 1, ticks: [] };
    this.data = [[], ...lanes.shown.map(() => [])];
    this.element.style.minHeight = `${lanes.total * SMALLEST + X_AXIS}px`;
    const line = (c) => ({
      stroke: c === lanes.chosen ? inks.accent : inks.ink,
      width: c === lanes.chosen ? 1.75 : 1,
      points: { show: false },
      spanGaps: false,
    });
    const time = {
      size: X_AXIS,
      splits: () => this.view.ticks.map((tick) => tick.step),
      values: () => this.view.ticks.map((tick) => tick.text),
    };
    const hooks = { drawClear: [(u) => this.ground(u)], draw: [(u) => this.edges(u)] };
    this.plot = new uPlot(this.options(time, lanes.shown.map(line), hooks), this.data, this.element);
    this.plot.over.addEventListener("click", (event) => {
      const channel = lanes.at(this.plot.posToVal(event.offsetY, "y"));
      if (channel !== null) this.choose(channel);
    });
    this.resize();
  }

  names(u) {
    u.ctx.font = `${11 * devicePixelRatio}px ${FONT}`;
    const room = (gutter() - 14) * devicePixelRatio;
    return this.lanes.shown.map((c, i) => {
      const offset = this.lanes.offsets[i];
      const by = offset ? ` ${offset > 0 ? "+" : "−"}${figure(Math.abs(offset))}` : "";
      return fitted(u.ctx, this.lanes.model.channels[c], room - u.ctx.measureText(by).width) + by;
    });
  }

  /** The window that was classified last is marked, over the lanes' tints. */
  ground(u) {
    const { ctx } = u;
    ctx.save();
    this.stripes(u);
    ctx.fillStyle = this.inks.accent;
    ctx.globalAlpha = 0.16;
    const from = u.valToPos(this.view.last - this.view.width, "x", true);
    const to = u.valToPos(this.view.last, "x", true);
    ctx.fillRect(from, u.bbox.top, to - from, u.bbox.height);
    if (this.view.mark) this.marked(u, ...this.view.mark);
    ctx.restore();
  }

  /** What is marked to be taught. */
  marked(u, begin, end) {
    const [from, to] = [begin, end].map((step) => u.valToPos(step, "x", true));
    const [left, right] = [Math.max(from, u.bbox.left), Math.min(to, u.bbox.left + u.bbox.width)];
    if (right <= left) return;
    u.ctx.globalAlpha = 0.14;
    u.ctx.fillStyle = this.inks.ink;
    u.ctx.fillRect(left, u.bbox.top, right - left, u.bbox.height);
    u.ctx.globalAlpha = 1;
    for (const edge of [from, to]) if (edge === left || edge === right) u.ctx.fillRect(edge - 1, u.bbox.top, 2, u.bbox.height);
  }

  /** The usual range of the enlarged channel, in its own unit. */
  edges(u) {
    const i = this.lanes.shown.indexOf(this.lanes.chosen);
    if (i < 0) return;
    const { ctx } = u;
    ctx.save();
    ctx.font = `${11 * devicePixelRatio}px ${FONT}`;
    ctx.fillStyle = this.inks.soft;
    ctx.strokeStyle = this.inks.line;
    ctx.setLineDash([3, 4]);
    ctx.textAlign = "right";
    ctx.textBaseline = "middle";
    for (const side of [1, -1]) {
      const value = this.lanes.edge(i, side);
      const y = u.valToPos(this.lanes.place(i, value), "y", true);
      ctx.beginPath();
      ctx.moveTo(u.bbox.left, y);
      ctx.lineTo(u.bbox.left + u.bbox.width, y);
      ctx.stroke();
      ctx.fillText(figure(value), u.bbox.left - 8 * devicePixelRatio, y);
    }
    ctx.restore();
  }

  /** Where the lanes are drawn, in CSS pixels from the top of a canvas beside (or beneath). */
  box(canvas) {
    const ratio = devicePixelRatio || 1;
    const [here, there] = [this.element.getBoundingClientRect(), canvas.getBoundingClientRect()];
    const offset = there.left >= here.right ? here.top - there.top : 0;
    return { top: offset + this.plot.bbox.top / ratio, height: this.plot.bbox.height / ratio };
  }

  draw(buffer, view) {
    this.view = view;
    const begin = Math.max(buffer.first, Math.floor(view.begin));
    const end = Math.min(buffer.next, Math.ceil(view.end));
    const every = Math.max(1, Math.ceil((2 * (end - begin)) / MOST_POINTS));
    this.follow(buffer, begin, end);
    if (every > 2) this.coarse(buffer, begin, end, every);
    else this.fine(buffer, begin, end);
    this.plot.batch(() => {
      this.plot.setData(this.data, false);
      this.plot.setScale("x", { min: view.begin, max: view.end });
    });
  }

  /** Lanes whose values are all beyond the usual ones go where these are, and say how far. */
  follow(buffer, begin, end) {
    const every = Math.max(1, Math.floor((end - begin) / 200));
    this.lanes.shown.forEach((c, i) => {
      let [low, high] = [Infinity, -Infinity];
      for (let step = begin; step < end; step += every) {
        const value = buffer.values[buffer.at(step) * buffer.d + c];
        if (value < low) low = value;
        if (value > high) high = value;
      }
      if (low <= high) this.lanes.follow(i, low, high);
    });
  }

  fine(buffer, begin, end) {
    const n = Math.max(0, end - begin);
    for (const column of this.data) column.length = n;
    for (let k = 0; k < n; k++) this.data[0][k] = begin + k;
    this.lanes.shown.forEach((c, i) => {
      const column = this.data[i + 1];
      for (let k = 0; k < n; k++) {
        const value = buffer.values[buffer.at(begin + k) * buffer.d + c];
        column[k] = Number.isNaN(value) ? null : this.lanes.place(i, value);
      }
    });
  }

  /** Minimum and maximum of every few steps, which look like the whole line. */
  coarse(buffer, begin, end, every) {
    const start = Math.ceil(begin / every) * every; // the groups do not depend on where the view begins
    const n = 2 * Math.max(0, Math.floor((end - start) / every));
    for (const column of this.data) column.length = n;
    for (let k = 0; k < n; k++) this.data[0][k] = start + (k >> 1) * every + ((k & 1) * every) / 2;
    this.lanes.shown.forEach((c, i) => {
      const column = this.data[i + 1];
      for (let k = 0; k < n; k += 2) {
        let [low, high] = [Infinity, -Infinity];
        for (let step = start + (k >> 1) * every, left = every; left; left--, step++) {
          const value = buffer.values[buffer.at(step) * buffer.d + c];
          if (value < low) low = value;
          if (value > high) high = value;
        }
        column[k] = low === Infinity ? null : this.lanes.place(i, low);
        column[k + 1] = low === Infinity ? null : this.lanes.place(i, high);
      }
    });
  }
}
