// Rows of small markers on a clock: those that lie close together share a button of at least 24 pixels.
import { h } from "./dom.js";

/** @typedef {{ start: number, stop: number, label: string, node: HTMLElement }} Marker Times in seconds. */
/** @typedef {{ left: number, right: number }} Extent Pixels. */
/**
 * @typedef {object} Target
 * @property {number} start Pixels.
 * @property {number} stop
 * @property {number} first Its first marker.
 * @property {number} last
 */

const SIZE = 24;
// A marker may stand out of its button by so much.
const REACH = 6;
const MAX_LABELS = 4;

/**
 * The buttons of markers: at least 24 pixels wide, and none over another.
 *
 * @param {readonly Extent[]} extents In the order of their left ends.
 * @param {number} width Of the row.
 * @returns {Target[]}
 */
export function layOutTargets(extents, width) {
  /** @type {Target[]} */
  const targets = [];
  extents.forEach(({ left, right }, index) => {
    const previous = targets.at(-1);
    const free = previous ? previous.stop : 0;
    const centred = right - left >= SIZE ? left : (left + right - SIZE) / 2;
    const start = Math.min(Math.max(centred, free), Math.max(0, width - SIZE));
    if (previous && (start < free || start > left + REACH)) {
      previous.last = index;
      previous.stop = Math.max(previous.stop, right);
    } else {
      targets.push({ start, stop: Math.max(start + SIZE, right), first: index, last: index });
    }
  });
  return targets;
}

/**
 * A row with a button for each marker, or for several that lie close together.
 *
 * @param {string} style Classes of the row.
 * @param {readonly Marker[]} markers
 * @param {number} duration Seconds of the row.
 * @param {(second: number) => void} seek
 */
export function buildMarkers(style, markers, duration, seek) {
  const sorted = [...markers].sort((first, second) => first.start - second.start);
  const row = h("div", { class: `markers ${style}` });
  let shownWidth = 0;
  const draw = () => {
    const width = row.clientWidth;
    if (!width || width === shownWidth) return;
    shownWidth = width;
    const toPixels = (/** @type {number} */ second) =>
      duration ? Math.max(0, Math.min(1, second / duration)) * width : 0;
    const extents = sorted.map(({ start, stop }) => ({ left: toPixels(start), right: toPixels(stop) }));
    const targets = layOutTargets(extents, width);
    row.replaceChildren(...targets.map((target) => buildTarget(target, sorted, extents, seek)));
  };
  new ResizeObserver(draw).observe(row);
  return row;
}

/**
 * @param {Target} target
 * @param {readonly Marker[]} markers
 * @param {readonly Extent[]} extents
 * @param {(second: number) => void} seek
 */
function buildTarget(target, markers, extents, seek) {
  const targetMarkers = markers.slice(target.first, target.last + 1);
  const targetExtents = extents.slice(target.first, target.last + 1);
  const title = describe(targetMarkers);
  const button = h("button", { class: "target", title, "aria-label": title });
  Object.assign(button.style, { left: `${target.start}px`, width: `${target.stop - target.start}px` });
  targetMarkers.forEach(({ node }, index) => {
    const { left, right } = targetExtents[index];
    Object.assign(node.style, {
      left: `${left - target.start}px`,
      width: right > left ? `${right - left}px` : "",
    });
  });
  button.append(...targetMarkers.map(({ node }) => node));
  let last = -1;
  button.addEventListener("click", (event) => {
    const x = target.start + event.clientX - button.getBoundingClientRect().left;
    // A key has no position: it goes from one marker of the button to the next.
    last = event.detail === 0 ? (last + 1) % targetMarkers.length : nearest(targetExtents, x);
    seek(targetMarkers[last].start);
  });
  return button;
}

/** @param {readonly Marker[]} markers */
function describe(markers) {
  const labels = markers.slice(0, MAX_LABELS).map(({ label }) => label);
  const rest = markers.length > MAX_LABELS ? [`${markers.length - MAX_LABELS} more`] : [];
  return [...labels, ...rest].join("; ");
}

/** @type {(extents: readonly Extent[], x: number) => number} */
function nearest(extents, x) {
  const distances = extents.map(({ left, right }) => Math.max(left - x, x - right, 0));
  return distances.indexOf(Math.min(...distances));
}
