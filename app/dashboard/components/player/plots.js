// A small plot per group of a signal: lines on a canvas, the cursor above it, and a legend with values.
import { h } from "../dom.js";
import { nearestBefore } from "./clock.js";
import { Legend } from "./legend.js";
import { addPointer } from "./pointer.js";
import { bandColumns, bounds, niceSteps, shareOf, timeSteps, writeSecond } from "./scale.js";

/** @typedef {import("./legend.js").Line} Line */
/** @typedef {import("./clock.js").Span} Span */
/** @typedef {import("./scale.js").Values} Values */
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
      line.colour = COLOURS[number % COLOURS.length];
    });
    this.canvas = h("canvas", { role: "img", "aria-label": `${signal.title}, ${this.title}, over time` });
    this.cursor = h("div", { class: "cursor" });
    this.ghost = h("div", { class: "ghost" });
    this.area = h("div", { class: "area" }, this.canvas, this.ghost, this.cursor);
    this.legend = new Legend(this.lines, MOST_LINES, () => this.draw());
    this.node = this.build();
    addPointer(this.area, (x, box) => this.timeAt(x - box.left, box.width), actions);
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.area);
  }

  build() {
    const { title, pair, block } = this.signal;
    const [solid, dashed] = pair ?? ["state", "action"];
    const key = this.legend.hasAction ? `solid ${solid}, dashed ${dashed}` : title.toLowerCase();
    const name = h("span", { class: "plot-name" }, this.title);
    const band = block ? `; mean and extremes of every ${block.toPrecision(2)} s` : "";
    const what = key === this.title.toLowerCase() ? band.slice(2) : key + band;
    const head = h(
      "div",
      { class: "plot-title" },
      name,
      h("span", { class: "key" }, what),
      this.legend.select,
    );
    const data = { "data-signal": title, "data-group": this.title };
    return h("section", { class: "plot", ...data }, head, this.area, this.legend.node);
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

  draw() {
    if (!this.legend) return;
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
    frame.pen.strokeStyle = line.colour ?? COLOURS[0];
    frame.pen.lineWidth = 1.5;
    this.drawLine(frame, line.values, line.mean, []);
    if (line.action) this.drawLine(frame, line.action, line.action_mean, ACTION_DASH);
  }

  /** @type {(frame: Frame, values: Values, means: Values | null, dash: number[]) => void} */
  drawLine(frame, values, means, dash) {
    const { pen } = frame;
    pen.setLineDash(dash);
    pen.lineJoin = "round";
    pen.beginPath();
    const xs = this.signal.times.map((time) => this.x(time));
    const inside = xs.filter((x) => x >= LEFT && x <= frame.width - RIGHT).length;
    if (inside > MOST_IN_COLUMN * (frame.width - LEFT - RIGHT)) {
      const shown = this.lines.filter((line) => !line.hidden).length;
      const columns = bandColumns(xs, values);
      drawBand(frame, columns, Math.min(BAND_ALPHA, BANDS_ALPHA / shown));
      // Two points of a long signal are the extremes of a block, which has one mean.
      const centres = means ? xs.filter((_, index) => index % 2 === 0) : columns.map(({ x }) => x);
      strokeLine(frame, centres, means ?? columns.map(({ mean }) => mean));
    } else strokeLine(frame, xs, values);
    pen.setLineDash([]);
  }

  /** @param {Frame} frame */
  drawAxes(frame) {
    const { pen, width, height, low, high } = frame;
    const style = getComputedStyle(this.canvas);
    pen.font = `12px ${style.fontFamily}`;
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
    this.legend.show(nearestBefore(this.signal.times, time));
  }

  /** @param {number | null} time The second under the pointer; null where it is elsewhere. */
  hover(time) {
    this.ghost.style.display = time === null ? "none" : "block";
    if (time !== null) this.ghost.style.transform = `translateX(${this.x(time)}px)`;
    this.legend.show(nearestBefore(this.signal.times, time ?? this.time));
  }
}

/**
 * A band from the lowest to the highest value of each column.
 *
 * @param {Frame} frame
 * @param {import("./scale.js").Column[]} columns
 * @param {number} alpha
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
}

/** @type {(frame: Frame, xs: number[], values: Values) => void} A null value interrupts the line. */
function strokeLine(frame, xs, values) {
  const { pen } = frame;
  let isDown = false;
  values.forEach((value, index) => {
    if (value !== null) {
      if (isDown) pen.lineTo(xs[index], yOf(frame, value));
      else pen.moveTo(xs[index], yOf(frame, value));
    }
    isDown = value !== null;
  });
  pen.stroke();
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
