// The scrubber: plays the decoding step by step.
import { el, freshId } from "./dom.js";
import { label } from "./labels.js";

const PAUSE = 750; // milliseconds a step is shown at normal speed

export class Film {
  constructor(onStep) {
    this.onStep = onStep;
    const name = freshId("film");
    this.play = el("button", { type: "button", class: "round", onclick: () => this.toggle() });
    this.back = this.button("‹", "One step back", () => this.go(this.step - 1));
    this.on = this.button("›", "One step on", () => this.go(this.step + 1));
    this.range = el("input", { type: "range", id: name, min: 1, max: 1, value: 1, oninput: () => this.go(this.range.value - 1) });
    this.place = el("output", { for: name, class: "place" });
    this.speed = el("select", { "aria-label": "Speed of the film", onchange: () => this.timer && this.run() },
      ...[0.5, 1, 2, 4].map((factor) => el("option", { value: factor, selected: factor === 1 }, `${factor} ×`)));
    this.node = el("div", { class: "film", role: "group", "aria-label": "Film of the decoding" },
      this.play, this.back, el("label", { for: name, class: "sr-only" }, "Step"), this.range, this.on, this.place, this.speed);
    this.step = 0;
    this.pause();
  }

  button(sign, name, onclick) {
    return el("button", { type: "button", class: "round", "aria-label": name, onclick }, sign);
  }

  set(output, step) {
    this.output = output;
    this.range.max = output.tokens.length;
    this.show(step);
  }

  show(step) {
    this.step = step;
    this.range.value = step + 1;
    const count = this.output.tokens.length;
    this.place.textContent = `${step + 1} / ${count}`;
    this.range.setAttribute("aria-valuetext", `Step ${step + 1} of ${count}: ${label(this.output.tokens[step])}`);
  }

  go(step) {
    this.pause();
    this.onStep(Math.min(this.output.tokens.length - 1, Math.max(0, Number(step))));
  }

  toggle() {
    if (this.timer) this.pause();
    else {
      if (this.step >= this.output.tokens.length - 1) this.onStep(0);
      this.run();
    }
  }

  run() {
    clearInterval(this.timer);
    this.timer = setInterval(() => {
      if (this.step >= this.output.tokens.length - 1) this.pause();
      else this.onStep(this.step + 1);
    }, PAUSE / Number(this.speed.value));
    this.say("❚❚", "Pause the film");
  }

  pause() {
    clearInterval(this.timer);
    this.timer = null;
    this.say("▶", "Play the film");
  }

  say(sign, name) {
    this.play.textContent = sign;
    this.play.setAttribute("aria-label", name);
  }
}
