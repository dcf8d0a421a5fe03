// Colours and patterns of states. The colours are chosen so that any two of the eight differ for
// normal, protan, deutan and tritan sight, and stand out from the background.
const LIGHT = ["#0072b2", "#b1902a", "#5e1931", "#33a590", "#8d3208", "#3c1381", "#a45f42", "#005877"];
const DARK = ["#56b4e9", "#a4af13", "#dc6896", "#1e8e4a", "#fdd4ab", "#835dbd", "#eaa49a", "#68e2fe"];
const PATTERNS = ["solid", "rising", "dots", "falling", "bars"]; // 8 and 5 have no common divisor: 40 pairs

export const palette = { light: LIGHT, dark: DARK, patterns: PATTERNS };

const system = matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

/** The colours of the style sheet, for what is drawn. */
export function inks() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ink", "soft", "faint", "line", "surface", "stripe", "accent", "unknown", "warn"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** The colour, pattern and text colour of the i-th state. */
export function look(i) {
  const colours = isDark() ? DARK : LIGHT;
  const fill = colours[i % colours.length];
  return { fill, pattern: PATTERNS[i % PATTERNS.length], ink: inkOn(fill) };
}

/** Black or white: one of them always has a contrast of 4.5. */
export function inkOn(colour) {
  return luminance(colour) > 0.179 ? "#000000" : "#ffffff";
}

function luminance(colour) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const c = parseInt(colour.slice(at, at + 2), 16) / 255;
    return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

const SIZE = 8; // of the tile that is repeated, in CSS pixels
const made = new Map();

/** The fill style for a shape of a state. */
export function paint(context, fill, pattern, ink) {
  if (pattern === "solid") return fill;
  const ratio = devicePixelRatio || 1;
  const key = `${fill} ${pattern} ${ink} ${ratio}`;
  if (!made.has(key)) {
    if (made.size > 200) made.clear();
    const repeated = context.createPattern(tile(fill, pattern, ink, ratio), "repeat");
    repeated.setTransform(new DOMMatrix().scale(1 / ratio));
    made.set(key, repeated);
  }
  return made.get(key);
}

function tile(fill, pattern, ink, ratio) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = SIZE * ratio;
  const c = canvas.getContext("2d");
  c.scale(ratio, ratio);
  c.fillStyle = fill;
  c.fillRect(0, 0, SIZE, SIZE);
  c.strokeStyle = c.fillStyle = ink;
  c.globalAlpha = 0.38;
  c.lineWidth = 1.3;
  c.beginPath();
  if (pattern === "dots") c.arc(4, 4, 1.4, 0, 7), c.fill();
  if (pattern === "bars") c.moveTo(4, 0), c.lineTo(4, 8);
  // Each diagonal is drawn three times, because it crosses the edges of the tile.
  for (const shift of [-8, 0, 8]) {
    if (pattern === "rising" || pattern === "cross") c.moveTo(shift, 8), c.lineTo(shift + 8, 0);
    if (pattern === "falling" || pattern === "cross") c.moveTo(shift, 0), c.lineTo(shift + 8, 8);
  }
  c.stroke();
  return canvas;
}
