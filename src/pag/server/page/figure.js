// The alignment, and the plan of one step below it, as one SVG picture on white.
import { shade } from "./colour.js";
import { label } from "./labels.js";
import { headline, intended, replanned } from "./story.js";

const [CELL, LABEL, FAINT] = [16, 7, 0.004];
const REPLAN = "#c33c4d";
const FOLLOW = "#30638e";

const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function words(x, y, text, more = "") {
  return `<text x="${x}" y="${y}" ${more}>${escaped(text)}</text>`;
}

const room = (names) => Math.min(130, 12 + LABEL * Math.max(...names.map((name) => label(name).length)));

function cells(rows, map, left, top, faint) {
  const parts = [];
  rows.forEach((row, i) => row.forEach((share, j) => {
    if (share < FAINT) return;
    const colour = shade(map, share, { faint, dark: false });
    parts.push(`<rect x="${left + j * CELL}" y="${top + i * CELL}" width="${CELL - 1}" height="${CELL - 1}" fill="${colour}"/>`);
  }));
  const frame = `<rect x="${left - 1}" y="${top - 1}" width="${rows[0].length * CELL + 1}" height="${rows.length * CELL + 1}" fill="none" stroke="#c9d1d8"/>`;
  return parts.join("") + frame;
}

function mark(output, step, y) {
  if (!output.switch) return "";
  return replanned(output, step)
    ? `<path d="M4 ${y - 5}l8 5l-8 5z" fill="${REPLAN}"/>`
    : `<rect x="6" y="${y - CELL / 2}" width="2.5" height="${CELL}" fill="${FOLLOW}"/>`;
}

export function figure(output, step, title) {
  const left = room([...output.tokens, "now"]) + 16;
  const top = 34 + room(output.source);
  const plan = intended(output, step);
  const below = top + output.tokens.length * CELL + 44;
  const height = plan ? below + plan.rows.length * CELL + 12 : below - 30;
  const width = Math.max(360, left + output.source.length * CELL + 12);
  const parts = [words(8, 20, title, 'font-weight="600" font-size="14"')];
  output.source.forEach((name, j) => {
    const x = left + j * CELL + CELL / 2 + 4;
    parts.push(words(x, top - 6, label(name), `transform="rotate(-90 ${x} ${top - 6})"`));
  });
  output.tokens.forEach((name, i) => {
    const y = top + i * CELL + CELL / 2;
    parts.push(mark(output, i, y), words(left - 8, y + 4, label(name), 'text-anchor="end"'));
  });
  parts.push(cells(output.alignment, "alignment", left, top, false));
  if (plan) {
    parts.push(words(left, below - 10, `The plan at step ${step + 1}, ${label(output.tokens[step])}: ${headline(output, step).words}`));
    plan.rows.forEach((_, i) => parts.push(words(left - 8, below + i * CELL + 12, i ? `+${i}` : "now", 'text-anchor="end"')));
    parts.push(cells(plan.rows, "plan", left, below, true));
  }
  const font = 'font-family="ui-sans-serif, system-ui, sans-serif" font-size="12" fill="#22303c"';
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" ${font}>`
    + `<rect width="100%" height="100%" fill="white"/>${parts.join("")}</svg>`;
}
