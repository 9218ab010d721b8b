// A heat map on a canvas. Only what is visible is drawn, so that thousands of cells scroll smoothly;
// the labels of rows and columns stay in view.
import { isDark, shade } from "./colour.js";
import { el } from "./dom.js";
import { label } from "./labels.js";
import { clamp } from "./numbers.js";
import { onTheme } from "./theme.js";

const FONT = '12px ui-sans-serif, system-ui, "Segoe UI", sans-serif';
const MARK = 16; // room for the mark of a row
const LONGEST = 112; // pixels of a label

export class Matrix {
  // map: which colours; header: are column labels shown; onRow(row, kept): hovered or chosen; onCell(row, column).
  constructor({ map = "alignment", header = true, faint = false, onRow, onCell, attributes = {} }) {
    Object.assign(this, { map, header, onRow, onCell, zoom: 1, faint, selected: -1, column: -1, hovered: false });
    this.data = { rows: [], rowLabels: [], columnLabels: [], marks: [] };
    this.together = [this];
    this.canvas = el("canvas", { "aria-hidden": "true" });
    this.space = el("div", { class: "matrix-space" }, this.canvas);
    this.node = el("div", { class: "matrix", tabindex: "0", ...attributes }, this.space);
    this.node.addEventListener("scroll", () => this.later());
    this.node.addEventListener("pointermove", (event) => event.pointerType === "mouse" && this.point(event, false));
    this.node.addEventListener("pointerleave", () => this.leave());
    this.node.addEventListener("click", (event) => this.point(event, true));
    new ResizeObserver(() => this.layout()).observe(this.node);
    onTheme(() => this.later());
  }

  set(data) {
    this.data = { marks: [], empty: [], ...data };
    this.layout();
  }

  select(row) {
    this.selected = row;
    this.reveal(row);
    this.later();
  }

  look({ zoom = this.zoom, faint = this.faint }) {
    Object.assign(this, { zoom, faint });
    this.layout();
  }

  get size() {
    return [this.data.rows.length, this.data.columnLabels.length];
  }

  layout() {
    const [rows, columns] = this.size;
    const context = this.canvas.getContext("2d");
    context.font = FONT;
    const widest = (names) => names.reduce((most, name) => Math.max(most, context.measureText(label(name)).width), 0);
    this.gutter = Math.min(LONGEST, Math.ceil(widest(this.data.rowLabels))) + MARK + 10;
    this.left = Math.max(...this.together.map((matrix) => matrix.gutter ?? 0));
    for (const other of this.together) if (other.gutter && other.left !== this.left) other.layout();
    this.top = this.header ? Math.min(LONGEST, Math.ceil(widest(this.data.columnLabels))) + 12 : 0;
    const room = this.node.clientWidth - this.left - 1;
    const fit = columns ? room / columns : 20;
    this.width = Math.max(4, (fit >= 11 ? Math.min(fit, 44) : 15) * this.zoom);
    this.height = Math.max(4, clamp(420 / Math.max(1, rows), 15, 24) * this.zoom);
    this.space.style.width = `${Math.max(this.left + columns * this.width, 1)}px`;
    this.space.style.height = `${this.top + rows * this.height + 1}px`;
    this.later();
  }

  later() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.paint();
    });
  }

  reveal(row) {
    if (row < 0 || this.hovered) return;
    const from = row * this.height;
    const seen = this.node.clientHeight - this.top;
    if (from < this.node.scrollTop) this.node.scrollTop = from;
    else if (from + this.height > this.node.scrollTop + seen) this.node.scrollTop = from + this.height - seen;
  }

  cellAt(event) {
    const box = this.node.getBoundingClientRect();
    const x = event.clientX - box.left - this.node.clientLeft;
    const y = event.clientY - box.top - this.node.clientTop;
    const [rows, columns] = this.size;
    const row = Math.floor((y - this.top + this.node.scrollTop) / this.height);
    const column = Math.floor((x - this.left + this.node.scrollLeft) / this.width);
    if (y < this.top || row < 0 || row >= rows) return null;
    return { row, column: x < this.left || column >= columns ? -1 : column };
  }

  point(event, keep) {
    const cell = this.cellAt(event);
    if (!cell) return;
    this.hovered = !keep || event.pointerType === "mouse";
    this.column = cell.column;
    this.onRow?.(cell.row, keep);
    this.onCell?.(cell.row, cell.column);
    this.later();
  }

  leave() {
    if (!this.hovered) return;
    this.hovered = false;
    this.column = -1;
    this.onRow?.(null, false);
    this.later();
  }

  // Left and right move a mark along the source, for reading single weights.
  moveColumn(by) {
    const columns = this.size[1];
    this.column = clamp(this.column < 0 ? (by > 0 ? 0 : columns - 1) : this.column + by, 0, columns - 1);
    this.revealColumn(this.column);
    this.onCell?.(this.selected, this.column);
    this.later();
  }

  revealColumn(column) {
    if (this.hovered) return;
    const from = column * this.width;
    const seen = this.node.clientWidth - this.left;
    this.node.scrollLeft = clamp(this.node.scrollLeft, from + this.width - seen, from);
  }

  paint() {
    const ratio = devicePixelRatio || 1;
    const [wide, high] = [this.node.clientWidth, Math.min(this.node.clientHeight, this.space.clientHeight)];
    if (!wide || !high) return;
    Object.assign(this.canvas, { width: Math.round(wide * ratio), height: Math.round(high * ratio) });
    Object.assign(this.canvas.style, { width: `${wide}px`, height: `${high}px` });
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.font = FONT;
    const style = getComputedStyle(this.node);
    const ink = (name) => style.getPropertyValue(name).trim();
    const colours = {
      paper: ink("--card"), ink: ink("--ink"), quiet: ink("--quiet"), line: ink("--line"),
      replan: ink("--replan"), follow: ink("--follow"), glow: ink("--glow"),
    };
    this.paintCells(context, wide, high, colours);
    this.paintRowLabels(context, high, colours);
    if (this.header) this.paintColumnLabels(context, wide, colours);
  }

  visible(wide, high) {
    const [rows, columns] = this.size;
    const firstRow = Math.floor(this.node.scrollTop / this.height);
    const firstColumn = Math.floor(this.node.scrollLeft / this.width);
    return {
      rows: [firstRow, Math.min(rows, firstRow + Math.ceil((high - this.top) / this.height) + 1)],
      columns: [firstColumn, Math.min(columns, firstColumn + Math.ceil((wide - this.left) / this.width) + 1)],
    };
  }

  x(column) {
    return this.left + column * this.width - this.node.scrollLeft;
  }

  y(row) {
    return this.top + row * this.height - this.node.scrollTop;
  }

  paintCells(context, wide, high, colours) {
    const { rows, columns } = this.visible(wide, high);
    const dark = isDark();
    const gap = this.width > 7 && this.height > 7 ? 1 : 0;
    for (let row = rows[0]; row < rows[1]; row += 1) {
      context.globalAlpha = this.data.empty[row] ? 0.35 : 1;
      for (let column = columns[0]; column < columns[1]; column += 1) {
        context.fillStyle = shade(this.map, this.data.rows[row][column], { faint: this.faint, dark });
        context.fillRect(this.x(column), this.y(row), this.width - gap, this.height - gap);
      }
    }
    context.globalAlpha = 1;
    const right = Math.min(wide, this.x(this.size[1]));
    if (this.column >= 0) {
      context.fillStyle = colours.glow;
      context.fillRect(this.x(this.column), this.top, this.width - gap, high - this.top);
    }
    if (this.selected >= 0 && this.selected < this.size[0]) {
      context.strokeStyle = colours.ink;
      context.lineWidth = 2;
      context.strokeRect(this.left - 1, this.y(this.selected) - 1, right - this.left + 1, this.height + 1);
    }
  }

  paintRowLabels(context, high, colours) {
    context.fillStyle = colours.paper;
    context.fillRect(0, this.top, this.left - 1, high - this.top);
    context.textAlign = "right";
    context.textBaseline = "middle";
    const { rows } = this.visible(1, high);
    for (let row = rows[0]; row < rows[1]; row += 1) {
      const middle = this.y(row) + this.height / 2;
      context.fillStyle = row === this.selected ? colours.ink : colours.quiet;
      context.font = row === this.selected ? `600 ${FONT}` : FONT;
      if (this.height >= 9) context.fillText(label(this.data.rowLabels[row]), this.left - 8, middle, LONGEST);
      this.paintMark(context, this.data.marks[row], middle, colours);
    }
    context.font = FONT;
  }

  paintMark(context, mark, middle, colours) {
    if (!mark) return;
    const reach = Math.min(5, this.height / 2 - 1);
    context.fillStyle = mark === "replan" ? colours.replan : colours.follow;
    context.beginPath();
    if (mark === "replan") {
      context.moveTo(3, middle - reach);
      context.lineTo(3 + 1.6 * reach, middle);
      context.lineTo(3, middle + reach);
    } else {
      context.rect(5, middle - this.height / 2, 2.5, this.height);
    }
    context.fill();
  }

  paintColumnLabels(context, wide, colours) {
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, wide, this.top - 1);
    context.textAlign = "left";
    const { columns } = this.visible(wide, this.top + 1);
    const every = Math.max(1, Math.ceil(11 / this.width)); // labels that would overlap are thinned out
    context.save();
    context.beginPath();
    context.rect(this.left - 1, 0, wide, this.top);
    context.clip();
    for (let column = columns[0]; column < columns[1]; column += 1) {
      if (column % every && column !== this.column) continue;
      context.save();
      context.translate(this.x(column) + (this.width - 1) / 2, this.top - 6);
      context.rotate(-Math.PI / 2);
      context.fillStyle = column === this.column ? colours.ink : colours.quiet;
      context.fillText(label(this.data.columnLabels[column]), 0, 0, LONGEST);
      context.restore();
    }
    context.restore();
    context.fillStyle = colours.paper;
    context.fillRect(0, 0, this.left - 1, this.top);
  }
}

// Matrices over the same source share their columns and scroll together.
export function scrollTogether(matrices) {
  for (const matrix of matrices) {
    matrix.together = matrices;
    matrix.node.addEventListener("scroll", () => {
      for (const other of matrices) if (other !== matrix) other.node.scrollLeft = matrix.node.scrollLeft;
    });
  }
}
