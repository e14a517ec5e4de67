// A lane for each code of the checks: a click on a finding moves the player to its second.
function buildFinding(lane, span, share) {
  const text = `${lane.label} at ${span.start.toFixed(2)} s, ${span.label}`;
  const style = `left:${share(span.start)}%;width:${share(span.stop) - share(span.start)}%`;
  const seek = () => window.dispatchEvent(new CustomEvent("ares-seek", { detail: span.start }));
  return h("button", { class: "finding", title: text, "aria-label": text, style, onclick: seek });
}

function buildLane(lane, share) {
  const label = h("span", { class: "lane-label", title: lane.meaning }, `${lane.label}: ${lane.meaning}`);
  const findings = lane.spans.map((span) => buildFinding(lane, span, share));
  return h("div", { class: `lane ${lane.severity}` }, label, h("div", { class: "lane-track" }, findings));
}

function buildFindings(root, data) {
  const share = (second) =>
    data.duration ? Math.max(0, Math.min(100, (second / data.duration) * 100)) : 0;
  root.append(...data.lanes.map((lane) => buildLane(lane, share)));
}

export default function (component) { return mount(component, buildFindings); }
