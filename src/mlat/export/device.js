// In the place of the live page's connection to a server: steps of this device's sensors or of a
// recording, and the model that says their states.
import { load } from "./mlat.js";

const AT_ONCE = 1000; // steps of a frame
const $ = (id) => document.getElementById(id);

// What a phone gives, in m/s² and degrees a second.
const SENSORS = {
  "acceleration with gravity x": (e) => e.accelerationIncludingGravity?.x,
  "acceleration with gravity y": (e) => e.accelerationIncludingGravity?.y,
  "acceleration with gravity z": (e) => e.accelerationIncludingGravity?.z,
  "turning x": (e) => e.rotationRate?.beta,
  "turning y": (e) => e.rotationRate?.gamma,
  "turning z": (e) => e.rotationRate?.alpha,
  "acceleration x": (e) => e.acceleration?.x,
  "acceleration y": (e) => e.acceleration?.y,
  "acceleration z": (e) => e.acceleration?.z,
};

/** As that of connection.js; what has been seen is never lost here. */
export async function connect(position, take, onStatus) {
  const about = JSON.parse($("about").textContent);
  const model = await load(Uint8Array.from(atob($("model").textContent), (c) => c.charCodeAt(0)).buffer);
  const rate = model.stepSeconds ? 1 / model.stepSeconds : null;
  let stream, now;

  function begin(name) {
    stream = model.stream();
    now = { lag: null, steps: 0, unknown: {}, counters: {}, refused: 0, clients: 1, notice: null, drift: [] };
    take({ ...about, kind: "hello", stream: `${name} ${Date.now()}`, rate, now });
    onStatus("live", name);
  }

  /** Steps that come together; returns what is said of each. */
  function push(rows) {
    const came = Date.now();
    const first = now.steps;
    const told = rows.map((row) => stream.push(row));
    const states = told.map(({ state, name }) => (state < 0 ? null : (about.states[state] ?? name)));
    told.forEach(({ why }) => why && (now.unknown[why] = (now.unknown[why] ?? 0) + 1));
    const { why, proba, distances, probabilities } = told.at(-1);
    const distance = Math.min(...distances);
    const latest = { step: first + rows.length - 1, state: states.at(-1), why, proba, agreement: null, distance, neighbours: [], probabilities };
    now = { ...now, lag: (Date.now() - came) / 1000 / rows.length, steps: first + rows.length, latest };
    take({
      kind: "steps", first, n: rows.length, d: model.channels.length, now,
      values: Float32Array.from(rows.flat()),
      proba: Float32Array.from(told, (one) => (one.state < 0 ? NaN : one.proba)),
      agreement: null, seconds: null, arrived: [came, came],
      runs: told.map((one, i) => [first + i, states[i], one.why]),
    });
    return states;
  }

  const chosen = model.channels.map((name, i) => {
    const row = $("sensors").insertRow();
    row.insertCell().textContent = name;
    const select = document.createElement("select");
    for (const sensor of Object.keys(SENSORS)) select.add(new Option(sensor));
    select.selectedIndex = i % select.length;
    select.setAttribute("aria-label", `${name}: sensor`);
    const times = Object.assign(document.createElement("input"), { value: "1", size: 6 });
    times.setAttribute("aria-label", `${name}: times`);
    row.insertCell().append(select, " times ", times);
    return { select, times };
  });

  let latest = null;
  function sense(event) {
    latest = chosen.map(({ select, times }) => {
      const value = SENSORS[select.value](event);
      return value == null ? NaN : value * Number(times.value);
    });
    if (rate === null) push([latest]); // the rate of training is not known
  }
  let timer = null;
  function rest() {
    window.removeEventListener("devicemotion", sense);
    clearInterval(timer);
    latest = null;
  }

  $("start").onclick = async () => {
    if (globalThis.DeviceMotionEvent?.requestPermission) await DeviceMotionEvent.requestPermission();
    rest();
    begin("Sensors");
    window.addEventListener("devicemotion", sense);
    if (rate !== null) timer = setInterval(() => latest && push([latest]), 1000 / rate);
  };

  $("file").onchange = async ({ target }) => {
    const [file] = target.files;
    const lines = (await file.text()).trim().split(/\r?\n/);
    const names = lines[0].split(",").map((name) => name.trim().replace(/^"|"$/g, ""));
    const hasNames = model.channels.every((name) => names.includes(name));
    const columns = model.channels.map((name, i) => (hasNames ? names.indexOf(name) : i));
    const rows = lines.slice(Number(hasNames)).map((line) => {
      const cells = line.split(",");
      return columns.map((i) => (cells[i]?.trim() ? Number(cells[i]) : NaN));
    });
    rest();
    begin(file.name);
    const told = [];
    for (let i = 0; i < rows.length; i += AT_ONCE) told.push(...push(rows.slice(i, i + AT_ONCE)));
    $("told").textContent = told.map((state) => state ?? "").join("\n");
  };
  begin("No steps yet");
}
