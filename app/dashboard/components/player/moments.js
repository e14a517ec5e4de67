// The moments of an episode, by name: where it most likely failed, and every other event.
import { h } from "../dom.js";
import { secondBeyond } from "./lanes.js";

/** @typedef {import("./timeline.js").Tick} Tick */

const NEAR_SECONDS = 0.05;

/**
 * The event that is shown, or the next likely one; null where there is none.
 *
 * @param {readonly Tick[]} events In order.
 * @param {number} time
 */
export function momentAt(events, time) {
  const here = events.filter(({ seconds }) => Math.abs(seconds - time) < NEAR_SECONDS);
  const likely = events.filter((event) => event.likely);
  return (
    here.find((event) => event.likely) ??
    here[0] ??
    likely.find(({ seconds }) => seconds > time) ??
    likely[0] ??
    null
  );
}

export class Moments {
  /**
   * @param {Tick[]} ticks
   * @param {import("./clock.js").Clock} clock
   */
  constructor(ticks, clock) {
    this.clock = clock;
    /** @type {Tick[]} */
    this.events = [];
    this.node = h("button", { class: "moments", title: "Next event (E), previous (Shift E)" });
    this.node.addEventListener("click", () => this.jump(1));
    this.add(ticks);
  }

  /** @param {Tick[]} ticks Frames of evidence are no events. */
  add(ticks) {
    this.events.push(...ticks.filter(({ kind }) => kind !== "evidence"));
    this.events.sort((first, second) => first.seconds - second.seconds);
    this.update();
  }

  /** @param {number} step -1 for the previous event, 1 for the next; behind the last one comes the first. */
  jump(step) {
    const seconds = this.events.map((event) => event.seconds);
    const next = secondBeyond(seconds, this.clock.time, step) ?? seconds.at(step > 0 ? 0 : -1);
    if (next !== undefined) this.clock.seek(next);
  }

  update() {
    const event = momentAt(this.events, this.clock.time);
    this.node.hidden = event === null;
    if (!event) return;
    const isHere = Math.abs(event.seconds - this.clock.time) < NEAR_SECONDS;
    const text = `${isHere ? "" : "likely moment: "}${event.label}, ${event.seconds.toFixed(2)} s`;
    if (this.node.dataset.text === text) return;
    this.node.dataset.text = text;
    this.node.replaceChildren(text, h("kbd", {}, "e"));
  }
}
