// Teaching: the last windows become references of a state.
const $ = (id) => document.getElementById(id);

export function offerTeaching(model) {
  $("teaching").hidden = !model.teach;
}

/** A button for every state. */
export function showLessons(classes) {
  const place = $("lesson-states");
  const names = classes.map(String);
  if ([...place.children].map((button) => button.value).join("\n") === names.join("\n")) return;
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

/** Teaching labels what arrives now, which a paused page does not show. */
export function allowTeaching(allowed) {
  for (const element of $("lesson").elements) element.disabled = !allowed;
  if (!allowed) $("lesson-said").textContent = "Paused: go on to teach what arrives now.";
  else if ($("lesson-said").textContent.startsWith("Paused")) $("lesson-said").textContent = "";
}

async function teach(state) {
  const n = $("lesson-n").valueAsNumber;
  let said;
  try {
    const answer = await fetch("/teach", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ state, n }),
    });
    const lesson = await answer.json();
    said = answer.ok ? `Taught: the last ${lesson.n} windows are ${lesson.state}.` : `Not taught: ${lesson.error}.`;
  } catch {
    said = "Not taught: the server is away.";
  }
  $("lesson-said").textContent = said;
}

$("lesson").addEventListener("submit", (event) => {
  event.preventDefault();
  const state = $("lesson-other").value.trim();
  if (state) teach(state);
  else $("lesson-other").focus();
});
