// Captions with their grades: every ruling with what was seen and where; seconds are buttons that move the player.
const TONES = { MET: "good", UNMET: "bad", UNSURE: "open", ERROR: "open", NA: "none" };

function buildRuling(ruling) {
  const cell = (name, ...children) => h("td", { "data-cell": name }, ...children);
  return h("tr", {}, cell("verdict", h("span", { class: `badge ${TONES[ruling.verdict] || "none"}` }, ruling.verdict)),
    cell("criterion", h("b", {}, ruling.criterion), h("div", { class: "muted" }, ruling.category)),
    cell("observed", ruling.observed && h("div", {}, `saw: ${ruling.observed}`), h("div", { class: "muted" }, ruling.reason)),
    cell("evidence", ruling.seconds.map((second) => seekButton(second, `${second.toFixed(2)} s`))), cell("source", h("span", { class: "muted" }, ruling.source)));
}

function buildRulings(rulings) {
  const head = ["verdict", "criterion", "observed and reason", "evidence", "by"].map((name) => h("th", {}, name));
  return h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rulings.map(buildRuling)));
}

function buildGrade(grade) {
  return h("div", { class: "grade" },
    h("div", { class: "muted made" }, grade.grade && verdictBadge(grade.grade), ` ${grade.made} `, grade.note && h("span", { class: "badge open note" }, grade.note)),
    grade.values.map(([name, value]) => h("div", { class: "value" }, h("span", { class: "muted" }, `${name}: `), value)),
    grade.rulings.length > 0 && buildRulings(grade.rulings));
}

function buildCaption(caption) {
  return h("section", { class: caption.shown ? "caption shown" : "caption" },
    h("div", { class: "head" }, verdictBadge(caption.grade), h("span", { class: "text" }, caption.text)),
    h("div", { class: "muted made" }, caption.made, caption.shown && h("span", { class: "badge none note" }, "shown in columns")), caption.grades.map(buildGrade));
}

function buildOthers(captions) {
  const label = `${captions.length} more: by other makers, candidates, or older`;
  return h("details", { class: "others" }, h("summary", {}, label), captions.map(buildCaption));
}

export default function (component) {
  return mount(component, (root, data) => {
    const first = data.captions.filter((caption) => caption.shown), others = data.captions.filter((caption) => !caption.shown);
    root.append(...first.map(buildCaption));
    if (others.length) root.append(buildOthers(others));
    if (data.pairs.length) root.append(h("dl", {}, data.pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
  });
}
