// The filters: values with their counts and bars, numbers as a histogram with a range, "missing" always shown.
const FIRST = 8;
const openFacets = new Set(), allValues = new Set();

function buildValues(facet, change, redraw) {
  const chosen = new Set(facet.values), most = Math.max(1, ...facet.counts.map(([, count]) => count));
  const shown = allValues.has(facet.column) ? facet.counts : facet.counts.slice(0, FIRST);
  const rows = shown.map(([value, count]) => {
    const on = chosen.has(value);
    const flip = () => change({ values: on ? facet.values.filter((other) => other !== value) : [...facet.values, value] });
    return h("button", { class: on ? "value on" : "value", "aria-pressed": String(on), title: value, onclick: flip },
      h("i", { style: `width:${(count / most) * 100}%` }), h("span", { class: "name" }, value === "" ? "(empty)" : value), h("span", { class: "count" }, count.toLocaleString("en")));
  });
  const rest = facet.counts.length - shown.length;
  const more = rest > 0 && h("button", { class: "more", onclick: () => { allValues.add(facet.column); redraw(); } }, `${rest} more`);
  return h("div", { class: "values" }, rows, more);
}

function buildRange(facet, change) {
  if (!facet.histogram.length) return null;
  const least = facet.edges[0], most = facet.edges[facet.edges.length - 1], tallest = Math.max(1, ...facet.histogram);
  const low = facet.low ?? least, high = facet.high ?? most;
  const time = facet.type === "timestamp", whole = facet.type === "int64", step = whole ? 1 : (most - least) / 200 || 1;
  const bars = facet.histogram.map((count, index) => {
    const [from, to] = [facet.edges[index], facet.edges[index + 1]];
    const within = to >= low && from <= high;
    return h("button", { class: within ? "hbar in" : "hbar", title: `${short(from, time)} to ${short(to, time)}: ${count}`, "aria-label": `${short(from, time)} to ${short(to, time)}, ${count} episodes`,
      onclick: () => change({ low: from, high: to }) }, h("i", { style: `height:${count ? Math.max(6, (count / tallest) * 100) : 0}%` }));
  });
  const slider = (name, value) => h("input", { type: "range", min: least, max: most, step, value, "aria-label": `${facet.label} ${name}` });
  const from = slider("from", low), to = slider("to", high), text = h("div", { class: "span" });
  const write = () => { text.textContent = `${short(Number(from.value), time)} to ${short(Number(to.value), time)}${facet.unit && !time ? " " + facet.unit : ""}`; };
  const settle = () => {
    const [a, b] = [Number(from.value), Number(to.value)].sort((x, y) => x - y);
    change({ low: a <= least + step / 2 ? null : a, high: b >= most - step / 2 ? null : b });
  };
  for (const input of [from, to]) { input.addEventListener("input", write); input.addEventListener("change", settle); }
  write();
  return h("div", { class: "range" }, h("div", { class: "bars" }, bars), least < most && h("div", { class: "sliders" }, from, to), text);
}

function short(number, time) { return time ? new Date(number * 1000).toISOString().slice(0, 16).replace("T", " ") : String(+number.toPrecision(4)); }

function buildFacet(facet, send, redraw) {
  const active = facet.values.length || facet.low !== null || facet.high !== null || facet.missing_on;
  const change = (part) => send("changed", { column: facet.column, values: facet.values, low: facet.low, high: facet.high, missing: facet.missing_on, ...part });
  const numbers = ["int64", "float64", "timestamp"].includes(facet.type);
  // Beyond the bars: an end of the range that is left open lets them through.
  const beyond = numbers && facet.below + facet.above > 0 && h("div", { class: "value muted" }, h("span", { class: "name muted" }, "beyond the bars"), h("span", { class: "count" }, (facet.below + facet.above).toLocaleString("en")));
  const missing = (facet.missing > 0 || facet.missing_on) && h("button", { class: facet.missing_on ? "value on" : "value", "aria-pressed": String(facet.missing_on),
    onclick: () => change({ missing: !facet.missing_on }) }, h("span", { class: "name muted" }, "missing"), h("span", { class: "count" }, facet.missing.toLocaleString("en")));
  const clear = active && h("button", { class: "clear", title: "Remove this filter", onclick: (event) => { event.preventDefault(); change({ values: [], low: null, high: null, missing: false }); } }, "clear");
  const node = h("details", { open: active || facet.open || openFacets.has(facet.column), "data-column": facet.column },
    h("summary", { title: facet.meaning }, h("span", {}, facet.label), clear), numbers ? buildRange(facet, change) : buildValues(facet, change, redraw), beyond, missing);
  node.addEventListener("toggle", () => (node.open ? openFacets.add(facet.column) : openFacets.delete(facet.column)));
  return node;
}

function buildFilters(root, data, send) {
  const redraw = () => root.replaceChildren(...data.facets.map((facet) => buildFacet(facet, send, redraw)));
  redraw();
}

export default function (component) { return mount(component, buildFilters); }
