// A small plot per group of a signal: lines on a canvas, the cursor above it, a table of values beside it.
import { h } from "../dom.js";
import { nearestBefore } from "./clock.js";
import { JointTable } from "./joints.js";
import { addPointer } from "./pointer.js";
import { bandColumns, bounds, niceSteps, shareOf, timeSteps, writeSecond } from "./scale.js";

/** @typedef {import("./joints.js").Line} Line */
/** @typedef {import("./clock.js").Span} Span */
/** @typedef {{ name: string, lines: Line[] }} Group */
/**
 * @typedef {object} Signal
 * @property {string} title
 * @property {number[]} times
 * @property {Group[]} groups Each has a plot.
 * @property {[solid: string, dashed: string]} [pair] What both lines of a dimension are.
 * @property {number} block Seconds of which only the extremes are drawn; 0 where every step is.
 */
/**
 * What is drawn on: its pen, its size in pixels, and the values at its bottom and top.
 *
 * @typedef {object} Frame
 * @property {CanvasRenderingContext2D} pen
 * @property {number} width
 * @property {number} height
 * @property {number} low
 * @property {number} high
 */

const COLOURS = ["#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed"].concat(
  ["#0891b2", "#db2777", "#65a30d", "#64748b", "#ea580c"], // read against white and against the dark theme
);
const LEFT = 46;
const BOTTOM = 18;
const TOP = 6;
const RIGHT = 8;
// More lines than this at first only cover each other.
const MOST_LINES = 10;
// With more points in a column of pixels a line would be a solid block: it is drawn as a band.
const MOST_IN_COLUMN = 2;
// Of one band, and of all bands over each other.
const BAND_ALPHA = 0.22;
const BANDS_ALPHA = 0.6;
const ACTION_DASH = [4, 3];

export class Plot {
  /**
   * @param {Signal} signal
   * @param {Group} group
   * @param {Span} shown The part of the episode that is drawn.
   * @param {import("./pointer.js").TimeActions} actions
   */
  constructor(signal, group, shown, actions) {
    this.signal = signal;
    this.title = group.name || signal.title;
    this.shown = shown;
    this.time = 0;
    this.lines = group.lines;
    this.lines.forEach((line, number) => {
      Object.assign(line, { colour: COLOURS[number % COLOURS.length], hidden: number >= MOST_LINES });
    });
    this.count = h("span", { class: "muted" });
    this.all = h("button", { onclick: () => this.table.showOnly(this.lines) }, "show all");
    this.limits = bounds(this.lines.flatMap(valueRows));
    this.table = new JointTable(this.lines, this.limits, () => this.draw(), signal.pair);
    this.canvas = h("canvas", { role: "img", "aria-label": `${signal.title}, ${this.title}, over time` });
    this.cursor = h("div", { class: "cursor" });
    this.ghost = h("div", { class: "ghost" });
    this.area = h("div", { class: "area" }, this.canvas, this.ghost, this.cursor);
    this.node = this.build();
    addPointer(this.area, (x, box) => this.timeAt(x - box.left, box.width), actions);
    this.table.paint();
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.area);
  }

  build() {
    const [solid, dashed] = this.table.pair;
    const key = this.table.hasAction ? `solid: ${solid}, dashed: ${dashed}` : this.signal.title.toLowerCase();
    const name = h("span", { class: "plot-name" }, this.title);
    const what = (this.signal.pair || this.title !== this.signal.title) && h("span", { class: "key" }, key);
    const title = h("div", { class: "plot-title" }, name, this.count, this.all, what);
    const row = h("div", { class: "plot-row" }, this.area, this.table.node);
    const data = { "data-signal": this.signal.title, "data-group": this.title };
    return h("section", { class: "plot", ...data }, title, row);
  }

  stop() {
    this.observer.disconnect();
  }

  /** @param {number} time */
  x(time) {
    const { start, stop } = this.shown;
    return LEFT + ((time - start) / (stop - start)) * (this.area.clientWidth - LEFT - RIGHT);
  }

  /**
   * @param {number} x
   * @param {number} width
   */
  timeAt(x, width) {
    const { start, stop } = this.shown;
    return start + shareOf(x, LEFT, width - RIGHT) * (stop - start);
  }

  /** @param {Span} shown */
  show(shown) {
    this.shown = shown;
    this.draw();
  }

  writeCount() {
    const shown = this.lines.filter((line) => !line.hidden).length;
    const all = this.lines.length;
    const block = this.signal.block ? `, extremes of every ${this.signal.block.toPrecision(2)} s` : "";
    const count = shown < all ? ` ${shown} of ${all} dimensions shown` : "";
    this.count.textContent = count + block;
    this.all.hidden = shown === all;
  }

  draw() {
    this.writeCount();
    const [width, height] = [this.area.clientWidth, this.area.clientHeight];
    const pen = this.canvas.getContext("2d");
    if (!width || !height || !pen) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    pen.scale(ratio, ratio);
    const [low, high] = bounds(this.lines.filter((line) => !line.hidden).flatMap(valueRows));
    this.drawFrame({ pen, width, height, low, high });
    this.update(this.time);
  }

  /** @param {Frame} frame */
  drawFrame(frame) {
    this.drawAxes(frame);
    frame.pen.beginPath();
    frame.pen.rect(LEFT, 0, frame.width - LEFT - RIGHT, frame.height - BOTTOM + 1);
    frame.pen.clip();
    for (const line of this.lines) if (!line.hidden) this.drawDimension(frame, line);
  }

  /**
   * @param {Frame} frame
   * @param {Line} line
   */
  drawDimension(frame, line) {
    const { emphasised } = this.table;
    frame.pen.strokeStyle = line.colour ?? COLOURS[0];
    frame.pen.globalAlpha = emphasised && emphasised !== line ? 0.25 : 1;
    frame.pen.lineWidth = emphasised === line ? 2.5 : 1.5;
    this.drawLine(frame, line.values, []);
    if (line.action) this.drawLine(frame, line.action, ACTION_DASH);
    frame.pen.globalAlpha = 1;
  }

  /** @type {(frame: Frame, values: (number | null)[], dash: number[]) => void} */
  drawLine(frame, values, dash) {
    const { pen } = frame;
    pen.setLineDash(dash);
    pen.lineJoin = "round";
    pen.beginPath();
    const xs = this.signal.times.map((time) => this.x(time));
    const inside = xs.filter((x) => x >= LEFT && x <= frame.width - RIGHT).length;
    if (inside > MOST_IN_COLUMN * (frame.width - LEFT - RIGHT)) {
      const shown = this.lines.filter((line) => !line.hidden).length;
      drawBand(frame, bandColumns(xs, values), Math.min(BAND_ALPHA, BANDS_ALPHA / shown));
      return;
    }
    let isDown = false;
    values.forEach((value, index) => {
      if (value !== null) {
        const point = /** @type {const} */ ([xs[index], yOf(frame, value)]);
        if (isDown) pen.lineTo(...point);
        else pen.moveTo(...point);
      }
      isDown = value !== null;
    });
    pen.stroke();
    pen.setLineDash([]);
  }

  /** @param {Frame} frame */
  drawAxes(frame) {
    const { pen, width, height, low, high } = frame;
    const style = getComputedStyle(this.canvas);
    pen.font = `11px ${style.fontFamily}`;
    pen.lineWidth = 1;
    pen.strokeStyle = style.getPropertyValue("--grid");
    pen.fillStyle = style.getPropertyValue("--axis");
    for (const value of niceSteps(low, high, Math.max(2, height / 40))) drawLevel(frame, value);
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const { start, stop } = this.shown;
    for (const second of timeSteps(start, stop, Math.max(2, width / 90))) {
      const text = writeSecond(second, stop);
      pen.fillText(
        text,
        Math.min(this.x(second), width - pen.measureText(text).width / 2),
        height - BOTTOM + 4,
      );
    }
  }

  /** @param {number} time */
  update(time) {
    this.time = time;
    this.cursor.style.transform = `translateX(${this.x(time)}px)`;
    this.cursor.hidden = time < this.shown.start || time > this.shown.stop;
    this.table.show(nearestBefore(this.signal.times, time));
  }

  /** @param {number | null} time The second under the pointer; null where it is elsewhere. */
  hover(time) {
    this.ghost.style.display = time === null ? "none" : "block";
    if (time !== null) this.ghost.style.transform = `translateX(${this.x(time)}px)`;
    this.table.show(nearestBefore(this.signal.times, time ?? this.time));
  }
}

/**
 * A band from the lowest to the highest value of each column, and a line through its middle.
 *
 * @param {Frame} frame
 * @param {import("./scale.js").Column[]} columns
 * @param {number} alpha Of the band.
 */
function drawBand(frame, columns, alpha) {
  const { pen } = frame;
  const { globalAlpha } = pen;
  columns.forEach(({ x, high }) => pen.lineTo(x, yOf(frame, high)));
  columns.toReversed().forEach(({ x, low }) => pen.lineTo(x, yOf(frame, low)));
  pen.fillStyle = pen.strokeStyle;
  pen.globalAlpha = globalAlpha * alpha;
  pen.fill();
  pen.globalAlpha = globalAlpha;
  pen.beginPath();
  columns.forEach(({ x, low, high }) => pen.lineTo(x, yOf(frame, (low + high) / 2)));
  pen.stroke();
  pen.setLineDash([]);
}

/** @param {Line} line */
function valueRows(line) {
  return line.action ? [line.values, line.action] : [line.values];
}

/**
 * @param {Frame} frame
 * @param {number} value
 */
function yOf({ low, high, height }, value) {
  return TOP + (1 - (value - low) / (high - low)) * (height - TOP - BOTTOM);
}

/**
 * @param {Frame} frame
 * @param {number} value
 */
function drawLevel(frame, value) {
  const { pen, width } = frame;
  const y = yOf(frame, value);
  pen.textAlign = "right";
  pen.textBaseline = "middle";
  pen.beginPath();
  pen.moveTo(LEFT, y);
  pen.lineTo(width - RIGHT, y);
  pen.stroke();
  pen.fillText(String(Number(value.toPrecision(4))), LEFT - 6, y);
}
