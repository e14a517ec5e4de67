// Segments of an episode: a click on the span of a segment moves the player to its start.
import { h, mount, seekButton } from "../dom.js";

/** @typedef {[name: string, value: string]} Pair */
/**
 * @typedef {object} ListedSegment
 * @property {number} start Seconds.
 * @property {number} stop
 * @property {string} by What names it, in words.
 * @property {string} annotator
 * @property {string} author
 * @property {string} text
 * @property {Pair[]} values
 */
/** @typedef {{ segments: ListedSegment[] }} SegmentsData */

const HEAD = ["span", "by", "text", "columns"];

/** @param {ListedSegment} segment */
function buildSegment(segment) {
  const span = `${segment.start.toFixed(2)} to ${segment.stop.toFixed(2)} s`;
  const author = segment.author && h("div", { class: "muted" }, `by ${segment.author}`);
  return h(
    "tr",
    { class: "segment" },
    h("td", { "data-cell": "span" }, seekButton(segment.start, span)),
    h("td", { "data-cell": "annotator", title: segment.annotator }, segment.by, author),
    h("td", { "data-cell": "text" }, segment.text),
    h("td", { "data-cell": "values" }, segment.values.map(buildValue)),
  );
}

/** @param {Pair} pair */
function buildValue([name, value]) {
  return h("div", {}, h("span", { class: "muted" }, `${name}: `), value);
}

/** @type {(root: HTMLElement, data: SegmentsData) => void} */
function buildSegments(root, data) {
  const head = h(
    "tr",
    {},
    HEAD.map((name) => h("th", { scope: "col" }, name)),
  );
  const body = h("tbody", {}, data.segments.map(buildSegment));
  root.append(h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), body)));
}

/** @param {import("../dom.js").Component<SegmentsData>} component */
export default function (component) {
  return mount(component, buildSegments);
}
