// The n-best list: pick an output to see its alignment.
import { el, freshId, replace } from "./dom.js";

export class NBest {
  constructor(onPick) {
    this.onPick = onPick;
    this.name = freshId("best");
    this.list = el("div", { class: "nbest-list" });
    this.node = el("fieldset", { class: "card nbest" }, el("legend", {}, "Outputs, best first"), this.list);
  }

  set(outputs, chosen) {
    this.node.hidden = outputs.length < 2;
    replace(this.list, outputs.map((output, rank) => el("label", {},
      el("input", {
        type: "radio", name: this.name, value: rank, checked: rank === chosen, onchange: () => this.onPick(rank),
      }),
      el("span", { class: "nbest-text" }, output.text || "(empty)"),
      el("span", { class: "nbest-score", title: `log-probability ${output.log_prob.toFixed(4)}` },
        output.score.toFixed(3)))));
  }
}
