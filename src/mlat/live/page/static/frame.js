// A frame: the length of a JSON header, the header, and 32-bit floats.
const text = new TextDecoder();

/** The header, with `values` (n, d), `proba` (n) and `seconds` (n, or null) as views of the frame. */
export function decode(data) {
  const length = new DataView(data).getUint32(0, true);
  const frame = JSON.parse(text.decode(new Uint8Array(data, 4, length)));
  if (frame.kind !== "steps") return frame;
  const numbers = new Float32Array(data, 4 + length);
  const { n, d } = frame;
  frame.values = numbers.subarray(0, n * d);
  frame.proba = numbers.subarray(n * d, n * (d + 1));
  frame.seconds = numbers.length > n * (d + 1) ? numbers.subarray(n * (d + 1)) : null;
  return frame;
}
