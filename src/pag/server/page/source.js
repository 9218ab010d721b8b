// The source as text: shaded by where the step looks, the answer marked, copied words linked to the output.
import { shade } from "./colour.js";
import { el, replace } from "./dom.js";
import { label } from "./labels.js";
import { percent } from "./numbers.js";
import { onTheme } from "./theme.js";

export class SourceView {
  constructor(onStep) {
    this.text = el("p", { class: "source" });
    this.legend = el("p", { class: "note" });
    this.title = el("h3", {}, "The source");
    this.node = el("section", { class: "card" }, this.title, this.text, this.legend);
    this.text.addEventListener("click", (event) => {
      const word = event.target.closest("[data-step]");
      if (word) onStep(Number(word.dataset.step), true);
    });
    onTheme(() => this.output && this.show(this.output, this.step));
  }

  set(output) {
    const copies = new Map();
    (output.copied ?? []).forEach((place, step) => place !== null && !copies.has(place) && copies.set(place, step));
    const [first, after] = output.answer ?? [0, 0];
    this.title.textContent = output.answer ? "The document" : "The source";
    this.words = output.source.map((token, place) => el("span", {
      class: `word${copies.has(place) ? " copied" : ""}${place >= first && place < after ? " answer" : ""}`,
      "data-step": copies.get(place) ?? null,
    }, label(token).replaceAll("␣", " ")));
    replace(this.text, this.words.flatMap((word) => [word, " "]));
    const notes = ["shaded: where this step looks", output.answer && "framed: the answer", copies.size && "underlined: copied into the output"];
    this.legend.textContent = notes.filter(Boolean).join(" · ");
  }

  show(output, step) {
    Object.assign(this, { output, step });
    if (!output.alignment) return;
    const weights = output.alignment[step];
    const from = output.copied?.[step];
    this.words.forEach((word, place) => {
      word.style.backgroundColor = weights[place] > 0.01 ? shade("alignment", weights[place], { faint: true }) : "";
      word.classList.toggle("deep", Math.sqrt(weights[place]) > 0.48);
      word.classList.toggle("from-here", place === from);
      word.title = percent(weights[place]);
    });
    const target = this.words[from ?? -1];
    if (target) this.text.scrollTop = target.offsetTop - this.text.offsetTop - this.text.clientHeight / 2;
  }
}
