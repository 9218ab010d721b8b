// The page of a server: ask, watch, compare.
import { keepKey, models, stream } from "./api.js";
import { announce, el, replace } from "./dom.js";
import { Form } from "./form.js";
import { readLink, writeLink } from "./link.js";
import { Pane } from "./pane.js";
import { summary } from "./story.js";
import { themeButton } from "./theme.js";

class App {
  constructor(cards) {
    this.form = new Form(cards, () => this.ask());
    this.results = el("div", { class: "results" });
    this.panes = [];
    replace(document.getElementById("main"), this.form.node, this.results);
  }

  start() {
    const view = readLink();
    this.form.restore(view);
    if (view.text || view.document) this.ask({ chosen: Number(view.chosen ?? 0), step: Number(view.step ?? 0) });
  }

  ask(show = {}) {
    this.running?.abort();
    this.running = new AbortController();
    const names = [...new Set([this.form.model.value, this.form.compare.value].filter(Boolean))];
    const cards = names.map((name) => this.form.cards.find((card) => card.name === name));
    if (cards.map((card) => card.name).join() !== this.panes.map((pane) => pane.card.name).join()) {
      this.panes = cards.map((card) => new Pane(card, (pane) => this.viewed(pane)));
      replace(this.results, this.panes.map((pane) => pane.node));
      this.results.classList.toggle("two", this.panes.length > 1);
    }
    const asked = this.form.asked();
    this.remember();
    announce("Generating");
    return Promise.all(this.panes.map((pane) => this.fillPane(pane, asked, show, this.running.signal)));
  }

  async fillPane(pane, asked, show, signal) {
    pane.begin();
    try {
      await stream({ ...asked, model: pane.card.name }, (name, value) => {
        if (name === "source") pane.growing.source = value.source;
        else if (name === "tokens") pane.grow(value);
        else if (name === "result") pane.finish(value, show);
      }, signal);
      announce(`${pane.card.name}: ${pane.output.text}; ${summary(pane.output)}`);
    } catch (error) {
      if (error.name !== "AbortError") pane.fail(error.message);
    }
  }

  // With two models, the step chosen in one is shown in the other too.
  viewed(from) {
    for (const pane of this.panes) {
      if (pane === from || !pane.output) continue;
      pane.step = Math.min(from.step, pane.output.tokens.length - 1);
      pane.show(pane.step);
    }
    this.remember(from);
  }

  remember(pane = null) {
    writeLink({ ...this.form.view(), chosen: pane?.chosen, step: pane?.step });
  }
}

async function begin(key = null) {
  if (key !== null) keepKey(key);
  try {
    new App(await models()).start();
  } catch (error) {
    if (error.status === 401) askForKey(key !== null);
    else replace(document.getElementById("main"), el("p", { class: "card error", role: "alert" }, error.message));
  }
}

function askForKey(again) {
  const key = el("input", { type: "password", id: "key", autocomplete: "off", required: true });
  const form = el("form", { class: "card ask", onsubmit: (event) => { event.preventDefault(); begin(key.value); } },
    again && el("p", { class: "error", role: "alert" }, "The server does not take that key"),
    el("div", { class: "field" }, el("label", { for: "key" }, "This server wants a key"), key),
    el("button", { class: "primary", type: "submit" }, "Open"));
  replace(document.getElementById("main"), form);
  key.focus();
}

document.getElementById("theme").replaceWith(themeButton());
begin();
