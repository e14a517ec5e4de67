// What the colours of the map mean: values with their number of episodes, or the two ends of a scale.
import { h } from "../dom.js";
import { HUES, STOPS } from "./scene.js";

/** @typedef {import("./scene.js").Palette} Palette */
/** @typedef {{ label: string, count: number, href: string }} Value */
/**
 * @typedef {object} Legend
 * @property {string} name Of the column.
 * @property {Value[]} values
 * @property {boolean} hasOthers
 * @property {boolean} hasMissing
 * @property {string | null} low
 * @property {string | null} high
 */

/** @type {(colour: string, ...children: HTMLElement[]) => HTMLLIElement} */
function buildEntry(colour, ...children) {
  return h("li", {}, h("i", { style: `background: ${colour}`, "aria-hidden": "true" }), children);
}

/** @type {(legend: Legend, isScale: boolean, palette: Palette) => HTMLElement[]} */
export function buildLegend({ name, values, hasOthers, hasMissing, low, high }, isScale, palette) {
  const entries = values.map(({ label, count, href }, index) =>
    buildEntry(HUES[index], h("a", { href, title: label }, label), h("span", {}, count.toLocaleString("en"))),
  );
  if (hasOthers) entries.push(buildEntry(palette.other, h("span", {}, "other values")));
  if (hasMissing) entries.push(buildEntry(palette.missing, h("span", {}, "no value")));
  const gradient = `background: linear-gradient(to right, ${STOPS.join()})`;
  const scale = h(
    "div",
    { class: "scale" },
    h("i", { style: gradient, "aria-hidden": "true" }),
    h("span", {}, low),
    h("span", {}, high),
  );
  const parts = [
    h("p", { class: "muted" }, name),
    isScale && scale,
    entries.length > 0 && h("ul", {}, entries),
  ];
  return parts.filter((part) => part instanceof HTMLElement);
}
