// Lanes of segments on the clock of the player, and the text of each lane at the second that is shown.
import { codeInWords, h } from "../dom.js";
import { buildTextEdit, GRIP_PIXELS, moveBoundary, SAME_SECONDS } from "./corrections.js";
import { shareOf } from "./scale.js";

/** @typedef {import("./clock.js").Span} Span */
/**
 * Its text by number, and its id where it can be changed.
 *
 * @typedef {[start: number, stop: number, row: number, text: number, id?: string]} Segment
 */
/** @typedef {import("./corrections.js").SegmentChange} SegmentChange */
/** @typedef {[text: string, author: string, grade: string]} SegmentText */
/**
 * @typedef {object} Lane
 * @property {string} name The annotator.
 * @property {string} label
 * @property {string} about Who made it.
 * @property {number} rows
 * @property {number} crowded Spans that lie over others in the last row.
 * @property {SegmentText[]} texts
 * @property {Segment[]} spans In order of their starts.
 * @property {string} [severity] Of a finding of the checks, whose text is not said under the picture.
 */
/** @typedef {{ lanes: Lane[], more: string[] }} LaneData */

// Lanes that are open at first, and lines of text under the picture.
const OPEN_LANES = 6;
const MOST_NOW_LINES = 4;
const LANE_COLOURS = 8;
const ROW_PIXELS = 18;
const INSTANT_SECONDS = 1;

/** @param {Segment} segment Seconds until which it is current: an instant is for a second. */
function endOf([start, stop]) {
  return stop > start ? stop : start + INSTANT_SECONDS;
}

/**
 * For each segment the latest end of those up to it.
 *
 * @param {readonly Segment[]} spans
 */
export function latestEnds(spans) {
  let latest = -Infinity;
  return spans.map((segment) => (latest = Math.max(latest, endOf(segment))));
}

/**
 * The segment of a lane at a second: of several the one that began last; null where there is none.
 *
 * @param {readonly Segment[]} spans In order of their starts.
 * @param {readonly number[]} ends Of `latestEnds`.
 * @param {number} time
 */
export function segmentAt(spans, ends, time) {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][0] <= time + 1e-6) low = middle + 1;
    else high = middle;
  }
  for (let index = low - 1; index >= 0 && ends[index] > time; index--) {
    if (endOf(spans[index]) > time) return spans[index];
  }
  return null;
}

/**
 * Starts and ends of segments, in order, each once.
 *
 * @param {readonly Lane[]} lanes
 */
export function listBoundaries(lanes) {
  const seconds = lanes.flatMap(({ spans }) => spans.flatMap(([start, stop]) => [start, stop]));
  seconds.sort((first, second) => first - second);
  return seconds.filter((second, index) => index === 0 || second - seconds[index - 1] > SAME_SECONDS);
}

/**
 * The next second beyond another one; undefined where there is none.
 *
 * @param {readonly number[]} seconds In order.
 * @param {number} time
 * @param {number} step -1 for the previous one, 1 for the next.
 */
export function secondBeyond(seconds, time, step) {
  const isBeyond = (/** @type {number} */ second) => (second - time) * step > SAME_SECONDS;
  return step > 0 ? seconds.find(isBeyond) : seconds.findLast(isBeyond);
}

export class Lanes {
  /**
   * @param {LaneData} data
   * @param {number} duration Seconds of the episode.
   * @param {import("./clock.js").Clock} clock
   * @param {(changes: SegmentChange[]) => void} change What a person changed of segments.
   */
  constructor(data, duration, clock, change) {
    this.change = change;
    this.isEdited = false;
    this.duration = duration;
    this.clock = clock;
    this.shown = { start: 0, stop: duration };
    this.lanes = data.lanes.map((lane, number) => new SegmentLane(lane, number, this));
    /** @type {number[]} Of the open lanes. */
    this.boundaries = [];
    this.drawn = "";
    // Where there are few lanes a text may take two lines; what stands below does not move.
    const isRoomy = 2 * data.lanes.length <= MOST_NOW_LINES;
    this.now = h("div", { class: isRoomy ? "now roomy" : "now" });
    const lines = isRoomy ? data.lanes.length : MOST_NOW_LINES;
    this.now.style.minHeight = `${lines * 1.6}em`;
    const more =
      data.more.length > 0 && `${data.more.length} more lanes are not drawn: ${data.more.join(", ")}`;
    this.node = h(
      "div",
      { class: "lanes" },
      this.lanes.map((lane) => lane.node),
      more && h("div", { class: "more-lanes muted" }, more),
    );
    this.lanes.forEach((lane, number) => lane.setOpen(number < OPEN_LANES));
    this.noteOpened();
  }

  /** @param {Lane[]} lanes Drawn below the others. */
  add(lanes) {
    const added = lanes.map((lane, index) => new SegmentLane(lane, this.lanes.length + index, this));
    this.lanes.push(...added);
    for (const lane of added) {
      lane.setOpen(true);
      lane.show(this.shown);
      this.node.append(lane.node);
    }
    this.noteOpened();
  }

  noteOpened() {
    const open = this.lanes.filter(({ isOpen }) => isOpen);
    this.boundaries = listBoundaries((open.length ? open : this.lanes).map(({ lane }) => lane));
    this.drawn = "";
    this.update();
  }

  /** The line of now is drawn again, where it was a field. */
  endEdit() {
    this.isEdited = false;
    this.drawn = "";
    this.update();
  }

  /** @param {number} step -1 for the previous boundary, 1 for the next. */
  jump(step) {
    const second = secondBeyond(this.boundaries, this.clock.time, step);
    if (second !== undefined) this.clock.seek(second);
  }

  /** @param {Span} shown The part that the plots show. */
  show(shown) {
    this.shown = shown;
    this.lanes.forEach((lane) => lane.show(shown));
    this.update();
  }

  update() {
    const { time } = this.clock;
    const isShown = time >= this.shown.start && time <= this.shown.stop;
    const left = `${shareOf(time, this.shown.start, this.shown.stop) * 100}%`;
    const current = this.lanes
      .filter(({ isOpen }) => isOpen)
      .map((lane) => ({ lane, segment: lane.showSecond(time) }));
    const style = { left, display: isShown ? "" : "none" };
    current.forEach(({ lane }) => Object.assign(lane.cursor.style, style));
    const lines = current
      .filter(({ lane, segment }) => !lane.lane.severity && lane.textOf(segment)[0])
      .slice(0, MOST_NOW_LINES);
    const drawn = lines.map(({ lane, segment }) => `${lane.number}/${segment?.join("/")}`).join();
    if (drawn === this.drawn || this.isEdited) return;
    this.drawn = drawn;
    this.now.replaceChildren(...lines.map(({ lane, segment }) => lane.buildLine(segment)));
  }
}

class SegmentLane {
  /**
   * @param {Lane} lane
   * @param {number} number
   * @param {Lanes} owner
   */
  constructor(lane, number, owner) {
    this.lane = lane;
    this.number = number;
    this.owner = owner;
    this.isOpen = false;
    this.isDragged = false;
    this.ends = latestEnds(lane.spans);
    /** @type {Map<Segment, HTMLElement>} Empty until the lane is opened. */
    this.blocks = new Map();
    /** @type {Segment | null} */
    this.current = null;
    this.cursor = h("b", { class: "lane-cursor" });
    this.strip = h("div", { class: "strip" });
    this.track = h("div", { class: "lane-track", hidden: true }, this.strip, this.cursor);
    this.track.style.height = `${lane.rows * ROW_PIXELS + 2}px`;
    const crowded = lane.crowded ? `, ${lane.crowded} more overlap` : "";
    const count = h("span", { class: "muted" }, ` ${lane.spans.length.toLocaleString("en")}${crowded}`);
    this.fold = h(
      "button",
      { class: "lane-fold", title: `${lane.label}: ${lane.about}` },
      h("b", {}, lane.label),
      count,
    );
    this.fold.addEventListener("click", () => {
      this.setOpen(!this.isOpen);
      owner.noteOpened();
    });
    const style = lane.severity ? `lane ${lane.severity}` : `lane c${number % LANE_COLOURS}`;
    this.node = h("div", { class: style, "data-lane": lane.name }, this.fold, this.track);
    this.track.addEventListener("click", (event) => this.seek(event));
    this.addDrag();
  }

  /** Lets a boundary be dragged: it moves the player along, and is stored when it is let go. */
  addDrag() {
    /** @type {number | null} */
    let boundary = null;
    this.track.addEventListener("pointermove", (event) => {
      this.track.classList.toggle("grips", boundary !== null || this.boundaryAt(event) !== null);
      if (boundary === null) return;
      const changes = moveBoundary(this.lane.spans, boundary, this.secondAt(event));
      this.preview(changes);
      const [{ start, stop }] = changes;
      this.owner.clock.seek(
        Math.abs(start - this.secondAt(event)) < stop - this.secondAt(event) ? start : stop,
      );
    });
    this.track.addEventListener("pointerdown", (event) => {
      boundary = this.boundaryAt(event);
      if (boundary === null) return;
      this.track.setPointerCapture(event.pointerId);
      this.owner.clock.pause();
    });
    this.track.addEventListener("pointerup", (event) => {
      if (boundary === null) return;
      const changes = moveBoundary(this.lane.spans, boundary, this.secondAt(event));
      const isMoved = Math.abs(this.secondAt(event) - boundary) > SAME_SECONDS;
      boundary = null;
      this.isDragged = isMoved;
      if (isMoved) this.owner.change(changes);
    });
  }

  /** @param {MouseEvent} event */
  secondAt(event) {
    const { start, stop } = this.owner.shown;
    const box = this.track.getBoundingClientRect();
    return start + shareOf(event.clientX, box.left, box.right) * (stop - start);
  }

  /**
   * The boundary under the pointer that can be moved; null where there is none.
   *
   * @param {MouseEvent} event
   */
  boundaryAt(event) {
    const { start, stop } = this.owner.shown;
    const reach = (GRIP_PIXELS / Math.max(1, this.track.clientWidth)) * (stop - start);
    const second = this.secondAt(event);
    const editable = this.lane.spans.filter((span) => span[4] && span[1] > span[0]);
    const edges = editable.flatMap(([first, last]) => [first, last]);
    const near = edges.filter((edge) => Math.abs(edge - second) <= reach);
    const isEnd = (/** @type {number} */ edge) => edge <= 0 || edge >= this.owner.duration - SAME_SECONDS;
    return near.find((edge) => !isEnd(edge)) ?? null;
  }

  /** @param {SegmentChange[]} changes */
  preview(changes) {
    for (const [segment, block] of this.blocks) {
      const change = changes.find(({ id }) => id === segment[4]);
      if (change) this.layOut(block, change.start, change.stop);
    }
  }

  /** @type {(block: HTMLElement, start: number, stop: number) => void} */
  layOut(block, start, stop) {
    const [left, right] = [start, stop].map((second) => shareOf(second, 0, this.owner.duration) * 100);
    Object.assign(block.style, { left: `${left}%`, width: stop > start ? `${right - left}%` : "" });
  }

  /** @param {boolean} isOpen */
  setOpen(isOpen) {
    this.isOpen = isOpen;
    if (isOpen && !this.blocks.size) this.draw();
    this.track.hidden = !isOpen;
    this.node.classList.toggle("folded", !isOpen);
    this.fold.setAttribute("aria-expanded", String(isOpen));
  }

  draw() {
    this.blocks = new Map(this.lane.spans.map((segment) => [segment, this.buildBlock(segment)]));
    this.strip.append(...this.blocks.values());
  }

  /** @param {Segment} segment */
  buildBlock(segment) {
    const [start, stop, row, number] = segment;
    const [text] = this.lane.texts[number];
    const isInstant = stop <= start;
    const block = h(
      "i",
      { class: isInstant ? "segment instant" : "segment", dir: "auto" },
      isInstant ? "" : text,
    );
    this.layOut(block, start, stop);
    block.style.top = `${row * ROW_PIXELS + 1}px`;
    block.title = describeSegment(segment, this.lane.texts[number]);
    return block;
  }

  /** @param {MouseEvent} event */
  seek(event) {
    if (this.isDragged) {
      this.isDragged = false;
      return;
    }
    const target = [...this.blocks].find(([, block]) => block === event.target);
    this.owner.clock.seek(target ? target[0][0] : this.secondAt(event));
  }

  /** @param {Span} shown */
  show({ start, stop }) {
    const whole = this.owner.duration;
    const length = Math.max(stop - start, 1e-6);
    Object.assign(this.strip.style, {
      width: `${(whole / length) * 100}%`,
      left: `${(-start / length) * 100}%`,
    });
  }

  /**
   * Marks the segment of a second, and returns it.
   *
   * @param {number} time
   */
  showSecond(time) {
    const segment = segmentAt(this.lane.spans, this.ends, time);
    if (segment !== this.current) {
      if (this.current) this.blocks.get(this.current)?.classList.remove("current");
      if (segment) this.blocks.get(segment)?.classList.add("current");
      this.current = segment;
    }
    return segment;
  }

  /**
   * @param {Segment | null} segment
   * @returns {SegmentText}
   */
  textOf(segment) {
    return segment ? this.lane.texts[segment[3]] : ["", "", ""];
  }

  /** @param {Segment | null} segment */
  buildLine(segment) {
    const [text, author, grade] = this.textOf(segment);
    const by = author ? `${this.lane.label}, by ${author}` : this.lane.label;
    return h(
      "div",
      { class: `now-line c${this.number % LANE_COLOURS}`, title: text },
      h("span", { class: "muted now-lane" }, by),
      h("span", { class: "now-text", dir: "auto" }, text),
      grade && h("span", { class: "badge none" }, codeInWords(grade)),
      segment?.[4] && buildTextEdit(segment, text, this.owner),
    );
  }
}

/** @type {(segment: Segment, text: SegmentText) => string} */
function describeSegment([start, stop], [text, author, grade]) {
  const span = stop > start ? `${start.toFixed(2)} to ${stop.toFixed(2)} s` : `at ${start.toFixed(2)} s`;
  return [`${span}: ${text || "no text"}`, author && `by ${author}`, grade].filter(Boolean).join(", ");
}
