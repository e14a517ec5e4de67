// Shares of episodes as bars: each part opens its episodes, and a mark shows how far the share is known.
import { h, mount } from "../dom.js";

/** @typedef {{ tone: string, share: number, label: string, href: string }} Part */
/**
 * @typedef {object} Bar
 * @property {string} name What the row is about.
 * @property {string} href Its episodes, or "".
 * @property {Part[]} parts From the left.
 * @property {Part[]} [more] Numbers beside the bar that are no part of it.
 * @property {number | null} low Lower end of the interval of the share, 0 to 1.
 * @property {number | null} high
 * @property {string} text The numbers.
 */
/** @typedef {{ rows: Bar[], name: string, measure: string }} BarsData */

/** @param {number} share */
const percent = (share) => `${(share * 100).toFixed(2)}%`;

// A narrower part is no target for a finger: its number beside the bar is.
const LEAST_TARGET = 0.12;

/** @param {Part} part */
function buildPart({ tone, share, label, href }) {
  const props = { class: `part ${tone}`, title: label, style: `width: ${percent(share)}` };
  if (share < LEAST_TARGET) return h("span", props);
  return h("a", { ...props, "aria-label": label, href });
}

/** @param {Bar} bar */
function buildRow({ name, href, parts, more = [], low, high, text }) {
  const isKnown = low !== null && high !== null;
  const style = isKnown && `left: ${percent(low)}; width: ${percent(Math.max(high - low, 0.004))}`;
  const interval = style && h("i", { class: "interval", style, "aria-hidden": "true" });
  const label = href ? h("a", { href, title: name }, name) : h("span", { title: name }, name);
  const drawn = parts.filter(({ share }) => share > 0);
  const links = [...drawn, ...more].map((part) =>
    h("a", { class: `badge ${part.tone}`, href: part.href }, part.label),
  );
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, label),
    h("td", { class: "track" }, h("div", { class: "bar" }, drawn.map(buildPart), interval)),
    h("td", { class: "numbers" }, h("span", {}, text), links),
  );
}

/** @type {(root: HTMLElement, data: BarsData) => void} */
function buildBars(root, { rows, name, measure }) {
  const heads = [name, "share of episodes", measure].map((text) => h("th", { scope: "col" }, text));
  const body = rows.map(buildRow);
  root.append(h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, body)));
}

/** @param {import("../dom.js").Component<BarsData>} component */
export default function (component) {
  return mount(component, buildBars);
}
