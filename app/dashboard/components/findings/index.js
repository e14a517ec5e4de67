// A lane for each code of the checks: a click on a finding moves the player to its second.
import { h, mount } from "../dom.js";
import { buildMarkers } from "../targets.js";

/** @typedef {{ start: number, stop: number, label: string }} Finding */
/** @typedef {{ code: string, label: string, meaning: string, severity: string, spans: Finding[] }} Lane */
/** @typedef {{ lanes: Lane[], duration: number }} FindingsData */

/** @param {number} second */
function seekSecond(second) {
  window.dispatchEvent(new CustomEvent("ares-seek", { detail: second }));
}

/** @type {(lane: Lane, finding: Finding) => import("../targets.js").Marker} */
function findingMarker(lane, { start, stop, label }) {
  const text = `${lane.label} at ${start.toFixed(2)} s, ${label}`;
  return { start, stop, label: text, node: h("i", { class: "finding" }) };
}

/** @type {(lane: Lane, duration: number) => HTMLElement} */
function buildLane(lane, duration) {
  const label = h("span", { class: "lane-label", title: lane.code }, `${lane.label}: ${lane.meaning}`);
  const markers = lane.spans.map((finding) => findingMarker(lane, finding));
  return h(
    "div",
    { class: `lane ${lane.severity}` },
    label,
    buildMarkers("track", markers, duration, seekSecond),
  );
}

/** @type {(root: HTMLElement, data: FindingsData) => void} */
function buildFindings(root, data) {
  root.append(...data.lanes.map((lane) => buildLane(lane, data.duration)));
}

/** @param {import("../dom.js").Component<FindingsData>} component */
export default function (component) {
  return mount(component, buildFindings);
}
