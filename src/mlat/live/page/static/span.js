// How much of the past is shown, in steps, and the ticks of the time axis.
export class Span {
  constructor(select, changed) {
    this.select = select;
    this.clear();
    select.addEventListener("change", changed);
  }

  clear() {
    this.rate = null;
  }

  /** The steps to show up to `end`. */
  view(buffer, end, model) {
    const measured = model.rate ?? buffer.rate();
    // The measured rate varies a little; the axis follows it only when it is far off.
    if (measured && !(Math.abs(measured / this.rate - 1) < 0.15)) this.rate = rounded(measured);
    const seconds = Number(this.select.value);
    const steps = this.rate ? Math.max(20, Math.round(seconds * this.rate)) : 500;
    const begin = end - steps;
    return { begin, end, last: end, width: model.width, ticks: this.ticks(end, steps, seconds) };
  }

  ticks(end, steps, seconds) {
    const parts = 5;
    return Array.from({ length: parts + 1 }, (_, i) => {
      const ago = parts - i;
      const text = this.rate ? `−${(seconds * ago) / parts} s` : `−${(steps * ago) / parts} steps`;
      return { step: end - (steps * ago) / parts, text: ago ? text : "now" };
    });
  }
}

/** To two digits. */
function rounded(rate) {
  return Number(rate.toPrecision(2));
}
