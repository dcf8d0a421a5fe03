// Marking steps on the charts over time, by mouse, pen or finger: what is to be taught.
import { RIGHT, gutter } from "./canvas.js";

const DRAGGED = 5; // CSS pixels, below which it is a click

export class Mark {
  /**
   * @param elements the charts, which share one time axis
   * @param view () => the steps that are shown, or nothing
   * @param buffer () => the steps that are known
   * @param changed () => void
   */
  constructor(elements, view, buffer, changed) {
    this.view = view;
    this.buffer = buffer;
    this.changed = changed;
    this.allowed = false;
    this.steps = null; // [begin, end) of what is marked
    this.from = null; // where the pointer went down: {x, step}
    this.dragged = false;
    for (const element of elements) this.listen(element);
  }

  listen(element) {
    element.addEventListener("pointerdown", (event) => {
      if (!this.allowed || event.button !== 0 || !this.view()) return;
      this.from = { x: event.clientX, step: this.at(element, event) };
      this.dragged = false;
    });
    element.addEventListener("pointermove", (event) => {
      if (!this.from) return;
      if (!this.dragged && Math.abs(event.clientX - this.from.x) > DRAGGED) {
        this.dragged = true;
        element.setPointerCapture(event.pointerId);
      }
      if (this.dragged) this.set(this.from.step, this.at(element, event));
    });
    const end = () => (this.from = null);
    element.addEventListener("pointerup", end);
    element.addEventListener("pointercancel", end);
    // A drag is no click, which would enlarge a lane.
    element.addEventListener("click", (event) => this.dragged && event.stopPropagation(), true);
  }

  /** The step under the pointer, which may be between two. */
  at(element, event) {
    const box = element.getBoundingClientRect();
    const room = box.width - gutter() - RIGHT;
    const { begin, end } = this.view();
    return begin + ((event.clientX - box.left - gutter()) / room) * (end - begin);
  }

  set(a, b) {
    const { first, next } = this.buffer();
    const begin = Math.max(first, Math.round(Math.min(a, b)));
    const end = Math.min(next, Math.round(Math.max(a, b)));
    this.steps = end > begin ? [begin, end] : null;
    this.changed();
  }

  clear() {
    if (!this.steps) return;
    this.steps = null;
    this.changed();
  }

  /** What is marked, as long as any of it is known. */
  known() {
    if (this.steps && this.steps[1] <= this.buffer().first) this.steps = null;
    return this.steps;
  }
}
