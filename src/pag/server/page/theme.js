// Light, dark, or as the system says; kept for the next visit.
import { el } from "./dom.js";

const ORDER = ["auto", "light", "dark"];
const listeners = new Set();

function stored() {
  try {
    return localStorage.getItem("pag-theme") ?? "auto";
  } catch {
    return "auto"; // storage may be forbidden, as in a sandboxed frame
  }
}

function apply(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const listener of listeners) listener();
}

export function onTheme(listener) {
  listeners.add(listener);
}

export function themeButton() {
  let theme = stored();
  apply(theme);
  const button = el("button", { class: "quiet", type: "button", onclick: next });
  say();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(theme));
  return button;

  function say() {
    button.textContent = { auto: "◐ Auto", light: "☀ Light", dark: "☾ Dark" }[theme];
    button.setAttribute("aria-label", `Colours: ${theme}. Change`);
  }

  function next() {
    theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
    try {
      localStorage.setItem("pag-theme", theme);
    } catch {
      // it then lasts as long as the page
    }
    apply(theme);
    say();
  }
}
