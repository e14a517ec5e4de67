// Segments of an episode: a click on the span of one moves the player to its start.
function buildSegment(segment) {
  const span = `${segment.start.toFixed(2)} to ${segment.stop.toFixed(2)} s`;
  return h("tr", { class: "segment" }, h("td", { "data-cell": "span" }, seekButton(segment.start, span)),
    h("td", { "data-cell": "annotator" }, segment.annotator), h("td", { "data-cell": "text" }, segment.text),
    h("td", { "data-cell": "values" }, segment.values.map(([name, value]) => h("div", {}, h("span", { class: "muted" }, `${name}: `), value))));
}

export default function (component) {
  return mount(component, (root, data) => {
    const head = ["span", "by", "text", "columns"].map((name) => h("th", {}, name));
    root.append(h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, data.segments.map(buildSegment)))));
  });
}
