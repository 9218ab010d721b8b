// The alignment as a heat map that is also a slider over the output's steps.
import { el, freshId, replace } from "./dom.js";
import { label, quoted } from "./labels.js";
import { Matrix } from "./matrix.js";
import { percent, top } from "./numbers.js";
import { headline, marks, summary } from "./story.js";
import { alignmentTable } from "./table.js";

export class AlignmentView {
  constructor(onStep, onLook, onPlay) {
    const title = freshId("alignment");
    this.note = el("span", { class: "note" });
    this.caption = el("p", { class: "note caption" }, "Hover or use the arrow keys to look at a step; click to stay there.");
    this.matrix = new Matrix({
      onRow: onStep,
      onCell: (row, column) => this.tell(row, column),
      attributes: { role: "slider", "aria-orientation": "vertical", "aria-labelledby": title, "aria-valuemin": 1 },
    });
    this.matrix.node.addEventListener("keydown", (event) => this.key(event, onStep, onPlay));
    this.table = el("details", { ontoggle: () => this.fillTable() }, el("summary", {}, "The alignment as a table"));
    this.node = el("section", { class: "card" },
      el("div", { class: "card-head" }, el("h3", { id: title }, "The alignment"), this.note, this.tools(onLook)),
      this.matrix.node, this.caption, this.table);
  }

  tools(onLook) {
    const zoom = (factor) => () => onLook({ zoom: Math.min(3, Math.max(0.3, this.matrix.zoom * factor)) });
    const faint = el("input", { type: "checkbox", onchange: () => onLook({ faint: faint.checked }) });
    return el("div", { class: "tools" },
      el("label", {}, faint, " show faint weights"),
      el("button", { type: "button", class: "round", "aria-label": "Smaller cells", onclick: zoom(1 / 1.25) }, "−"),
      el("button", { type: "button", class: "round", "aria-label": "Larger cells", onclick: zoom(1.25) }, "+"));
  }

  set(output) {
    this.output = output;
    this.note.textContent = summary(output);
    this.note.classList.toggle("replan-ink", Boolean(output.switch));
    this.matrix.set({ rows: output.alignment, rowLabels: output.tokens, columnLabels: output.source, marks: marks(output) });
    this.matrix.node.setAttribute("aria-valuemax", output.tokens.length);
    this.fillTable();
  }

  fillTable() {
    this.table.querySelector("table")?.remove();
    if (this.table.open && this.output) this.table.append(alignmentTable(this.output));
  }

  show(step) {
    this.matrix.select(step);
    const weights = this.output.alignment[step];
    const [most] = top(weights, 1);
    this.matrix.revealColumn(most);
    const words = `Step ${step + 1} of ${this.output.tokens.length}: ${label(this.output.tokens[step])}, `
      + `${headline(this.output, step).words}, looks at ${quoted(this.output.source[most])}, ${percent(weights[most])}`;
    this.matrix.node.setAttribute("aria-valuenow", step + 1);
    this.matrix.node.setAttribute("aria-valuetext", words);
  }

  tell(row, column) {
    if (column < 0 || row < 0) return;
    const share = percent(this.output.alignment[row][column]);
    replace(this.caption, `${quoted(this.output.tokens[row])} looks at ${quoted(this.output.source[column])}, position ${column + 1}: `,
      el("strong", {}, share));
  }

  key(event, onStep, onPlay) {
    const last = this.output.tokens.length - 1;
    const at = this.matrix.selected;
    const steps = { ArrowUp: at - 1, ArrowDown: at + 1, PageUp: at - 10, PageDown: at + 10, Home: 0, End: last };
    if (event.key in steps) onStep(Math.min(last, Math.max(0, steps[event.key])), true);
    else if (event.key === "ArrowLeft") this.matrix.moveColumn(-1);
    else if (event.key === "ArrowRight") this.matrix.moveColumn(1);
    else if (event.key === " ") onPlay();
    else return;
    event.preventDefault();
  }
}
