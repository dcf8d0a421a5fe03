// The state of a sensor stream, one step at a time. Written by `mlat export`.
//
//     import { load } from "./mlat.js";
//     const model = await load(fetch("mlat.wasm"));      // or bytes, or a WebAssembly.Module
//     const stream = model.stream();                     // as many as there are streams
//     const { state, name, why } = stream.push([0.1, 0.2, 0.3]);

const WHY = ["", "filling", "missing", "gap", "far", "dead"];

export async function load(source) {
  let given = await source;
  if (typeof Response !== "undefined" && given instanceof Response) {
    given = await given.arrayBuffer();
  }
  const isModule = given instanceof WebAssembly.Module;
  return new Model(isModule ? given : await WebAssembly.compile(given));
}

class Model {
  constructor(module) {
    this.module = module;
    const { wasm } = new Stream(this);
    this.channels = names(wasm, wasm.n_channels(), wasm.channel_name);
    this.stepSeconds = wasm.step_us() / 1e6; // from step to step in training; 0 where it is not known
    this.states = names(wasm, wasm.n_states(), wasm.state_name);
  }

  stream() {
    return new Stream(this);
  }
}

class Stream {
  constructor(model) {
    this.model = model;
    this.wasm = new WebAssembly.Instance(model.module).exports;
    this.wasm.init();
  }

  // One step: a value for each channel, NaN or null where one is missing. `state` is -1 where it is unknown,
  // and `why` then says why.
  push(values) {
    const { wasm } = this;
    const n = wasm.n_channels();
    if (values.length !== n) {
      throw new RangeError(`a step has ${n} values, not ${values.length}`);
    }
    this.#numbers(wasm.values(), n).set(Array.from(values, number));
    const state = wasm.push();
    return {
      state,
      name: state < 0 ? "" : this.model.states[state],
      why: WHY[wasm.why()],
      proba: wasm.proba(),
      distances: Array.from(this.#numbers(wasm.distances(), wasm.n_states())),
      probabilities: Array.from(this.#numbers(wasm.probabilities(), wasm.n_states())),
    };
  }

  // After a gap in time.
  reset() {
    this.wasm.reset();
  }

  // Make a reference of the last window; false if there is no full window, no such state or no room.
  teach(state) {
    return Number.isInteger(state) && state === (state | 0) && this.wasm.teach(state) === 1;
  }

  #numbers(place, n) {
    const Kind = this.wasm.real_bytes() === 8 ? Float64Array : Float32Array;
    return new Kind(this.wasm.memory.buffer, place, n);
  }
}

// Of itself JavaScript takes null, false and "" for 0.
function number(value, i) {
  if (value === null || value === undefined) {
    return NaN;
  }
  if (typeof value !== "number") {
    throw new TypeError(`value ${i} of a step is a ${typeof value}, not a number`);
  }
  return value;
}

function names(wasm, n, of) {
  const bytes = new Uint8Array(wasm.memory.buffer);
  return Array.from({ length: n }, (_, i) => {
    const begin = of(i);
    return new TextDecoder().decode(bytes.subarray(begin, bytes.indexOf(0, begin)));
  });
}
