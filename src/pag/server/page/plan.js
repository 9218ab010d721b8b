// The plan at one step: k rows of intended attention, the plan before, the gate, the commitment, and what was done.
import { drawCommitment } from "./commitment.js";
import { el, replace } from "./dom.js";
import { label, quoted } from "./labels.js";
import { Matrix } from "./matrix.js";
import { percent, top } from "./numbers.js";
import { before, headline, intended, replanned, story } from "./story.js";

const ROW_NAMES = (k) => Array.from({ length: k }, (_, row) => (row === 0 ? "now" : `+${row}`));

export class PlanView {
  constructor() {
    this.title = el("h3");
    this.words = el("p", { class: "story" });
    this.plan = this.matrix("plan", true, "The plan: rows are the next steps, columns the source");
    this.old = this.matrix("plan", false, "The plan before, one step on");
    this.gate = this.matrix("gate", false, "The update gate");
    this.oldTitle = el("h4");
    this.commitment = el("div", { class: "commitment" });
    this.committed = el("span");
    this.table = el("div", { class: "table-scroll" });
    this.planPart = el("div", {},
      el("h4", {}, "The plan ", el("span", { class: "note" }, "what it means to look at, now and next")), this.plan.node,
      this.oldTitle, this.old.node,
      el("h4", {}, "The gate ", el("span", { class: "note" }, "how much of each planned value is new")), this.gate.node,
      el("details", {}, el("summary", {}, "The plan as a table"), this.table));
    this.commitmentPart = el("figure", {}, this.commitment, el("figcaption", { class: "note" }, this.committed));
    this.node = el("section", { class: "card plan-view" },
      el("div", { class: "plan-head" }, el("div", {}, this.title, this.words), this.commitmentPart), this.planPart);
  }

  matrix(map, header, name) {
    const matrix = new Matrix({
      map, header, faint: map === "plan", attributes: { role: "img", "aria-label": name },
      onCell: (row, column) => this.tell(matrix, row, column),
    });
    return matrix;
  }

  get matrices() {
    return [this.plan, this.old, this.gate];
  }

  look({ zoom }) {
    for (const matrix of this.matrices) matrix.look({ zoom });
  }

  show(output, step) {
    this.output = output;
    const { kind, words } = headline(output, step);
    replace(this.title, `Step ${step + 1} `, el("span", { class: "token" }, label(output.tokens[step])), " ",
      el("span", { class: `badge ${kind}` }, words));
    this.words.textContent = story(output, step);
    this.showPlan(output, step);
    this.commitmentPart.hidden = !output.commitment;
    if (output.commitment) {
      const words = drawCommitment(this.commitment, output.commitment[step], step === 0);
      this.committed.textContent = words;
    }
  }

  showPlan(output, step) {
    const plan = intended(output, step);
    this.planPart.hidden = !plan;
    if (!plan) return;
    const names = ROW_NAMES(plan.rows.length);
    this.plan.set({ ...plan, rowLabels: names, columnLabels: output.source });
    const old = before(output, step);
    const isNew = replanned(output, step);
    for (const node of [this.oldTitle, this.old.node]) node.hidden = !old;
    if (old) {
      this.old.set({ ...old, rowLabels: names, columnLabels: output.source });
      replace(this.oldTitle, "The plan before, one step on ",
        el("span", { class: `badge ${isNew ? "thrown" : "follow"}` }, isNew ? "thrown away" : "followed"));
      this.old.node.classList.toggle("faded", isNew);
    }
    const gate = output.gate?.[step];
    for (const node of [this.gate.node, this.gate.node.previousElementSibling]) node.hidden = !gate || !isNew;
    if (gate) this.gate.set({ rows: gate, rowLabels: names, columnLabels: output.source });
    replace(this.table, planTable(output, plan));
  }

  tell(matrix, row, column) {
    if (column < 0) return;
    const share = matrix.data.rows[row][column];
    const when = row === 0 ? "now" : `in ${row} step${row > 1 ? "s" : ""}`;
    const what = matrix === this.gate ? "renewed by" : matrix === this.old ? "was meant with" : "is meant with";
    matrix.node.title = `${quoted(this.output.source[column])} ${when}: ${what} ${percent(share)}`;
  }
}

function planTable(output, plan) {
  const rows = plan.rows.map((row, place) => {
    const best = top(row, 3).map((at) => `${quoted(output.source[at])} ${percent(row[at])}`);
    const sum = row.reduce((a, b) => a + b, 0);
    return el("tr", {}, el("th", { scope: "row" }, place === 0 ? "now" : `+${place}`),
      el("td", {}, plan.empty[place] ? "nothing planned yet" : best.join(", ")), el("td", {}, sum.toFixed(3)));
  });
  return el("table", {}, el("caption", {}, "Each row of the plan with the three places it means to look at most"),
    el("thead", {}, el("tr", {}, ...["Row", "Looks at most", "Sum"].map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows));
}
