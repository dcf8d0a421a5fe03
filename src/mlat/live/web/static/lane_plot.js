// A chart over time with a lane for each channel, but for what is drawn in the lanes: uPlot makes the
// axes, the scales and the cursor. A chart of a page extends it, and has `lanes`, `inks`, `view` (its
// begin and end) and `names` (the text beside each lane).
import { FONT, RIGHT, gutter } from "./canvas.js";

export class LanePlot {
  /** @param resized () => void, to draw again what stands beside */
  constructor(element, resized) {
    this.element = element;
    this.plot = null;
    new ResizeObserver(() => {
      this.resize();
      resized();
    }).observe(element);
  }

  /**
   * What uPlot is given.
   * @param time the height of the axis of time (size), its ticks (splits) and their texts (values)
   */
  options(time, series, hooks) {
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
      series: [{}, ...series],
      axes: [
        { ...axis, ...time, gap: 6, grid: { stroke: inks.faint, width: 1 } },
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
      hooks,
    };
  }

  /** Every other lane is tinted. */
  stripes(u) {
    const { left, top, width, height } = u.bbox;
    const unit = height / this.lanes.total;
    u.ctx.fillStyle = this.inks.stripe;
    this.lanes.centres.forEach((centre, i) => {
      const high = this.lanes.heights[i];
      if (i % 2 === 0) u.ctx.fillRect(left, top + (this.lanes.total - centre - high / 2) * unit, width, high * unit);
    });
  }

  resize() {
    if (!this.plot) return;
    const { clientWidth: width, clientHeight: height } = this.element;
    if (width && height) this.plot.setSize({ width, height });
  }
}
