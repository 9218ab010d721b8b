// The commitment as bars: slot 0 is "re-plan now", slot i "re-plan i steps from now".
import { replace, svg } from "./dom.js";
import { percent, top } from "./numbers.js";

const [WIDTH, HEIGHT, FLOOR] = [260, 92, 20];

export function drawCommitment(node, commitment, isFirst) {
  const step = WIDTH / commitment.length;
  const bars = commitment.map((share, slot) => {
    const high = Math.max(1, share * (HEIGHT - FLOOR - 16));
    const x = slot * step + step * 0.14;
    return svg("g", {},
      svg("rect", {
        x, y: HEIGHT - FLOOR - high, width: step * 0.72, height: high, rx: 2,
        class: slot === 0 ? "bar bar-replan" : "bar",
      }),
      svg("text", { x: x + step * 0.36, y: HEIGHT - 6, class: "bar-name" }, slot === 0 ? "now" : `+${slot}`),
      share >= 0.02 && svg("text", { x: x + step * 0.36, y: HEIGHT - FLOOR - high - 4, class: "bar-value" },
        percent(share).slice(0, -2)),
    );
  });
  const [most] = top(commitment, 1);
  const when = most === 0 ? "now" : `in ${most} step${most > 1 ? "s" : ""}`;
  const forced = isFirst && most !== 0 ? " (the first step plans in any case)" : "";
  const words = `The commitment: re-plan ${when} (${percent(commitment[most])})${forced}`;
  replace(node, svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words },
    svg("line", { x1: 0, x2: WIDTH, y1: HEIGHT - FLOOR, y2: HEIGHT - FLOOR, class: "axis" }), ...bars));
  return words;
}
