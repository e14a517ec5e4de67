// The column beside the picture: what a person says of the episode, its text and criteria, and its tags.
import { buildBadges, codeInWords, h, numberClick } from "../dom.js";

/** @typedef {import("../dom.js").Child} Child */
/**
 * @typedef {object} Criterion
 * @property {string} id
 * @property {string} verdict "MET", "UNMET", "UNSURE" or another word of a judge.
 * @property {string} ruled What a person has said: "met", "unmet", "unsure", or "".
 * @property {string} reason Of the person, else of the judge.
 * @property {string} observed What the judge saw.
 * @property {number[]} seconds Evidence.
 */
/**
 * @typedef {object} JudgedText
 * @property {string} id Of its annotation.
 * @property {string} text
 * @property {[name: string, value: string][]} slots
 * @property {string} grade
 * @property {import("../dom.js").Badge} badge What the grade is, and whether it counts.
 * @property {string} why The grade in one sentence.
 * @property {string} made
 * @property {string} maker Its id.
 * @property {Criterion[]} criteria
 */
/** @typedef {{ verdict?: string, kind?: string, severity?: string, label: string }} Outcome */
/**
 * @typedef {object} JudgeData
 * @property {number} number Of the newest act that the page knows.
 * @property {string} episode
 * @property {string} person
 * @property {boolean} isAsked Whether the page does not know who rules.
 * @property {boolean} ticked
 * @property {[tag: string, isOn: boolean][]} tags
 * @property {Outcome} outcome
 * @property {string[]} kinds Kinds of a failure.
 * @property {string[]} severities
 * @property {JudgedText | null} text
 * @property {string} undo What an undo takes back; "" where there is nothing.
 * @property {string} guideline How to answer, with examples.
 */
/** @typedef {{ number: number, act: string, [name: string]: unknown }} Act */

/** @type {Act[]} What was done and the page does not know yet; it outlives every draw. */
let unknownActs = [];

const OUTCOMES = [
  ["success", "Success"],
  ["failure", "Failure"],
  ["unsure", "Cannot tell"],
];
const RULINGS = [
  ["met", "✓", "met"],
  ["unmet", "✗", "not met"],
  ["unsure", "?", "cannot tell"],
];
const MOST_TAGS = 9;
// Where a browser keeps who rules, where the page has to ask.
const PERSON = "ares.person";

/**
 * The criteria as they are listed: those that are not sure first.
 *
 * @param {readonly Criterion[]} criteria
 */
export function sortCriteria(criteria) {
  const order = ["UNMET", "UNSURE"];
  const rank = (/** @type {Criterion} */ { verdict }) => -order.indexOf(verdict);
  return [...criteria].sort((first, second) => rank(first) - rank(second));
}

export class JudgePanel {
  /**
   * @param {JudgeData} data
   * @param {import("../dom.js").Send} send
   * @param {(second: number) => void} seek
   */
  constructor(data, send, seek) {
    this.data = data;
    this.send = send;
    this.seek = seek;
    this.node = h("aside", { class: "judge", "aria-label": "What is true" });
    /** @type {Record<string, string>} Reasons by criterion, as last written. */
    this.reasons = {};
    this.openId = "";
    this.isGuided = false;
    this.draw();
  }

  /** @param {JudgeData} data */
  update(data) {
    this.data = data;
    unknownActs = unknownActs.filter(({ number }) => number > data.number);
    // What is being written stays.
    const active = /** @type {ShadowRoot} */ (this.node.getRootNode()).activeElement;
    if (active instanceof HTMLTextAreaElement && this.node.contains(active)) return;
    this.draw();
  }

  /**
   * Does something at once: with all that the page does not know yet, of two messages it may see the later.
   *
   * @param {string} name
   * @param {Record<string, unknown>} [values]
   */
  act(name, values = {}) {
    const person = this.data.isAsked ? (this.nameField?.value.trim() ?? "") : "";
    if (this.data.isAsked && !person) {
      // The log says who said what: without a name nothing is stored.
      this.draw();
      this.nameField?.focus();
      return;
    }
    if (person) localStorage.setItem(PERSON, person);
    unknownActs.push({ number: numberClick(), act: name, episode: this.data.episode, person, ...values });
    this.send("acts", unknownActs);
  }

  tick() {
    this.data.ticked = !this.data.ticked;
    this.act("tick", { on: this.data.ticked });
  }

  /** @param {number} index Of a tag in the legend. */
  tag(index) {
    const entry = this.data.tags[index];
    if (!entry) return;
    entry[1] = !entry[1];
    this.act("tag", { tag: entry[0], on: entry[1] });
    this.draw();
  }

  undo() {
    if (this.data.undo) this.act("undo");
  }

  draw() {
    const { text, undo, person, isAsked } = this.data;
    const focused = this.focusedKey();
    this.nameField = h("input", {
      class: "who",
      placeholder: "your name",
      "aria-label": "Your name",
      value: localStorage.getItem(PERSON) ?? "",
    });
    const who = isAsked ? this.nameField : h("span", { class: "muted" }, person && `as ${person}`);
    const back = h("button", {
      class: "undo",
      title: "Undo (u)",
      disabled: !undo,
      onclick: () => this.undo(),
    });
    back.append(undo ? `Undo: ${undo}` : "Undo");
    this.node.replaceChildren(
      this.buildOutcome(),
      ...(text
        ? this.buildText(text)
        : [h("p", { class: "muted" }, "No caption: ares annotate caption grade")]),
      this.buildTags(),
      h("div", { class: "judge-foot" }, back, who),
      this.buildGuideline(),
    );
    const again = focused && this.node.querySelector(`[data-key="${CSS.escape(focused)}"]`);
    if (again instanceof HTMLElement) again.focus();
  }

  buildGuideline() {
    const fold = h("details", { class: "guideline", open: this.isGuided });
    fold.addEventListener("toggle", () => Object.assign(this, { isGuided: fold.open }));
    const text = h("pre", { tabIndex: 0, "aria-label": "guideline" }, this.data.guideline);
    fold.append(h("summary", {}, "Guideline with examples"), text);
    return fold;
  }

  focusedKey() {
    const root = this.node.getRootNode();
    const active = root instanceof ShadowRoot ? root.activeElement : null;
    return active && this.node.contains(active) ? (active.getAttribute("data-key") ?? "") : "";
  }

  buildOutcome() {
    const { outcome } = this.data;
    const say = (/** @type {Partial<Outcome>} */ change) => this.sayOutcome(change);
    const buttons = OUTCOMES.map(([verdict, label]) =>
      buildChoice(`outcome ${verdict}`, label, label, outcome.verdict === verdict, () => say({ verdict })),
    );
    const failure = outcome.verdict === "failure" && [
      buildSelect("kind of failure", this.data.kinds, outcome.kind ?? "", (kind) => say({ kind })),
      buildSelect("severity", this.data.severities, outcome.severity ?? "", (severity) => say({ severity })),
    ];
    const label = h("span", { class: "muted" }, outcome.label);
    return h("div", { class: "judge-row outcome" }, h("span", { class: "choices" }, buttons), label, failure);
  }

  /** @param {Partial<Outcome>} change */
  sayOutcome(change) {
    const outcome = Object.assign(this.data.outcome, change);
    const isFailure = outcome.verdict === "failure";
    const { kind, severity } = isFailure ? outcome : { kind: "", severity: "" };
    this.act("answer", {
      question: "success",
      subject_id: this.data.episode,
      subject_kind: "episode",
      verdict: outcome.verdict,
      failure_kind: kind,
      severity,
    });
    this.draw();
  }

  /**
   * @param {JudgedText} text
   * @returns {Node[]}
   */
  buildText(text) {
    const field = h("textarea", { class: "edit", rows: 2, value: text.text, "aria-label": "Caption" });
    field.dataset.key = "text";
    field.title = "Enter saves, Escape takes back";
    const slots = text.slots.map(([name, value]) => buildSlot(name, value));
    const save = () => this.saveText(text, field.value, slots);
    const back = () => Object.assign(field, { value: text.text });
    field.addEventListener("keydown", (event) => leaveField(event, field, back));
    for (const node of [field, ...slots.map(({ input }) => input)]) node.addEventListener("change", save);
    slots.forEach(({ input }) => {
      input.addEventListener("keydown", (event) => leaveField(event, input, () => {}));
    });
    const why =
      text.why && h("p", { class: `judge-why${text.grade === "unsure" ? " open" : " muted"}` }, text.why);
    const fold = h(
      "details",
      { class: "slots" },
      h("summary", {}, `slots: ${text.slots.map(([, value]) => value).join(" · ")}`),
      h(
        "div",
        { class: "slot-grid" },
        slots.map(({ node }) => node),
      ),
    );
    const head = h(
      "div",
      { class: "judge-head" },
      buildBadges([text.badge]),
      h("span", { class: "muted", title: `producer ${text.maker}` }, text.made),
    );
    const rows = sortCriteria(text.criteria).map((criterion) => this.buildCriterion(text, criterion));
    const parts = [
      head,
      why || "",
      field,
      text.slots.length ? fold : "",
      h("div", { class: "criteria" }, rows),
    ];
    return parts.filter((part) => part instanceof Node);
  }

  /** @type {(text: JudgedText, written: string, slots: Slot[]) => void} */
  saveText(text, written, slots) {
    const value = written.trim();
    if (!value) return;
    const changed = slots.filter(({ input }) => input.value.trim());
    const named = Object.fromEntries(changed.map(({ name, input }) => [name, input.value.trim()]));
    this.act("answer", {
      question: "text",
      subject_id: text.id,
      subject_kind: "annotation",
      text: value,
      slots: named,
    });
  }

  /**
   * @param {JudgedText} text
   * @param {Criterion} criterion
   */
  buildCriterion(text, criterion) {
    const { id, ruled, verdict } = criterion;
    const rule = (/** @type {string} */ word) => this.rule(text, criterion, word);
    const choices = RULINGS.map(([word, sign, label]) => {
      const isOn = ruled ? ruled === word : verdict.toLowerCase() === word;
      const button = buildChoice(`${id} ${word}`, sign, `${id}: ${label}`, isOn, () => rule(word));
      button.classList.add(word, ruled ? "ruled" : "judged");
      return button;
    });
    const short = criterion.reason || criterion.observed;
    const name = h(
      "button",
      { class: "criterion-name", title: `${id}: ${short}`, "aria-expanded": String(this.openId === id) },
      codeInWords(id),
    );
    name.dataset.key = `open ${id}`;
    name.addEventListener("click", () => this.open(id));
    const line = h("span", { class: "muted criterion-reason", title: short }, short);
    const head = h("div", { class: "criterion-line" }, h("span", { class: "choices" }, choices), name, line);
    return h(
      "div",
      { class: "criterion", "data-criterion": id },
      head,
      this.openId === id && this.buildOpen(text, criterion),
    );
  }

  /**
   * @param {JudgedText} text
   * @param {Criterion} criterion
   */
  buildOpen(text, criterion) {
    const reason = h("input", {
      class: "reason",
      placeholder: "why, in your words",
      value: this.reasons[criterion.id] ?? (criterion.ruled ? criterion.reason : ""),
      "aria-label": `Reason for ${criterion.id}`,
    });
    reason.addEventListener("input", () => Object.assign(this.reasons, { [criterion.id]: reason.value }));
    reason.addEventListener("keydown", (event) => leaveField(event, reason, () => {}));
    reason.addEventListener("change", () =>
      this.rule(text, criterion, criterion.ruled || criterion.verdict.toLowerCase()),
    );
    const seconds = criterion.seconds.map((second) =>
      h("button", { class: "moment", onclick: () => this.seek(second) }, `${second.toFixed(2)} s`),
    );
    const seen = criterion.observed && h("div", { class: "muted" }, `saw: ${criterion.observed}`);
    const why = criterion.reason && h("div", { class: "muted" }, criterion.reason);
    return h("div", { class: "criterion-open" }, seen, why, seconds, reason);
  }

  /** @param {string} id */
  open(id) {
    this.openId = this.openId === id ? "" : id;
    this.draw();
  }

  /**
   * @param {JudgedText} text
   * @param {Criterion} criterion
   * @param {string} verdict
   */
  rule(text, criterion, verdict) {
    if (!RULINGS.some(([word]) => word === verdict)) return;
    const reason = this.reasons[criterion.id] ?? (criterion.ruled ? criterion.reason : "");
    Object.assign(criterion, { ruled: verdict });
    this.act("answer", {
      question: criterion.id,
      subject_id: text.id,
      subject_kind: "annotation",
      verdict,
      reason,
    });
    this.draw();
  }

  buildTags() {
    const tags = this.data.tags.slice(0, MOST_TAGS).map(([tag, isOn], index) => {
      const button = buildChoice(`tag ${tag}`, "", `Tag ${tag} (${index + 1})`, isOn, () => this.tag(index));
      button.append(h("kbd", {}, index + 1), ` ${tag}`);
      return button;
    });
    return h("div", { class: "judge-row tags", role: "group", "aria-label": "Tags by key" }, tags);
  }
}

/** @type {(key: string, label: string, title: string, on: boolean, act: () => void) => HTMLButtonElement} */
function buildChoice(key, label, title, on, act) {
  const button = h("button", { class: "choice", title, "aria-label": title, onclick: act }, label);
  button.dataset.key = key;
  button.setAttribute("aria-pressed", String(on));
  return button;
}

/** @type {(name: string, options: string[], value: string, change: (to: string) => void) => HTMLElement} */
function buildSelect(name, options, value, change) {
  const none = h("option", { value: "" }, name);
  const select = h(
    "select",
    { "aria-label": name },
    none,
    options.map((option) => h("option", { value: option }, option)),
  );
  select.value = value;
  select.dataset.key = name;
  select.addEventListener("change", () => change(select.value));
  return select;
}

/** @typedef {{ name: string, input: HTMLInputElement, node: HTMLElement }} Slot */
/** @type {(name: string, value: string) => Slot} */
function buildSlot(name, value) {
  const input = h("input", { value, "aria-label": `slot ${name}` });
  input.dataset.key = `slot ${name}`;
  return { name, input, node: h("label", {}, h("span", { class: "muted" }, name), input) };
}

/** @type {(event: KeyboardEvent, field: HTMLElement, back: () => void) => void} */
function leaveField(event, field, back) {
  if (event.key === "Escape") back();
  else if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  event.stopPropagation();
  field.blur();
}
