// What to ask: models, an input or an example, beam and n-best.
import { el, freshId, replace } from "./dom.js";
import { parseGraph, shortForm } from "./graph.js";

const HINTS = {
  graph: "Edges like 1-2, then the first two nodes: … start 1 2. The model has learned graphs of the examples' size.",
  document: "A document, and the part of it that the question should ask for.",
};

function field(name, input, extra) {
  input.id ||= freshId("field");
  return el("div", { class: `field ${extra ?? ""}` }, el("label", { for: input.id }, name), input);
}

// An example as the page shows it.
function friendly(input, line) {
  if (input === "document") return documentAndAnswer(line);
  const graph = input === "graph" ? parseGraph(line) : null;
  return graph?.second ? shortForm(graph) : line;
}

function documentAndAnswer(line) {
  const asked = JSON.parse(line);
  return `${asked.answer ?? "…"} — ${asked.document}`;
}

export class Form {
  constructor(cards, onAsk) {
    this.cards = cards;
    this.model = el("select", { onchange: () => this.changed() }, cards.map((card) => el("option", {}, card.name)));
    this.compare = el("select", {}, el("option", { value: "" }, "—"), cards.map((card) => el("option", {}, card.name)));
    this.examples = el("select", { onchange: () => this.fill() });
    this.text = el("textarea", { rows: 3, spellcheck: "false", required: true });
    this.document = el("textarea", { rows: 6 });
    this.answer = el("input", { type: "text" });
    this.beam = el("input", { type: "number", min: 1, max: 100, value: 1 });
    this.nbest = el("input", { type: "number", min: 1, max: 100, value: 1 });
    this.hint = el("p", { class: "note", id: freshId("hint") });
    this.text.setAttribute("aria-describedby", this.hint.id);
    this.button = el("button", { class: "primary", type: "submit" }, "Generate");
    this.texts = [field("Input", this.text, "grow")];
    this.documents = [field("Document", this.document, "grow"), field("Answer", this.answer, "grow")];
    this.node = el("form", { class: "card ask", onsubmit: (event) => { event.preventDefault(); onAsk(); } },
      el("div", { class: "row" }, field("Model", this.model), cards.length > 1 && field("Compare with", this.compare),
        field("Example", this.examples, "grow")),
      ...this.texts, ...this.documents, this.hint,
      el("div", { class: "row end" }, field("Beam", this.beam, "small"), field("Outputs", this.nbest, "small"), this.button));
    this.node.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.node.requestSubmit();
    });
    this.changed();
  }

  get card() {
    return this.cards.find((card) => card.name === this.model.value);
  }

  get wants() {
    return this.card.input === "document" ? "document" : "text";
  }

  changed() {
    const { card } = this;
    replace(this.examples, el("option", { value: "" }, card.examples.length ? "Pick one …" : "none"),
      card.examples.map((line, i) => el("option", { value: i }, `${i + 1}. ${shorten(friendly(card.input, line))}`)));
    this.examples.disabled = !card.examples.length;
    for (const node of this.texts) node.hidden = this.wants !== "text";
    for (const node of this.documents) node.hidden = this.wants !== "document";
    this.text.required = this.wants === "text";
    this.hint.textContent = HINTS[card.input] ?? "";
    this.beam.value = card.beam;
    if (!this.text.value && !this.document.value && card.examples.length) {
      this.examples.value = "0";
      this.fill();
    }
  }

  fill() {
    const line = this.card.examples[this.examples.value];
    if (line === undefined) return;
    if (this.wants === "document") this.fillDocument(line);
    else this.text.value = friendly(this.card.input, line);
  }

  fillDocument(line) {
    const asked = JSON.parse(line);
    this.document.value = asked.document;
    this.answer.value = asked.answer;
    this.start = asked.answer_start;
  }

  // What the server is asked.
  asked() {
    const include = ["alignment", "plan", "gate", "switch", "commitment"];
    const common = { beam: Number(this.beam.value), n_best: Number(this.nbest.value), include };
    if (this.wants === "document") {
      const [document, answer] = [this.document.value, this.answer.value];
      const isThere = this.start !== undefined && document.startsWith(answer, this.start);
      return { ...common, document, answer, ...(isThere ? { answer_start: this.start } : {}) };
    }
    const text = this.text.value.trim();
    const graph = this.card.input === "graph" && !text.includes("connected-to") ? parseGraph(text) : null;
    if (!graph?.second) return { ...common, text };
    const numbered = { edges: graph.edges.map((pair) => pair.map(Number)), first: Number(graph.first), second: Number(graph.second) };
    return { ...common, graph: numbered };
  }

  view() {
    const inputs = this.wants === "document" ? { document: this.document.value, answer: this.answer.value } : { text: this.text.value };
    return { model: this.model.value, compare: this.compare.value, ...inputs, beam: this.beam.value, nbest: this.nbest.value };
  }

  restore(view) {
    const has = (name) => this.cards.some((card) => card.name === name);
    if (has(view.model)) this.model.value = view.model;
    this.changed();
    if (has(view.compare)) this.compare.value = view.compare;
    for (const name of ["text", "document", "answer", "beam", "nbest"]) if (view[name]) this[name].value = view[name];
    this.examples.value = "";
  }
}

const shorten = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);
