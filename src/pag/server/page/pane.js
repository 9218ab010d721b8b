// Everything about one model's answer: output, film, alignment, plan, n-best list, graph or source.
import { AlignmentView } from "./alignment.js";
import { el } from "./dom.js";
import { Film } from "./film.js";
import { GraphView } from "./graph.js";
import { scrollTogether } from "./matrix.js";
import { NBest } from "./nbest.js";
import { OutputText } from "./output.js";
import { PlanView } from "./plan.js";
import { saveButtons } from "./save.js";
import { SourceView } from "./source.js";

export class Pane {
  // card: what is known of the model; onView(pane): the shown output or step was changed by hand.
  constructor(card, onView = () => {}) {
    Object.assign(this, { card, onView, chosen: 0, step: 0 });
    const onStep = (step, keep) => this.pick(step, keep);
    this.text = new OutputText(onStep);
    this.film = new Film((step) => this.pick(step, true));
    this.alignment = new AlignmentView(onStep, (how) => this.look(how), () => this.film.toggle());
    this.plan = new PlanView();
    this.nbest = new NBest((rank) => this.choose(rank));
    this.graph = new GraphView();
    this.source = new SourceView(onStep);
    this.status = el("p", { class: "note status" });
    this.warning = el("p", { class: "warning", role: "status", hidden: true });
    this.error = el("p", { class: "error", role: "alert", hidden: true });
    this.save = saveButtons(this);
    scrollTogether([this.alignment.matrix, ...this.plan.matrices]);
    this.node = el("article", { class: "pane", "aria-label": `Model ${card.name}` },
      el("div", { class: "pane-main" }, this.outputCard(), this.alignment.node, this.plan.node),
      el("aside", { class: "pane-side" }, this.nbest.node, this.graph.node, this.source.node));
    this.hideViews();
  }

  outputCard() {
    const { name, attention, k } = this.card;
    const about = [attention, k && `k = ${k}`].filter(Boolean).join(", ");
    return el("section", { class: "card" },
      el("div", { class: "card-head" }, el("h2", {}, name), el("span", { class: "note" }, about), this.status, this.save),
      this.error, this.warning, this.text.node, this.film.node);
  }

  hideViews() {
    for (const view of [this.film, this.alignment, this.plan, this.nbest, this.graph, this.source]) view.node.hidden = true;
    this.save.hidden = true;
  }

  begin() {
    Object.assign(this, { answer: null, chosen: 0, step: 0 });
    this.film.pause();
    this.growing = { text: "", tokens: [], source: [], alignment: [], switch: [] };
    this.error.hidden = this.warning.hidden = true;
    this.status.textContent = "generating …";
    this.node.setAttribute("aria-busy", "true");
  }

  // One event of a stream: keep so many tokens, then add these.
  grow(event) {
    const output = this.growing;
    for (const name of ["tokens", "alignment", "switch"]) {
      output[name] = [...output[name].slice(0, event.keep), ...(event[name] ?? [])];
    }
    output.text = event.text;
    const shown = { ...output, switch: output.switch.length ? output.switch : null };
    this.text.set(shown, event.provisional);
    if (output.alignment.length === output.tokens.length) {
      this.alignment.node.hidden = false;
      this.alignment.set(shown);
      this.alignment.show(output.tokens.length - 1);
    }
    this.graph.set(output.source);
    this.graph.show(shown, output.tokens.length - 1);
  }

  finish(answer, { chosen = 0, step = null } = {}) {
    this.answer = answer;
    this.node.removeAttribute("aria-busy");
    this.status.textContent = "";
    this.warning.hidden = !answer.warning;
    this.warning.textContent = answer.warning ?? "";
    this.save.hidden = false;
    this.choose(Math.min(chosen, answer.outputs.length - 1), step, false);
  }

  fail(message) {
    this.node.removeAttribute("aria-busy");
    this.status.textContent = "";
    this.error.hidden = false;
    this.error.textContent = message;
    this.text.node.replaceChildren();
    this.hideViews();
  }

  get output() {
    return this.answer?.outputs[this.chosen];
  }

  choose(rank, step = null, byHand = true) {
    this.chosen = rank;
    const { output } = this;
    this.nbest.set(this.answer.outputs, rank);
    this.text.set(output);
    this.film.node.hidden = false;
    this.film.set(output, 0);
    this.alignment.node.hidden = this.plan.node.hidden = !output.alignment;
    if (output.alignment) this.alignment.set(output);
    this.graph.set(output.source);
    this.source.node.hidden = Boolean(this.graph.graph) || !output.alignment;
    if (!this.source.node.hidden) this.source.set(output);
    this.step = Math.min(step ?? 0, output.tokens.length - 1);
    this.show(this.step);
    if (byHand) this.onView(this);
  }

  // Hovering shows a step; clicking or a key keeps it; null goes back to the one kept.
  pick(step, keep) {
    if (!this.output) return;
    if (keep) this.step = step;
    this.show(step ?? this.step);
    if (keep) this.onView(this);
  }

  show(step) {
    this.shown = step;
    const { output } = this;
    this.text.select(step);
    this.film.show(step);
    this.graph.show(output, step);
    if (!output.alignment) return;
    this.alignment.show(step);
    this.plan.show(output, step);
    if (!this.source.node.hidden) this.source.show(output, step);
  }

  look(how) {
    this.alignment.matrix.look(how);
    this.plan.look(how);
  }
}
