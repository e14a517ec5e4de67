// The table beside a plot: a row per dimension with its range and its values now.
import { h } from "../dom.js";
import { extremes, shareOf, writeValue } from "./scale.js";

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {string} label The name without what its group says.
 * @property {(number | null)[]} values
 * @property {(number | null)[] | null} action Commanded values of the same dimension.
 * @property {string} [colour]
 * @property {boolean} [hidden]
 */
/** @typedef {{ row: HTMLElement, dot: HTMLElement, button: HTMLElement, cells: HTMLElement[] }} Row */

export class JointTable {
  /**
   * @param {Line[]} lines
   * @param {[low: number, high: number]} limits Of all lines of the plot.
   * @param {() => void} onChange
   * @param {[solid: string, dashed: string]} pair What both values of a dimension are.
   */
  constructor(lines, limits, onChange, pair = ["state", "action"]) {
    this.pair = pair;
    this.limits = limits;
    this.onChange = onChange;
    this.lines = lines;
    this.hasAction = this.lines.some((line) => line.action);
    /** @type {Line | null} The line that is drawn in bold. */
    this.emphasised = null;
    /** @type {Map<Line, Row>} */
    this.rows = new Map();
    const body = h(
      "tbody",
      {},
      lines.map((line) => this.buildRow(line)),
    );
    this.node = h("div", { class: "joints" }, h("table", {}, this.buildHead(), body));
  }

  buildHead() {
    const names = ["dimension", "range", ...this.pair].slice(0, this.hasAction ? 4 : 3);
    if (!this.hasAction) names[2] = "value";
    return h(
      "thead",
      {},
      h(
        "tr",
        {},
        names.map((name) => h("th", { scope: "col" }, name)),
      ),
    );
  }

  /** @param {Line} line */
  buildRow(line) {
    const dot = h("b", {});
    const button = this.buildButton(line);
    const cells = [h("td", { class: "value" })];
    if (this.hasAction) cells.push(h("td", { class: "value action" }));
    const row = h("tr", {}, h("td", {}, button), h("td", {}, this.buildRange(line, dot)), cells);
    row.addEventListener("pointerenter", () => this.emphasise(line));
    row.addEventListener("pointerleave", () => this.emphasise(null));
    this.rows.set(line, { row, dot, button, cells });
    return row;
  }

  /** @param {Line} line */
  buildButton(line) {
    const flip = () => {
      line.hidden = !line.hidden;
      this.paint();
    };
    const title = `${line.name}: click hides or shows, double click shows only this`;
    const props = { class: "entry", title, "aria-pressed": "true", onclick: flip };
    const colour = h("i", { style: `background:${line.colour}` });
    const button = h("button", props, colour, h("span", { class: "name" }, line.label));
    button.addEventListener("dblclick", () => this.showOnly([line]));
    button.addEventListener("focus", () => this.emphasise(line));
    button.addEventListener("blur", () => this.emphasise(null));
    return button;
  }

  /**
   * The range of a line within that of the plot, with a dot at the value now.
   *
   * @param {Line} line
   * @param {HTMLElement} dot
   */
  buildRange(line, dot) {
    const [low, high] = extremes(line.values);
    const [left, right] = [low, high].map((value) => shareOf(value, ...this.limits) * 100);
    const title = low > high ? "no values" : `${writeValue(low)} to ${writeValue(high)}`;
    const bar = h("i", { style: `left:${left}%;width:${Math.max(2, right - left)}%` });
    return h("div", { class: "range", title }, low <= high && bar, dot);
  }

  /** @param {Line | null} line */
  emphasise(line) {
    this.emphasised = line;
    this.onChange();
  }

  /** @param {Line[]} lines */
  showOnly(lines) {
    const isAlready = this.lines.every((line) => !line.hidden === lines.includes(line));
    for (const line of this.lines) line.hidden = !isAlready && !lines.includes(line);
    this.paint();
  }

  paint() {
    for (const [line, { row, button }] of this.rows) {
      row.classList.toggle("off", Boolean(line.hidden));
      button.setAttribute("aria-pressed", String(!line.hidden));
    }
    this.onChange();
  }

  /** @param {number} index Of the values. */
  show(index) {
    for (const [line, { dot, cells }] of this.rows) {
      const value = line.values[index];
      dot.hidden = value === null;
      dot.style.left = `${shareOf(value ?? 0, ...this.limits) * 100}%`;
      cells[0].textContent = writeValue(value);
      if (this.hasAction) cells[1].textContent = writeValue(line.action?.[index]);
    }
  }
}
