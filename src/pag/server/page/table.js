// The alignment as a table, for those who do not see the heat map.
import { el } from "./dom.js";
import { label, quoted } from "./labels.js";
import { percent, top } from "./numbers.js";
import { headline } from "./story.js";

export function alignmentTable(output) {
  const rows = output.tokens.map((token, step) => {
    const weights = output.alignment[step];
    const best = top(weights, 3).map((at) => `${quoted(output.source[at])} at ${at + 1}, ${percent(weights[at])}`);
    return el("tr", {}, el("td", {}, step + 1), el("th", { scope: "row" }, label(token)),
      el("td", {}, headline(output, step).words), el("td", {}, best.join("; ")));
  });
  const names = ["Step", "Output", "What it did", "Where it looked most"];
  return el("table", {}, el("caption", {}, "Each step of the output and the three source positions it looked at most"),
    el("thead", {}, el("tr", {}, names.map((name) => el("th", { scope: "col" }, name)))), el("tbody", {}, rows));
}
