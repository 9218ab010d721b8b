// What one step did with its plan: the words and the rows of the plan view.
import { quoted } from "./labels.js";
import { mean, percent, softmax, top } from "./numbers.js";

export const replanned = (output, step) => Boolean(output.switch && output.switch[step] > 0.5);

// The step whose plan is in force at this one.
export function plannedAt(output, step) {
  let at = step;
  while (at > 0 && !replanned(output, at)) at -= 1;
  return at;
}

export function marks(output) {
  if (!output.switch) return [];
  return output.tokens.map((_, step) => (replanned(output, step) ? "replan" : "follow"));
}

// The plan as attention: k rows that sum to one. A row that following has moved in is empty: it plans nothing.
export function intended(output, step) {
  if (!output.plan) return null;
  const logits = output.plan[step];
  const empty = logits.map((row) => row.every((value) => value === 0));
  return { rows: logits.map(softmax), empty };
}

// What the plan before would have been at this step: every row one step nearer.
export function before(output, step) {
  if (!output.plan || step === 0) return null;
  const logits = output.plan[step - 1];
  const moved = [...logits.slice(1), logits[0].map(() => 0)];
  return { rows: moved.map(softmax), empty: moved.map((row) => row.every((value) => value === 0)) };
}

function looksAt(output, weights) {
  const [place] = top(weights, 1);
  return { place, words: `${quoted(output.source[place])} (${percent(weights[place])})` };
}

export function headline(output, step) {
  if (!output.switch) return { kind: "none", words: "looks anew at every step" };
  if (replanned(output, step)) return { kind: "replan", words: output.plan ? "re-planned" : "looked anew" };
  return { kind: "follow", words: output.plan ? "followed the plan" : "kept the last alignment" };
}

export function story(output, step) {
  const now = output.alignment ? looksAt(output, output.alignment[step]) : null;
  if (!now) return "";
  if (!output.switch) return `Looks at ${now.words}. This model keeps no plan.`;
  if (!output.plan) return repeatStory(output, step, now);
  if (!replanned(output, step)) {
    const made = plannedAt(output, step);
    return `Followed row ${step - made} of the plan made at step ${made + 1}, and so looks at ${now.words}.`;
  }
  const gate = output.gate ? ` The gate let ${percent(mean(output.gate[step][0]))} of the new first row in.` : "";
  if (step === 0) return `The first step always plans. Looks at ${now.words}.${gate}`;
  const old = looksAt(output, before(output, step).rows[0]);
  const kept = old.place === now.place;
  const thrown = kept
    ? `Made a new plan that looks where the old one meant to: ${now.words}, there ${old.words}.`
    : `Threw the old plan away: it meant to look at ${old.words} now; the new one looks at ${now.words}.`;
  return thrown + gate;
}

function repeatStory(output, step, now) {
  if (replanned(output, step)) return `Looked anew, at ${now.words}.`;
  return `Kept the alignment of step ${plannedAt(output, step) + 1}: ${now.words}.`;
}

export function summary(output) {
  if (!output.switch) return "attends anew at every step";
  const count = output.switch.filter((value) => value > 0.5).length;
  return `re-planned at ${count} of ${output.switch.length} steps (${percent(count / output.switch.length)})`;
}
