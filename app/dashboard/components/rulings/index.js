// Captions with their grades: every ruling with what was seen and where; seconds are buttons that move the player.
const TONES = { MET: "good", UNMET: "bad", UNSURE: "open", ERROR: "open", NA: "none" };

function seconds(list) {
  return list.map((second) => h("button", { class: "second", title: "Show this moment", onclick: () => window.dispatchEvent(new CustomEvent("ares-seek", { detail: second })) }, `${second.toFixed(2)} s`));
}

function buildRuling(ruling) {
  const cell = (name, ...children) => h("td", { "data-cell": name }, ...children);
  return h("tr", {}, cell("verdict", h("span", { class: `badge ${TONES[ruling.verdict] || "none"}` }, ruling.verdict)),
    cell("criterion", h("b", {}, ruling.criterion), h("div", { class: "muted" }, ruling.category)),
    cell("observed", ruling.observed && h("div", {}, `saw: ${ruling.observed}`), h("div", { class: "muted" }, ruling.reason)),
    cell("evidence", seconds(ruling.seconds)), cell("source", h("span", { class: "muted" }, ruling.source)));
}

function buildCaption(caption) {
  return h("section", { class: "caption" }, h("div", { class: "head" }, verdictBadge(caption.grade), h("span", { class: "text" }, caption.text)),
    h("div", { class: "muted made" }, caption.made),
    caption.grades.map((grade) => h("div", { class: "grade" }, h("div", { class: "muted made" }, verdictBadge(grade.grade), ` ${grade.made}`),
      grade.rulings.length > 0 && h("table", {}, h("thead", {}, h("tr", {}, ["verdict", "criterion", "observed and reason", "evidence", "by"].map((name) => h("th", {}, name)))), h("tbody", {}, grade.rulings.map(buildRuling))))));
}

export default function (component) {
  return mount(component, (root, data) => {
    root.append(...data.captions.map(buildCaption));
    if (data.pairs.length) root.append(h("dl", {}, data.pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  });
}
