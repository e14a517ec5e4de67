// The pointer on the timeline and on plots: a drag seeks, and with shift selects what is repeated.

const LEAST_SPAN = 0.05;

/**
 * @typedef {object} TimeActions
 * @property {(time: number) => void} seek
 * @property {(time: number | null) => void} hover
 * @property {(span: import("./clock.js").Span) => void} select
 * @property {(factor: number, time: number) => void} zoom
 */

/**
 * @param {HTMLElement} area
 * @param {(x: number, box: DOMRect) => number} timeAt Second at a position of the window.
 * @param {TimeActions} actions
 */
export function addPointer(area, timeAt, actions) {
  const read = (/** @type {MouseEvent} */ event) => timeAt(event.clientX, area.getBoundingClientRect());
  /** @type {number | null} */
  let anchor = null;
  area.addEventListener("pointerdown", (event) => {
    area.setPointerCapture(event.pointerId);
    anchor = event.shiftKey ? read(event) : null;
    if (anchor === null) actions.seek(read(event));
  });
  area.addEventListener("pointermove", (event) => {
    const at = read(event);
    if (!(event.buttons & 1)) actions.hover(at);
    else if (anchor === null) actions.seek(at);
    else if (Math.abs(at - anchor) > LEAST_SPAN) {
      actions.select({ start: Math.min(anchor, at), stop: Math.max(anchor, at) });
    }
  });
  area.addEventListener("pointerleave", () => actions.hover(null));
  area.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    actions.zoom(event.deltaY < 0 ? 0.8 : 1.25, read(event));
  });
}
