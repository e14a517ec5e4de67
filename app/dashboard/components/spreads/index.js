// How numbers spread over a dataset, in grey, with one episode in colour, and links to both ends.
import { h, mount } from "../dom.js";

/** @typedef {{ label: string, href: string }} Link */
/**
 * @typedef {object} Spread
 * @property {string} name
 * @property {number[]} all Height of each bin of the dataset, 0 to 1.
 * @property {number[]} own That of the episode; empty without a value.
 * @property {string} text The episode's own value, and what share of the dataset lies below.
 * @property {Link | null} low The episode with the lowest value.
 * @property {Link | null} high
 */

/** @type {(spread: Spread) => HTMLElement} */
function buildHistogram({ name, all, own, text }) {
  const bins = all.map((height, index) =>
    h(
      "span",
      { class: "bin" },
      h("i", { class: "all", style: `height: ${(100 * height).toFixed(1)}%` }),
      own[index] > 0 && h("i", { class: "own", style: `height: ${(100 * own[index]).toFixed(1)}%` }),
    ),
  );
  return h("div", { class: "bins", role: "img", "aria-label": `${name}: ${text}` }, bins);
}

/** @type {(link: Link | null) => HTMLElement} */
function buildEnd(link) {
  return h("td", { class: "end" }, link && h("a", { href: link.href }, link.label));
}

/** @type {(root: HTMLElement, data: { rows: Spread[] }) => void} */
function buildSpreads(root, { rows }) {
  const heads = ["", "lowest", "dataset grey, episode coloured", "highest", "this episode"];
  const body = rows.map((row) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", title: row.name }, row.name),
      buildEnd(row.low),
      h("td", {}, buildHistogram(row)),
      buildEnd(row.high),
      h("td", { class: "text" }, row.text),
    ),
  );
  const head = h(
    "tr",
    {},
    heads.map((text) => (text ? h("th", { scope: "col" }, text) : h("td", {}))),
  );
  root.append(h("table", {}, h("thead", {}, head), h("tbody", {}, body)));
}

/** @param {import("../dom.js").Component<{ rows: Spread[] }>} component */
export default function (component) {
  return mount(component, buildSpreads);
}
