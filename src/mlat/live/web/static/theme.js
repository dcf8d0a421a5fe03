// Light or dark: as the system says, or as chosen here.
import { isDark } from "./palette.js";

const KEY = "mlat-look";

/** @param changed () => void */
export function setUpTheme(changed) {
  const select = document.getElementById("theme");
  const apply = (choice) => {
    if (choice === "light" || choice === "dark") document.documentElement.dataset.theme = choice;
    else delete document.documentElement.dataset.theme;
    select.value = document.documentElement.dataset.theme ?? "auto";
    changed();
  };
  const choose = (choice) => {
    try {
      localStorage.setItem(KEY, choice);
    } catch {
      // a browser that keeps nothing: the choice is lost with the page
    }
    apply(choice);
  };
  select.addEventListener("change", () => choose(select.value));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  let kept = null;
  try {
    kept = localStorage.getItem(KEY);
  } catch {
    // as above
  }
  apply(kept ?? "auto");
  return { toggle: () => choose(isDark() ? "light" : "dark") };
}
