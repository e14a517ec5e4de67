// Captions with their grades: what the judge saw once, then a line for each criterion.
// Seconds are buttons that move the player.
import { buildBadges, codeInWords, h, mount, seekButton, verdictBadge } from "../dom.js";

/** @typedef {[name: string, value: string]} Pair */
/** @typedef {{ judge: string, verdict: string, observed: string, reason: string, seconds: number[] }} Vote */
/**
 * @typedef {object} Ruling
 * @property {string} criterion
 * @property {string} category
 * @property {string} verdict
 * @property {string} claimed What the caption says where the judge saw it otherwise or in other words, or "".
 * @property {string} observed What this criterion alone rests on, or "".
 * @property {string} reason
 * @property {number[]} seconds
 * @property {Vote[]} votes
 */
/**
 * @typedef {object} Group
 * @property {string} source
 * @property {string} observed What all its rulings rest on, or "".
 * @property {number[]} seconds
 * @property {string[]} reasons
 * @property {Ruling[]} rulings
 */
/**
 * @typedef {object} Grade
 * @property {string} grade
 * @property {string} made
 * @property {string} maker Its id.
 * @property {string} note
 * @property {string} why The grade in one sentence; "" for an older one.
 * @property {Group[]} groups
 * @property {Pair[]} values
 */
/**
 * @typedef {object} Caption
 * @property {string} text
 * @property {string} grade
 * @property {string} made
 * @property {string} maker Its id.
 * @property {boolean} shown
 * @property {import("../dom.js").Badge} [badge] Of that in the columns: its grade, and whether it counts.
 * @property {Grade[]} grades
 */
/** @typedef {{ captions: Caption[], pairs: Pair[] }} RulingsData */

/** @type {Record<string, string>} */
const TONES = { MET: "good", UNMET: "bad", UNSURE: "open", ERROR: "open", NA: "none" };

/** @type {(name: string, ...children: import("../dom.js").Child[]) => HTMLElement} */
function buildCell(name, ...children) {
  return h("td", { "data-cell": name }, ...children);
}

/** @type {Record<string, string>} */
const WORDS = {
  MET: "met",
  UNMET: "not met",
  UNSURE: "cannot tell",
  ERROR: "no answer",
  NA: "does not apply",
};

/** @param {string} verdict */
function buildBadge(verdict) {
  const title = `Does the caption meet this criterion? (${verdict})`;
  return h("span", { class: `badge ${TONES[verdict] ?? "none"}`, title }, WORDS[verdict] ?? verdict);
}

/** @param {number[]} seconds */
function buildSeconds(seconds) {
  return seconds.map((second) => seekButton(second, `${second.toFixed(2)} s`));
}

/** @param {Ruling} ruling */
function buildRuling(ruling) {
  return h(
    "tr",
    {},
    buildCell("verdict", buildBadge(ruling.verdict)),
    buildCell("criterion", h("b", { title: ruling.criterion }, codeInWords(ruling.criterion))),
    buildCell("category", h("span", { class: "muted" }, ruling.category)),
    buildCell("own", buildFinding(ruling), buildSeconds(ruling.seconds), ruling.votes.map(buildVote)),
  );
}

/** @param {{ claimed?: string, observed: string, reason: string }} ruling */
function buildFinding({ claimed, observed, reason }) {
  return [
    claimed && h("span", { class: "finding" }, `caption: ${claimed}`),
    observed && h("span", { class: "finding" }, `saw: ${observed}`),
    reason && h("span", { class: "finding muted" }, reason),
  ];
}

/**
 * What a judge of a panel said, where they differ.
 *
 * @param {Vote} vote
 */
function buildVote(vote) {
  const name = h("b", {}, ` ${vote.judge} `);
  return h(
    "div",
    { class: "vote" },
    buildBadge(vote.verdict),
    name,
    buildFinding(vote),
    buildSeconds(vote.seconds),
  );
}

/**
 * What the rulings of a group rest on, said once.
 *
 * @param {Group} group
 */
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

/** @param {Group} group */
function buildGroup(group) {
  const table = h("table", {}, h("tbody", {}, group.rulings.map(buildRuling)));
  return h("div", { class: "group" }, buildBasis(group), table);
}

/** @param {Grade} grade */
function buildGrade(grade) {
  const note = grade.note && h("span", { class: "badge open note" }, grade.note);
  const origin = h(
    "div",
    { class: "muted made", title: `producer ${grade.maker}` },
    grade.grade && verdictBadge(grade.grade),
    ` ${grade.made} `,
    note,
  );
  return h("div", { class: "grade" }, origin, grade.values.map(buildValue), buildReasons(grade));
}

/**
 * The grade in one sentence, and its rulings folded below; an older grade has no sentence.
 *
 * @param {Grade} grade
 */
function buildReasons(grade) {
  const groups = grade.groups.map(buildGroup);
  if (!grade.why) return groups;
  const count = grade.groups.reduce((sum, group) => sum + group.rulings.length, 0);
  const folded = h("details", {}, h("summary", {}, `${count} criteria`), groups);
  return [h("div", { class: "why" }, grade.why), groups.length > 0 && folded];
}

/** @param {Pair} pair */
function buildValue([name, value]) {
  return h("div", { class: "value" }, h("span", { class: "muted" }, `${name}: `), value);
}

/** @param {Caption} caption */
function buildCaption(caption) {
  const grade = caption.badge ? buildBadges([caption.badge]) : verdictBadge(caption.grade);
  const head = [grade, h("span", { class: "text" }, caption.text)];
  const note = caption.shown && h("span", { class: "badge none note" }, "used in filters and exports");
  return h(
    "section",
    { class: caption.shown ? "caption shown" : "caption" },
    h("div", { class: "head" }, head),
    h("div", { class: "muted made", title: `producer ${caption.maker}` }, caption.made, note),
    caption.grades.map(buildGrade),
  );
}

/** @param {Caption[]} captions */
function buildOthers(captions) {
  const label = `${captions.length} more: by other producers, candidates, or older`;
  return h("details", { class: "others" }, h("summary", {}, label), captions.map(buildCaption));
}

/** @type {(root: HTMLElement, data: RulingsData) => void} */
function buildRulings(root, data) {
  root.append(...data.captions.filter((caption) => caption.shown).map(buildCaption));
  const others = data.captions.filter((caption) => !caption.shown);
  if (others.length) root.append(buildOthers(others));
  const pairs = data.pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]);
  if (pairs.length) root.append(h("dl", {}, pairs));
}

/** @param {import("../dom.js").Component<RulingsData>} component */
export default function (component) {
  return mount(component, buildRulings);
}
