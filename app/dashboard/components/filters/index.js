// The filters in groups, with a field that finds one: values with their counts and bars, a histogram with a
// range, "missing" always shown.
import { h, mount, numberClick } from "../dom.js";

/**
 * @typedef {object} Facet
 * @property {string} column
 * @property {string} label
 * @property {string} meaning
 * @property {string} type
 * @property {string} unit
 * @property {boolean} open
 * @property {string} group "" stands above the groups.
 * @property {[value: string, count: number, words: string][]} counts
 * @property {number[]} histogram Counts between the edges.
 * @property {number[]} edges
 * @property {number} below
 * @property {number} above
 * @property {number} missing
 * @property {string[]} values The values that are filtered for.
 * @property {number | null} low
 * @property {number | null} high
 * @property {boolean} missing_on
 */
/** @typedef {{ values: string[], low: number | null, high: number | null, missing: boolean }} Filter */
/** @typedef {Partial<Filter>} Part */
/**
 * Sends the filter of a column with some parts changed.
 * These are made of the facet as it is now: what was clicked may be older.
 *
 * @typedef {(part: (now: Facet) => Part) => void} Change
 */

const MAX_VALUES = 8;
const NUMBERS = ["int64", "float64", "timestamp"];
const EMPTY = { values: [], low: null, high: null, missing: false };
/** @typedef {{ facets: Facet[], number: number }} Data Number of the newest click that the page knows. */
/** @typedef {{ number: number, filter: Filter }} Click */
/** @type {Map<string, Click>} By column, what was clicked and the page does not know yet. */
const clicked = new Map();
/** @type {WeakMap<Element, Facet[]>} By element, the facets that were drawn into it last. */
const newest = new WeakMap();
/** @type {Map<string, boolean>} By column or group, whether a person has opened or closed it. */
const openParts = new Map();
// What was typed into the field that finds a filter.
let sought = "";
/** @type {Set<string>} Columns of which all values are shown. */
const expanded = new Set();

/** @param {number} count */
function countCell(count) {
  return h("span", { class: "count" }, count.toLocaleString("en"));
}

/**
 * A row that is switched on and off.
 *
 * @param {boolean} on
 * @param {() => void} flip
 * @param {string} title
 * @param {...import("../dom.js").Child} children
 */
function buildSwitch(on, flip, title, ...children) {
  const props = { class: on ? "value on" : "value", "aria-pressed": String(on), title, onclick: flip };
  return h("button", props, ...children);
}

/**
 * @param {Facet} facet
 * @param {Change} change
 * @param {() => void} redraw
 */
function buildValues(facet, change, redraw) {
  const shown = expanded.has(facet.column) ? facet.counts : facet.counts.slice(0, MAX_VALUES);
  const most = Math.max(1, ...facet.counts.map(([, count]) => count));
  const rows = shown.map((counted) => buildValue(facet, change, counted, counted[1] / most));
  const numHidden = facet.counts.length - shown.length;
  const expand = () => {
    expanded.add(facet.column);
    redraw();
  };
  const more = numHidden > 0 && h("button", { class: "more", onclick: expand }, `${numHidden} more`);
  return h("div", { class: "values" }, rows, more);
}

/** @type {(facet: Facet, change: Change, counted: Facet["counts"][number], share: number) => HTMLElement} */
function buildValue(facet, change, [value, count, words], share) {
  const on = facet.values.includes(value);
  const flip = () => change(({ values }) => ({ values: toggled(values, value) }));
  const bar = h("i", { style: `width:${share * 100}%` });
  const name = h("span", { class: "name" }, value === "" ? "(empty)" : words);
  return buildSwitch(on, flip, value, bar, name, countCell(count));
}

/** @type {(values: string[], value: string) => string[]} */
function toggled(values, value) {
  return values.includes(value) ? values.filter((other) => other !== value) : [...values, value];
}

/**
 * @param {number} number
 * @param {boolean} isTime
 */
function short(number, isTime) {
  if (!isTime) return String(Number(number.toPrecision(4)));
  return new Date(number * 1000).toISOString().slice(0, 16).replace("T", " ");
}

/**
 * @param {Facet} facet
 * @param {Change} change
 */
function buildRange(facet, change) {
  if (!facet.histogram.length) return null;
  const least = facet.edges[0];
  const most = facet.edges[facet.edges.length - 1];
  const bars = h("div", { class: "bars" }, buildBars(facet, change, least, most));
  return h("div", { class: "range" }, bars, buildSliders(facet, change, least, most));
}

/** @type {(facet: Facet, change: Change, least: number, most: number) => HTMLElement[]} */
function buildBars(facet, change, least, most) {
  const [low, high] = [facet.low ?? least, facet.high ?? most];
  const tallest = Math.max(1, ...facet.histogram);
  return facet.histogram.map((count, index) => {
    const [from, to] = [facet.edges[index], facet.edges[index + 1]];
    const span = `${short(from, facet.type === "timestamp")} to ${short(to, facet.type === "timestamp")}`;
    const bar = h("i", { style: `height:${count ? Math.max(6, (count / tallest) * 100) : 0}%` });
    const select = () => change(() => ({ low: from, high: to }));
    const style = to >= low && from <= high ? "hbar in" : "hbar";
    // For the pointer alone: bars are narrow, and the sliders below them choose the same.
    return h("div", { class: style, title: `${span}: ${count}`, onclick: select }, bar);
  });
}

/** @type {(facet: Facet, change: Change, least: number, most: number) => import("../dom.js").Child} */
function buildSliders(facet, change, least, most) {
  const isTime = facet.type === "timestamp";
  const step = facet.type === "int64" ? 1 : (most - least) / 200 || 1;
  const slider = (/** @type {string} */ name, /** @type {number} */ value) =>
    h("input", { type: "range", min: least, max: most, step, value, "aria-label": `${facet.label} ${name}` });
  const from = slider("from", facet.low ?? least);
  const to = slider("to", facet.high ?? most);
  const text = h("div", { class: "span" });
  const unit = facet.unit && !isTime ? ` ${facet.unit}` : "";
  const write = () => {
    text.textContent = `${short(Number(from.value), isTime)} to ${short(Number(to.value), isTime)}${unit}`;
  };
  const settle = () => {
    const [low, high] = [Number(from.value), Number(to.value)].sort((first, second) => first - second);
    const range = {
      low: low <= least + step / 2 ? null : low,
      high: high >= most - step / 2 ? null : high,
    };
    change(() => range);
  };
  for (const input of [from, to]) {
    input.addEventListener("input", write);
    input.addEventListener("change", settle);
  }
  write();
  return [least < most && h("div", { class: "sliders" }, from, to), text];
}

/** @param {Facet} facet */
function isActive(facet) {
  return facet.values.length > 0 || facet.low !== null || facet.high !== null || facet.missing_on;
}

/**
 * Episodes beyond the bars: an end of the range that is left open lets them through.
 *
 * @param {Facet} facet
 */
function buildBeyond(facet) {
  const count = NUMBERS.includes(facet.type) ? facet.below + facet.above : 0;
  const name = h("span", { class: "name muted" }, "beyond the bars");
  return count > 0 && h("div", { class: "value muted" }, name, countCell(count));
}

/**
 * @param {Facet} facet
 * @param {Change} change
 */
function buildMissing(facet, change) {
  if (!facet.missing && !facet.missing_on) return null;
  const flip = () => change((now) => ({ missing: !now.missing_on }));
  const name = h("span", { class: "name muted" }, "missing");
  return buildSwitch(facet.missing_on, flip, "missing", name, countCell(facet.missing));
}

/**
 * The button that removes a filter; behind the summary, which is a button itself.
 *
 * @param {Facet} facet
 * @param {Change} change
 */
function buildClear(facet, change) {
  const props = { class: "clear", title: "Remove this filter", onclick: () => change(() => EMPTY) };
  return isActive(facet) && h("button", props, "clear");
}

/**
 * Notes a click and sends it, with all that the page does not know yet: it may see only the last message.
 *
 * @type {(column: string, filter: Filter, send: import("../dom.js").Send) => void}
 */
function sendFilter(column, filter, send) {
  clicked.set(column, { number: numberClick(), filter });
  send(
    "changed",
    [...clicked].map(([name, click]) => ({ column: name, number: click.number, ...click.filter })),
  );
}

/**
 * The facet with what was clicked in it since it was drawn.
 *
 * @param {Facet} facet
 * @returns {Facet}
 */
function withClicks(facet) {
  const filter = clicked.get(facet.column)?.filter;
  if (!filter) return facet;
  const { values, low, high, missing } = filter;
  return { ...facet, values, low, high, missing_on: missing };
}

/**
 * @param {HTMLElement} root
 * @param {Facet} drawn
 * @param {import("../dom.js").Send} send
 */
function buildFacet(root, drawn, send) {
  const facet = withClicks(drawn);
  const redraw = () => drawFacets(root, send);
  /** @type {Change} */
  const change = (part) => {
    const now = withClicks(newest.get(root)?.find(({ column }) => column === facet.column) ?? drawn);
    const current = { values: now.values, low: now.low, high: now.high, missing: now.missing_on };
    sendFilter(facet.column, { ...current, ...part(now) }, send);
    redraw();
  };
  const isNumber = NUMBERS.includes(facet.type);
  const body = isNumber ? buildRange(facet, change) : buildValues(facet, change, redraw);
  const isFiltered = isActive(facet);
  const summary = h(
    "summary",
    { title: `${facet.meaning || facet.label} (${facet.column})` },
    h("span", {}, facet.label),
  );
  const parts = [summary, buildClear(facet, change), body, buildBeyond(facet), buildMissing(facet, change)];
  const node = h("details", { "data-column": facet.column }, parts);
  return keepOpen(node, facet.column, isFiltered || (facet.open && !isSingle(facet)));
}

/**
 * Whether every episode has the same value: there is nothing to choose.
 *
 * @param {Facet} facet
 */
function isSingle(facet) {
  return !NUMBERS.includes(facet.type) && facet.counts.length < 2 && !facet.missing;
}

/** @type {(node: HTMLDetailsElement, name: string, isOpen: boolean) => HTMLDetailsElement} */
function keepOpen(node, name, isOpen) {
  node.open = openParts.get(name) ?? isOpen;
  const summary = node.querySelector("summary");
  // Not "toggle", which also comes where the page itself has opened it.
  summary?.addEventListener("click", () => openParts.set(name, !node.open));
  return node;
}

/** @type {(facet: Facet) => boolean} */
function isSought({ label, column, meaning, counts }) {
  const texts = [label, column, meaning, ...counts.map(([, , words]) => words)];
  return texts.some((text) => text.toLowerCase().includes(sought.toLowerCase()));
}

/** @type {(name: string, facets: Facet[], nodes: HTMLElement[]) => HTMLElement} */
function buildGroup(name, facets, nodes) {
  const active = facets.filter(isActive).length;
  const count = h("span", { class: "count" }, active ? `${active} active` : String(facets.length));
  const summary = h("summary", {}, h("span", { class: "name" }, name), count);
  const node = h("details", { class: "group", "data-group": name }, summary, nodes);
  const isOpen = sought !== "" || active > 0 || facets.some(({ open }) => open);
  return keepOpen(node, `group ${name}`, isOpen);
}

/** @type {(root: HTMLElement, send: import("../dom.js").Send) => void} */
function drawFacets(root, send) {
  const shown = (newest.get(root) ?? []).map(withClicks).filter((facet) => !sought || isSought(facet));
  const groups = [...new Set(shown.map(({ group }) => group))];
  const nodes = groups.map((name) => {
    const facets = shown.filter(({ group }) => group === name);
    const drawn = facets.map((facet) => buildFacet(root, facet, send));
    return name ? buildGroup(name, facets, drawn) : drawn;
  });
  const none = shown.length === 0 && h("p", { class: "muted" }, "No filter has this in its name or values.");
  const list = h("div", { class: "list" }, nodes, none);
  const old = root.querySelector(".list");
  if (old) old.replaceWith(list);
  else root.append(buildFinder(root, send), list);
}

/** @type {(root: HTMLElement, send: import("../dom.js").Send) => HTMLElement} */
function buildFinder(root, send) {
  const props = {
    type: "search",
    placeholder: "Find a filter",
    "aria-label": "Find a filter",
    value: sought,
  };
  const field = h("input", { class: "finder", ...props });
  field.addEventListener("input", () => {
    sought = field.value.trim();
    drawFacets(root, send);
  });
  return field;
}

/** @type {(root: HTMLElement, data: Data, send: import("../dom.js").Send) => void} */
function buildFilters(root, data, send) {
  for (const [column, { number }] of clicked) {
    if (number <= data.number) clicked.delete(column);
  }
  newest.set(root, data.facets);
  drawFacets(root, send);
}

/** @param {import("../dom.js").Component<Data>} component */
export default function (component) {
  return mount(component, buildFilters);
}
