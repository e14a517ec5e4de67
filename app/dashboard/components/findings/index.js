// A lane for each code of the checks: a click on a finding moves the player to its second.
import { h, mount } from "../dom.js";

/** @typedef {{ start: number, stop: number, label: string }} Finding */
/** @typedef {{ label: string, meaning: string, severity: string, spans: Finding[] }} Lane */
/** @typedef {{ lanes: Lane[], duration: number }} FindingsData */

/** @type {(second: number, duration: number) => number} */
function percent(second, duration) {
  return duration ? Math.max(0, Math.min(100, (second / duration) * 100)) : 0;
}

/** @type {(lane: Lane, finding: Finding, duration: number) => HTMLElement} */
function buildFinding(lane, finding, duration) {
  const title = `${lane.label} at ${finding.start.toFixed(2)} s, ${finding.label}`;
  const seek = () => window.dispatchEvent(new CustomEvent("ares-seek", { detail: finding.start }));
  const node = h("button", { class: "finding", title, "aria-label": title, onclick: seek });
  const left = percent(finding.start, duration);
  Object.assign(node.style, { left: `${left}%`, width: `${percent(finding.stop, duration) - left}%` });
  return node;
}

/** @type {(lane: Lane, duration: number) => HTMLElement} */
function buildLane(lane, duration) {
  const label = h("span", { class: "lane-label", title: lane.meaning }, `${lane.label}: ${lane.meaning}`);
  const findings = lane.spans.map((finding) => buildFinding(lane, finding, duration));
  return h("div", { class: `lane ${lane.severity}` }, label, h("div", { class: "lane-track" }, findings));
}

/** @type {(root: HTMLElement, data: FindingsData) => void} */
function buildFindings(root, data) {
  root.append(...data.lanes.map((lane) => buildLane(lane, data.duration)));
}

/** @param {import("../dom.js").Component<FindingsData>} component */
export default function (component) {
  return mount(component, buildFindings);
}
