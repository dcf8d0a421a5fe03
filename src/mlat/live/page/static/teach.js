// Teaching: windows of the last steps, or of those that are marked, become references of a state.
import { count } from "./words.js";

const $ = (id) => document.getElementById(id);
const on = { shown: null, mark: null, offered: {} };

/**
 * @param shown () => {begin, end, rate, width, paused} of the picture, and secondsAgo(s) => step
 * @param mark the Mark on the charts
 */
export function setUpTeaching(shown, mark) {
  Object.assign(on, { shown, mark });
  $("example-unmark").addEventListener("click", () => mark.clear());
  $("example-unit").addEventListener("change", showUnit);
  $("example-undo").addEventListener("click", undo);
  $("example-save").addEventListener("click", save);
  $("example").addEventListener("submit", (event) => {
    event.preventDefault();
    const state = $("example-other").value.trim();
    if (state) teach(state);
    else $("example-other").focus();
  });
}

export function offerTeaching(model) {
  on.offered = model;
  $("teaching").hidden = !model.teach;
  $("example-unit").disabled = !model.teach_span;
  $("example-hint").hidden = !model.teach_span;
  $("example-undo").hidden = !model.undo;
  $("example-save").hidden = !model.save;
  on.mark.allowed = Boolean(model.teach_span);
  if (model.teach_span && model.rate && !on.inSeconds) {
    on.inSeconds = true; // once: from then on it is as the person has chosen
    $("example-unit").value = "seconds";
    $("example-n").value = "2";
  }
  document.body.classList.toggle("can-mark", on.mark.allowed);
  showUnit();
}

function showUnit() {
  const inSeconds = $("example-unit").value === "seconds";
  $("example-until").hidden = !inSeconds;
  $("example-n").step = inSeconds ? "any" : "1";
  $("example-n").min = inSeconds ? "0" : "1";
}

/** A button for every state; what is marked, and what can be undone. */
export function showExamples(classes, example) {
  const place = $("example-states");
  const names = classes.map(String);
  if ([...place.children].map((button) => button.value).join("\n") !== names.join("\n")) {
    place.replaceChildren(
      ...names.map((name) => {
        const button = document.createElement("button");
        button.type = "button";
        button.value = button.textContent = name;
        button.addEventListener("click", () => teach(name));
        return button;
      }),
    );
  }
  const steps = on.mark.known();
  $("example-marked").hidden = !steps;
  $("example-last").hidden = Boolean(steps);
  for (const name of ["example-n", "example-ago"]) $(name).disabled = Boolean(steps) || !allowed();
  write("example-mark", steps ? `The ${count(steps[1] - steps[0])} marked steps` : "");
  $("example-undo").disabled = !example;
  write("example-undo", example ? `Undo (${count(example.n)} × ${example.state})` : "Undo");
}

function write(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

function allowed() {
  return !on.shown()?.paused || Boolean(on.offered.teach_span);
}

/** Without spans, teaching labels what arrives now, which a paused page does not show. */
export function allowTeaching() {
  for (const element of $("example").elements) element.disabled = !allowed();
  $("example-unit").disabled = !on.offered.teach_span;
  if (!allowed()) say("Paused: go on to teach what arrives now.");
  else if ($("example-said").textContent.startsWith("Paused")) say("");
}

/** What is to be taught, as the server takes it: the last n windows, or the steps of a span. */
function chosen() {
  const steps = on.mark.known();
  if (steps) return { begin: steps[0], end: steps[1] };
  const { end, width, paused, secondsAgo } = on.shown();
  const n = $("example-n").valueAsNumber;
  if ($("example-unit").value === "seconds") {
    const ago = $("example-ago").valueAsNumber;
    return { begin: secondsAgo(ago + n), end: Math.max(1, secondsAgo(ago)) };
  }
  // Of a picture that stands still, they are those up to its end.
  return paused ? { begin: Math.max(0, end - n - width + 1), end } : { n };
}

async function teach(state) {
  if (!$("example").reportValidity()) return;
  const what = chosen();
  const example = await send("/teach", { state, ...what }, "Not taught");
  if (!example) return;
  const which = what.n ? "the last " : "";
  say(`Taught: ${which}${count(example.n)} ${example.n === 1 ? "window is" : "windows are"} ${example.state}.`);
  on.mark.clear();
}

async function undo() {
  const example = await send("/undo", {}, "Not undone");
  if (example) say(`Undone: ${count(example.n)} ${example.n === 1 ? "window" : "windows"} of ${example.state}.`);
}

async function save() {
  say("Saving…");
  const saved = await send("/save", {}, "Not saved");
  if (saved) say(`Saved as ${saved.file}; the old model is as it was.`);
}

/** The answer of the server; null, and a word, where it refuses. */
async function send(path, body, not) {
  try {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const given = await answer.json();
    if (answer.ok) return given;
    say(`${not}: ${given.error}.`);
  } catch {
    say(`${not}: the server is away.`);
  }
  return null;
}

function say(text) {
  $("example-said").textContent = text;
}
