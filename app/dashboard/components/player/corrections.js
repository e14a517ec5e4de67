// What a person changes of segments: a boundary that is dragged, and a text that is written.
import { h } from "../dom.js";

/** @typedef {import("./lanes.js").Segment} Segment */
/** @typedef {{ id: string, start: number, stop: number, text?: string }} SegmentChange */

export const SAME_SECONDS = 1e-3;
// Pixels on both sides of a boundary that take it, and seconds that a segment keeps.
export const GRIP_PIXELS = 5;
const LEAST_SECONDS = 0.05;

/**
 * The segments with a boundary moved to another second: those that end or begin there. None gets too short.
 *
 * @param {readonly Segment[]} spans
 * @param {number} boundary
 * @param {number} second
 * @returns {SegmentChange[]}
 */
export function moveBoundary(spans, boundary, second) {
  const isThere = (/** @type {number} */ edge) => Math.abs(edge - boundary) < SAME_SECONDS;
  const moved = spans.filter(
    ([start, stop, , , id]) => id && stop > start && (isThere(start) || isThere(stop)),
  );
  const low = Math.max(...moved.map(([start, stop]) => (isThere(stop) ? start + LEAST_SECONDS : -Infinity)));
  const high = Math.min(...moved.map(([start, stop]) => (isThere(start) ? stop - LEAST_SECONDS : Infinity)));
  const at = Math.max(low, Math.min(high, second));
  return moved.map(([start, stop, , , id]) => ({
    id: String(id),
    start: isThere(start) ? at : start,
    stop: isThere(stop) ? at : stop,
  }));
}

/**
 * A button that makes a field of the line of a segment's text. Enter saves it, Escape leaves it.
 *
 * @param {Segment} segment
 * @param {string} text
 * @param {import("./lanes.js").Lanes} lanes
 */
export function buildTextEdit([start, stop, , , id], text, lanes) {
  const title = { title: "Edit this text", "aria-label": "Edit this text" };
  const button = h("button", { class: "edit-segment", ...title }, "✎");
  const field = h("input", {
    class: "segment-text",
    dir: "auto",
    value: text,
    "aria-label": "Text of the segment",
  });
  const finish = (/** @type {boolean} */ isKept) => {
    if (!lanes.isEdited) return;
    lanes.endEdit();
    const written = field.value.trim();
    if (isKept && written && written !== text) lanes.change([{ id: String(id), start, stop, text: written }]);
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") finish(event.key === "Enter");
  });
  field.addEventListener("blur", () => finish(true));
  button.addEventListener("click", () => {
    lanes.isEdited = true;
    button.parentElement?.replaceChildren(field);
    field.focus();
  });
  return button;
}
