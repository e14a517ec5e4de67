// Captions with their grades: what the judge saw once, then a line for each criterion. Seconds move the player.
const TONES = { MET: "good", UNMET: "bad", UNSURE: "open", ERROR: "open", NA: "none" };

function buildSeconds(seconds) {
  return seconds.map((second) => seekButton(second, `${second.toFixed(2)} s`));
}

function buildRuling(ruling) {
  const cell = (name, ...children) => h("td", { "data-cell": name }, ...children);
  const badge = h("span", { class: `badge ${TONES[ruling.verdict] || "none"}` }, ruling.verdict);
  return h(
    "tr",
    {},
    cell("verdict", badge),
    cell("criterion", h("b", {}, ruling.criterion)),
    cell("category", h("span", { class: "muted" }, ruling.category)),
    cell(
      "own",
      ruling.observed && h("span", {}, `saw: ${ruling.observed} `),
      ruling.reason && h("span", { class: "muted" }, ruling.reason, " "),
      buildSeconds(ruling.seconds),
      buildVotes(ruling.votes),
    ),
  );
}

// What each judge of a panel said, where they differ.
function buildVotes(votes) {
  return votes.map((vote) =>
    h(
      "div",
      { class: "vote" },
      h("span", { class: `badge ${TONES[vote.verdict] || "none"}` }, vote.verdict),
      h("b", {}, ` ${vote.judge} `),
      vote.observed && h("span", {}, `saw: ${vote.observed} `),
      h("span", { class: "muted" }, vote.reason, " "),
      buildSeconds(vote.seconds),
    ),
  );
}

// What the rulings of a group rest on, said once.
function buildBasis(group) {
  return h(
    "div",
    { class: "basis" },
    h("span", { class: "muted" }, `${group.source}${group.observed ? ": " : ""}`),
    group.observed && h("b", {}, group.observed),
    group.seconds.length > 0 && h("div", {}, buildSeconds(group.seconds)),
    group.reasons.map((reason) => h("div", { class: "muted reason" }, reason)),
  );
}

function buildGroup(group) {
  return h(
    "div",
    { class: "group" },
    buildBasis(group),
    h("table", {}, h("tbody", {}, group.rulings.map(buildRuling))),
  );
}

function buildGrade(grade) {
  return h("div", { class: "grade" },
    h("div", { class: "muted made" }, grade.grade && verdictBadge(grade.grade), ` ${grade.made} `, grade.note && h("span", { class: "badge open note" }, grade.note)),
    grade.values.map(([name, value]) => h("div", { class: "value" }, h("span", { class: "muted" }, `${name}: `), value)),
    grade.groups.map(buildGroup));
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
