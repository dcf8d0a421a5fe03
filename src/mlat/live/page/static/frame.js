// A frame: the length of a JSON header, the header, and 32-bit floats.
const text = new TextDecoder();

/**
 * The header, with `values` (n, d), `proba` (n), `agreement` (n, or null where all experts agree)
 * and `seconds` (n, or null) as views of the frame.
 */
export function decode(data) {
  const length = new DataView(data).getUint32(0, true);
  const frame = JSON.parse(text.decode(new Uint8Array(data, 4, length)));
  if (frame.kind !== "steps") return frame;
  const numbers = new Float32Array(data, 4 + length);
  const { n, d } = frame;
  frame.values = numbers.subarray(0, n * d);
  let at = n * d;
  const next = () => numbers.subarray(at, (at += n));
  frame.proba = next();
  frame.agreement = frame.agreement ? next() : null;
  frame.seconds = numbers.length > at ? next() : null;
  return frame;
}
