// The legend of a plot: a colour, a name and the values now for each line, and a choice of what is drawn.
import { h } from "../dom.js";
import { writeValue } from "./scale.js";

/**
 * @typedef {object} Line
 * @property {string} name
 * @property {string} label The name without what its group says.
 * @property {(number | null)[]} values
 * @property {(number | null)[] | null} mean Of each block of which two values are the extremes.
 * @property {(number | null)[] | null} action Commanded values of the same dimension.
 * @property {(number | null)[] | null} action_mean
 * @property {string} [colour]
 * @property {boolean} [hidden]
 */

export class Legend {
  /**
   * @param {Line[]} lines
   * @param {number} most So many are drawn at first: more only cover each other.
   * @param {() => void} onChange
   */
  constructor(lines, most, onChange) {
    this.lines = lines;
    this.onChange = onChange;
    this.hasAction = lines.some((line) => line.action);
    /** @type {Map<Line, { entry: HTMLElement, value: HTMLElement, action: HTMLElement }>} */
    this.entries = new Map(lines.map((line) => [line, this.buildEntry(line)]));
    const few = lines.length > most ? [["few", `first ${most} of ${lines.length}`]] : [];
    const choices = [
      ...few,
      ["all", `all ${lines.length}`],
      ...lines.map(({ label }, at) => [String(at), label]),
    ];
    this.select = h("select", { class: "shown-lines", "aria-label": "Dimensions that are drawn" });
    this.select.append(...choices.map(([value, text]) => h("option", { value }, text)));
    this.select.hidden = lines.length < 2;
    this.select.addEventListener("change", () => this.choose(this.select.value, most));
    const entries = [...this.entries.values()].map(({ entry }) => entry);
    this.node = h("div", { class: "legend" }, entries);
    this.choose(choices[0][0], most);
  }

  /** @param {Line} line */
  buildEntry(line) {
    const value = h("span", { class: "value" });
    const colour = h("i", { style: `background:${line.colour}` });
    const action = h("span", { class: "value action" });
    const entry = h("span", { class: "entry", title: line.name }, colour, line.label, value, action);
    return { entry, value, action };
  }

  /**
   * @param {string} choice "few", "all", or the number of a line.
   * @param {number} most
   */
  choose(choice, most) {
    this.lines.forEach((line, at) => {
      line.hidden = choice === "few" ? at >= most : choice !== "all" && choice !== String(at);
      this.entries.get(line)?.entry.classList.toggle("off", line.hidden);
    });
    this.onChange();
  }

  /** @param {number} index Of the values. */
  show(index) {
    for (const [line, { value, action }] of this.entries) {
      value.textContent = writeValue(line.values[index]);
      if (line.action) action.textContent = `→ ${writeValue(line.action[index])}`;
    }
  }
}
