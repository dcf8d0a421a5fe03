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
    return { begin, end, last: end, width: model.width, ticks: this.ticks(buffer, end, steps, seconds) };
  }

  ticks(buffer, end, steps, seconds) {
    const parts = 5;
    return Array.from({ length: parts + 1 }, (_, i) => {
      const ago = parts - i;
      const step = end - (steps * ago) / parts;
      if (!ago) return { step, text: "now" };
      if (!this.rate) return { step, text: `−${(steps * ago) / parts} steps` };
      const usual = (seconds * ago) / parts;
      const passed = buffer.secondsBefore(Math.round(step), end);
      // Where steps are missing in between, more time has passed than so many steps take.
      const far = Math.abs(passed - usual) > 0.15 * usual + 1 / this.rate;
      return { step, text: `−${far ? inWords(passed) : `${usual} s`}` };
    });
  }
}

/** A length of time. */
function inWords(seconds) {
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return `${Math.round(seconds / 3600)} h`;
}

/** To two digits. */
function rounded(rate) {
  return Number(rate.toPrecision(2));
}
