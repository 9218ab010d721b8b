// Sums over what a model looked at.

export function softmax(logits) {
  const most = Math.max(...logits);
  const raised = logits.map((logit) => Math.exp(logit - most));
  const sum = raised.reduce((a, b) => a + b, 0);
  return raised.map((value) => value / sum);
}

export function top(values, count) {
  const order = values.map((value, place) => place).sort((a, b) => values[b] - values[a]);
  return order.slice(0, count);
}

export function mean(values) {
  return values.reduce((a, b) => a + b, 0) / values.length;
}

export function percent(share) {
  const shown = 100 * share;
  return `${shown >= 99.95 || shown < 0.05 ? Math.round(shown) : shown.toFixed(shown < 10 ? 1 : 0)}\u00a0%`;
}

export const clamp = (value, least, most) => Math.min(most, Math.max(least, value));
