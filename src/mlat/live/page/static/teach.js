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
  $("lesson-unmark").addEventListener("click", () => mark.clear());
  $("lesson-unit").addEventListener("change", showUnit);
  $("lesson-undo").addEventListener("click", undo);
  $("lesson-save").addEventListener("click", save);
  $("lesson").addEventListener("submit", (event) => {
    event.preventDefault();
    const state = $("lesson-other").value.trim();
    if (state) teach(state);
    else $("lesson-other").focus();
  });
}

export function offerTeaching(model) {
  on.offered = model;
  $("teaching").hidden = !model.teach;
  $("lesson-unit").disabled = !model.teach_span;
  $("lesson-hint").hidden = !model.teach_span;
  $("lesson-undo").hidden = !model.undo;
  $("lesson-save").hidden = !model.save;
  on.mark.allowed = Boolean(model.teach_span);
  document.body.classList.toggle("can-mark", on.mark.allowed);
  showUnit();
}

function showUnit() {
  const inSeconds = $("lesson-unit").value === "seconds";
  $("lesson-until").hidden = !inSeconds;
  $("lesson-n").step = inSeconds ? "any" : "1";
  $("lesson-n").min = inSeconds ? "0" : "1";
}

/** A button for every state; what is marked, and what can be undone. */
export function showLessons(classes, lesson) {
  const place = $("lesson-states");
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
  $("lesson-marked").hidden = !steps;
  $("lesson-last").hidden = Boolean(steps);
  for (const name of ["lesson-n", "lesson-ago"]) $(name).disabled = Boolean(steps) || !allowed();
  write("lesson-mark", steps ? `The ${count(steps[1] - steps[0])} marked steps` : "");
  $("lesson-undo").disabled = !lesson;
  write("lesson-undo", lesson ? `Undo (${count(lesson.n)} × ${lesson.state})` : "Undo");
}

function write(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text;
}

function allowed() {
  return !on.shown()?.paused || Boolean(on.offered.teach_span);
}

/** Without spans, teaching labels what arrives now, which a paused page does not show. */
export function allowTeaching() {
  for (const element of $("lesson").elements) element.disabled = !allowed();
  $("lesson-unit").disabled = !on.offered.teach_span;
  if (!allowed()) say("Paused: go on to teach what arrives now.");
  else if ($("lesson-said").textContent.startsWith("Paused")) say("");
}

/** What is to be taught, as the server takes it: the last n windows, or the steps of a span. */
function chosen() {
  const steps = on.mark.known();
  if (steps) return { begin: steps[0], end: steps[1] };
  const { end, width, paused, secondsAgo } = on.shown();
  const n = $("lesson-n").valueAsNumber;
  if ($("lesson-unit").value === "seconds") {
    const ago = $("lesson-ago").valueAsNumber;
    return { begin: secondsAgo(ago + n), end: Math.max(1, secondsAgo(ago)) };
  }
  // Of a picture that stands still, they are those up to its end.
  return paused ? { begin: Math.max(0, end - n - width + 1), end } : { n };
}

async function teach(state) {
  if (!$("lesson").reportValidity()) return;
  const what = chosen();
  const lesson = await send("/teach", { state, ...what }, "Not taught");
  if (!lesson) return;
  const which = what.n ? "the last " : "";
  say(`Taught: ${which}${count(lesson.n)} ${lesson.n === 1 ? "window is" : "windows are"} ${lesson.state}.`);
  on.mark.clear();
}

async function undo() {
  const lesson = await send("/undo", {}, "Not undone");
  if (lesson) say(`Undone: ${count(lesson.n)} ${lesson.n === 1 ? "window" : "windows"} of ${lesson.state}.`);
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
  $("lesson-said").textContent = text;
}
