// A canvas in CSS pixels, sharp on every screen, and the margins that all charts over time share.
export const RIGHT = 12; // the right margin of every chart

/** The left margin, for the names of channels. */
export function gutter() {
  return innerWidth < 640 ? 84 : 124;
}

// Reading an element's size forces a layout of the page, so an observer reports it instead.
const sizes = new WeakMap();
const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect: box } of entries) sizes.set(target, [box.width, box.height]);
});

function size(canvas) {
  if (!sizes.has(canvas)) {
    sizes.set(canvas, [canvas.clientWidth, canvas.clientHeight]);
    resized.observe(canvas);
  }
  return sizes.get(canvas);
}

/** The context, cleared and scaled, and the size in CSS pixels. */
export function begin(canvas) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = size(canvas);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

export const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

/** A name that fits; a long one loses its middle, because names differ at the ends. */
export function fitted(context, name, width) {
  if (context.measureText(name).width <= width) return name;
  for (let keep = name.length - 1; keep > 2; keep--) {
    const head = Math.ceil(keep / 2);
    const short = `${name.slice(0, head)}…${name.slice(name.length - (keep - head))}`;
    if (context.measureText(short).width <= width) return short;
  }
  return "";
}
