// The viewer without a server: results that were stored in the page itself.
import { el, replace } from "./dom.js";
import { Pane } from "./pane.js";
import { themeButton } from "./theme.js";

const { title, results } = JSON.parse(document.getElementById("stored").textContent);
document.getElementById("theme").replaceWith(themeButton());
const panes = results.map(({ card, ...answer }, number) => {
  const name = results.length > 1 ? `${title} ${number + 1}` : title;
  const pane = new Pane({ ...card, name, stored: true });
  pane.begin();
  pane.finish(answer);
  return pane.node;
});
replace(document.getElementById("main"), el("div", { class: "results" }, panes));
