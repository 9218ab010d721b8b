// An Eulerian circuit: the graph on circles, and the walk as it is emitted.
import { el, replace, svg } from "./dom.js";

const EDGE = "connected-to";
const QUERY = "eulerian-circuit";

// "1 connected-to 2 … eulerian-circuit 1 2", or the short form "1-2 2-3 3-1 start 1 2".
export function parseGraph(text) {
  const edges = new Map();
  const add = (a, b) => edges.set([a, b].sort((x, y) => x - y).join("-"), [a, b]);
  const words = text.trim().split(/[\s,;]+/).filter(Boolean);
  const asked = words.findIndex((word) => word === QUERY || /^(start|from|circuit):?$/i.test(word));
  const told = asked < 0 ? words : words.slice(0, asked);
  for (let i = 0; i < told.length; i += 1) {
    const pair = told[i].match(/^(\d+)[-–—](\d+)$/);
    if (pair) add(pair[1], pair[2]);
    else if (/^\d+$/.test(told[i]) && told[i + 1] === EDGE && /^\d+$/.test(told[i + 2] ?? "")) {
      add(told[i], told[i + 2]);
      i += 2;
    } else return null;
  }
  const query = asked < 0 ? [] : words.slice(asked + 1);
  if (!edges.size || query.some((word) => !/^\d+$/.test(word))) return null;
  return { edges: [...edges.values()], first: query[0], second: query[1] };
}

export const shortForm = (graph) =>
  `${graph.edges.map(([a, b]) => `${a}-${b}`).join(" ")} start ${graph.first} ${graph.second}`;

function neighbours(edges) {
  const near = new Map();
  for (const [a, b] of edges) {
    for (const [from, to] of [[a, b], [b, a]]) near.set(from, [...(near.get(from) ?? []), to]);
  }
  return near;
}

// Each connected part as a list of nodes in the order of a walk, so that a cycle is drawn as a ring.
function rings(graph) {
  const near = neighbours(graph.edges);
  const seen = new Set();
  const walk = (from, wanted) => {
    const order = [];
    const stack = [from];
    while (stack.length) {
      const node = stack.pop();
      if (seen.has(node)) continue;
      seen.add(node);
      order.push(node);
      const next = near.get(node).filter((other) => !seen.has(other));
      stack.push(...next.filter((other) => other !== wanted), ...next.filter((other) => other === wanted));
    }
    return order;
  };
  const starts = [graph.first, ...near.keys()].filter((node) => near.has(node));
  return starts.filter((node) => !seen.has(node)).map((node) => (seen.has(node) ? [] : walk(node, graph.second)))
    .filter((ring) => ring.length);
}

function layout(graph) {
  const places = new Map();
  let left = 0;
  let high = 0;
  rings(graph).forEach((ring, number) => {
    const radius = number === 0 ? Math.max(72, ring.length * 15) : Math.max(34, ring.length * 11);
    const centre = [left + radius + 24, 0];
    ring.forEach((node, i) => {
      const angle = -Math.PI / 2 + (2 * Math.PI * i) / ring.length;
      places.set(node, [centre[0] + radius * Math.cos(angle), radius * Math.sin(angle)]);
    });
    left += 2 * radius + 44;
    high = Math.max(high, radius);
  });
  return { places, width: left + 4, height: 2 * high + 52 };
}

export class GraphView {
  constructor() {
    this.drawing = el("div", { class: "graph" });
    this.words = el("p", { class: "note" });
    this.node = el("section", { class: "card" }, el("h3", {}, "The graph"), this.drawing, this.words);
  }

  // Any source that tells a graph and asks for a circuit is drawn.
  set(source) {
    this.graph = parseGraph(source.slice(0, -1).join(" "));
    this.graph = this.graph?.second ? this.graph : null;
    this.node.hidden = !this.graph;
    if (this.graph) this.form = layout(this.graph);
  }

  show(output, step) {
    if (!this.graph) return;
    const walk = output.tokens.slice(0, step + 1).filter((token) => token !== "<end>");
    const known = new Set(this.graph.edges.map(([a, b]) => [a, b].sort().join("-")));
    const { places, width, height } = this.form;
    const line = (a, b, name) => {
      const [[x1, y1], [x2, y2]] = [places.get(a), places.get(b)];
      return svg("line", { x1, y1, x2, y2, class: name });
    };
    const edges = this.graph.edges.map(([a, b]) => line(a, b, "edge"));
    const moves = walk.slice(1).map((to, i) => [walk[i], to]).filter((move) => move.every((node) => places.has(node)));
    const wrong = moves.filter((move) => !known.has([...move].sort().join("-")));
    const walked = moves.map((move, i) => line(...move,
      `walked${wrong.includes(move) ? " wrong" : ""}${i === moves.length - 1 ? " newest" : ""}`));
    const here = walk[walk.length - 1];
    const nodes = [...places].map(([node, [x, y]]) => svg("g", {
      class: `node${walk.includes(node) ? " visited" : ""}${node === here ? " here" : ""}${node === this.graph.first ? " first" : ""}`,
    }, svg("circle", { cx: x, cy: y, r: 15 }), svg("text", { x, y: y + 4.5 }, node)));
    const told = `Walk so far: ${walk.join(" → ")}${wrong.length ? `; ${wrong.length} of its moves follow no edge` : ""}`;
    replace(this.drawing, svg("svg", { viewBox: `0 ${-height / 2} ${width} ${height}`, role: "img", "aria-label": told },
      ...edges, ...walked, ...nodes));
    this.words.textContent = `${told}.`;
  }
}
