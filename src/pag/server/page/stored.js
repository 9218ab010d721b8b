// The viewer without a server: results that were stored in the page itself.
import { el, replace } from "./dom.js";
import { Pane } from "./pane.js";
import { themeButton } from "./theme.js";

const { card, results } = JSON.parse(document.getElementById("stored").textContent);
document.getElementById("theme").replaceWith(themeButton());
const panes = results.map(({ line, answer, ...result }) => {
  const pane = new Pane({ ...card, stored: true });
  pane.begin({ line, answer }, []);
  pane.finish(result);
  return pane.node;
});
replace(document.getElementById("main"), el("div", { class: "results" }, panes));
