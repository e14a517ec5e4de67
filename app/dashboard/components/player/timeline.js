// The timeline: a slider, and thin ticks of events and of evidence.
import { h } from "../dom.js";
import { addPointer } from "./pointer.js";
import { shareOf } from "./scale.js";

/** @typedef {import("./clock.js").Span} Span */
/**
 * @typedef {object} Tick
 * @property {number} seconds
 * @property {string} label
 * @property {string} kind "closes", "opens", "changes", "intervention", "finding", "end", or "evidence".
 * @property {boolean} [likely] Whether a failure is likely there.
 */
/** @typedef {import("./clock.js").Clock} Clock */

export class Timeline {
  /**
   * @param {{ duration: number, ticks: Tick[] }} data
   * @param {Clock} clock
   * @param {import("./pointer.js").TimeActions} actions
   */
  constructor(data, clock, actions) {
    this.clock = clock;
    this.duration = data.duration;
    this.fill = h("div", { class: "fill" });
    this.knob = h("div", { class: "knob" });
    this.repeat = h("div", { class: "repeat", hidden: true });
    this.window = h("div", { class: "window", hidden: true });
    this.ticks = h("div", { class: "ticks" });
    this.bar = this.buildBar();
    this.node = h("div", { class: "timebar" }, this.bar);
    this.addTicks(data.ticks);
    addPointer(this.bar, (x, box) => shareOf(x, box.left, box.right) * this.duration, actions);
  }

  buildBar() {
    const range = { "aria-label": "time", "aria-valuemin": 0, "aria-valuemax": this.duration };
    const rail = h("div", { class: "rail" }, this.fill);
    const props = { class: "timeline", role: "slider", tabIndex: 0, ...range };
    return h("div", props, rail, this.window, this.repeat, this.ticks, this.knob);
  }

  /** @param {Tick[]} ticks */
  addTicks(ticks) {
    for (const { seconds, label, kind, likely } of ticks) {
      const tick = h("i", { class: likely ? `tick likely ${kind}` : `tick ${kind}` });
      tick.title = `${seconds.toFixed(2)} s: ${label}`;
      tick.style.left = `${shareOf(seconds, 0, this.duration) * 100}%`;
      this.ticks.append(tick);
    }
  }

  update() {
    const share = `${shareOf(this.clock.time, 0, this.duration) * 100}%`;
    this.fill.style.width = share;
    this.knob.style.left = share;
    this.bar.setAttribute("aria-valuenow", this.clock.time.toFixed(2));
    this.bar.setAttribute("aria-valuetext", `${this.clock.time.toFixed(2)} seconds`);
    moveBand(this.repeat, this.clock.loop ? this.clock.span : null, this.duration);
  }

  /** @param {Span} shown The part that the plots show. */
  show(shown) {
    const isPart = shown.stop - shown.start < this.duration - 1e-6;
    moveBand(this.window, isPart ? shown : null, this.duration);
  }
}

/** @type {(node: HTMLElement, span: Span | null, duration: number) => void} */
function moveBand(node, span, duration) {
  node.hidden = span === null;
  if (!span) return;
  const [left, right] = [span.start, span.stop].map((second) => shareOf(second, 0, duration) * 100);
  Object.assign(node.style, { left: `${left}%`, width: `${right - left}%` });
}
