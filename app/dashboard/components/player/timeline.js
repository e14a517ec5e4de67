// The timeline: a slider, ticks of events and of evidence with their legend.
import { h } from "../dom.js";
import { buildMarkers } from "../targets.js";
import { addPointer } from "./pointer.js";
import { shareOf } from "./scale.js";

/** @typedef {import("./clock.js").Span} Span */
/** @typedef {{ seconds: number, label: string, kind: string }} Tick */
/** @typedef {import("./clock.js").Clock} Clock */

/** @type {Record<string, string>} What each kind of tick is, in the order of the legend. */
const LEGEND = {
  closes: "gripper or hand closes",
  opens: "gripper or hand opens",
  changes: "gripper or hand opens or closes",
  event: "event of an annotator",
  evidence: "evidence of the grade",
};

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
    this.bar = this.buildBar();
    const seek = (/** @type {number} */ second) => clock.seek(second);
    const ticks =
      data.ticks.length > 0 && buildMarkers("ticks", data.ticks.map(tickMarker), this.duration, seek);
    this.node = h("div", { class: "timebar" }, this.bar, ticks, buildLegend(data));
    addPointer(this.bar, (x, box) => shareOf(x, box.left, box.right) * this.duration, actions);
  }

  buildBar() {
    const range = { "aria-label": "time", "aria-valuemin": 0, "aria-valuemax": this.duration };
    const rail = h("div", { class: "rail" }, this.fill);
    const props = { class: "timeline", role: "slider", tabIndex: 0, ...range };
    return h("div", props, rail, this.window, this.repeat, this.knob);
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
  if (span) Object.assign(node.style, bandStyle(span, duration));
}

/**
 * @param {Span} span
 * @param {number} duration
 */
function bandStyle(span, duration) {
  const [left, right] = [span.start, span.stop].map((second) => shareOf(second, 0, duration) * 100);
  return { left: `${left}%`, width: `${right - left}%` };
}

/** @type {(tick: Tick) => import("../targets.js").Marker} */
function tickMarker({ seconds, label, kind }) {
  const node = h("i", { class: `tick ${kind}` });
  return { start: seconds, stop: seconds, label: `${seconds.toFixed(2)} s: ${label}`, node };
}

/** @param {{ ticks: Tick[] }} data */
function buildLegend(data) {
  const kinds = Object.keys(LEGEND).filter((kind) => data.ticks.some((tick) => tick.kind === kind));
  const entries = kinds.map((kind) => buildEntry(`tick ${kind}`, LEGEND[kind]));
  return entries.length > 0 && h("div", { class: "tick-legend" }, entries);
}

/**
 * @param {string} style
 * @param {string} text
 */
function buildEntry(style, text) {
  return h("span", { class: "tick-entry" }, h("i", { class: style }), text);
}
