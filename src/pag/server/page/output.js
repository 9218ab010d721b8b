// The output as text, one span per token, each with a mark for what its step did.
import { el, replace } from "./dom.js";
import { joint, label } from "./labels.js";
import { replanned } from "./story.js";

export class OutputText {
  constructor(onStep) {
    this.onStep = onStep;
    this.node = el("p", { class: "output", "aria-label": "Output" });
    this.node.addEventListener("click", (event) => this.pick(event, true));
    this.node.addEventListener("pointerover", (event) => event.pointerType === "mouse" && this.pick(event, false));
    this.node.addEventListener("pointerleave", () => this.onStep(null, false));
  }

  pick(event, keep) {
    const token = event.target.closest("[data-step]");
    if (token) this.onStep(Number(token.dataset.step), keep);
  }

  set(output, isProvisional) {
    const between = joint(output);
    this.node.classList.toggle("letters", between === "");
    this.node.classList.toggle("provisional", Boolean(isProvisional));
    this.spans = output.tokens.map((token, step) => {
      const isEnd = token === "<end>";
      const kind = output.switch ? (replanned(output, step) ? "replan" : "follow") : "none";
      const copied = output.copied?.[step] !== undefined && output.copied?.[step] !== null;
      return el("span", {
        class: `word ${kind}${isEnd ? " end" : ""}${copied ? " copied" : ""}`, "data-step": step,
        title: copied ? "copied from the source" : null,
      }, isEnd ? label(token) : token);
    });
    replace(this.node, this.spans.flatMap((span, step) => (step && between ? [between, span] : [span])));
  }

  select(step) {
    this.spans?.forEach((span, at) => span.classList.toggle("now", at === step));
  }
}
