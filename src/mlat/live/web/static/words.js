// Texts of the page: reasons, percentages, numbers.
const SHORT = { filling: "filling", missing: "value missing", gap: "after a gap", far: "unlike training", untaught: "not taught yet" };

export function reasonShort(why) {
  return SHORT[why] ?? why;
}

/** Why there is no state, in a sentence. */
export function reason(why, width) {
  if (why === "filling") return `The first window is filling: ${width} steps are needed.`;
  if (why === "missing") return "A value was missing; a new window is filling.";
  if (why === "gap") return `Steps were lost; a new window of ${width} steps is filling.`;
  if (why === "far") return "This is unlike anything in the training stream.";
  if (why === "untaught") return "No state was taught yet.";
  if (why.startsWith("dead channel ")) {
    return `Channel ${why.slice(13)} has stopped moving: stuck, or unplugged?`;
  }
  return why;
}

export function percent(proba) {
  return proba === null || Number.isNaN(proba) ? "–" : `${Math.round(100 * proba)} %`;
}

/** The probability with a word, for those who listen to the page. */
export function confidently(proba) {
  if (proba === null) return "";
  if (proba >= 0.9) return `${percent(proba)} confidence`;
  if (proba >= 0.6) return `${percent(proba)} confidence: probably`;
  return `${percent(proba)} confidence: a guess`;
}

/** How far the experts agree, in a sentence. */
export function agreeing(agreement) {
  if (agreement === null) return "";
  if (agreement > 0.9995) return "All experts agree";
  return `${percent(agreement)} of the experts’ weight agrees`;
}

const whole = new Intl.NumberFormat("en-GB");

export function count(n) {
  return whole.format(n);
}

export function seconds(s) {
  if (s === null) return "–";
  if (s < 0.0995) return `${(1000 * s).toFixed(s < 0.00995 ? 1 : 0)} ms`;
  return s < 10 ? `${s.toFixed(1)} s` : `${Math.round(s)} s`;
}

/** To three digits. */
export function figure(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e5 || size < 1e-3)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}
