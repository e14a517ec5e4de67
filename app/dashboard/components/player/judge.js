// The column beside the picture: what a person says of the episode, its text and criteria, and its tags.
import { buildBadges, codeInWords, h, numberClick } from "../dom.js";
import { buildChoice, buildField, buildSelect, buildSlot, leaveField } from "./fields.js";

/** @typedef {import("../dom.js").Child} Child */
/**
 * @typedef {object} Criterion
 * @property {string} id
 * @property {string} verdict "MET", "UNMET", "UNSURE" or another word of a judge.
 * @property {string} ruled What a person has said: "met", "unmet", "unsure", or "".
 * @property {string} claimed What the text says of it.
 * @property {string} reason Of the person, else of the judge.
 * @property {string} words The reason that a person has written.
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
 * @property {string[]} notes
 * @property {Outcome} outcome
 * @property {string[]} kinds Kinds of a failure.
 * @property {string[]} severities
 * @property {string} instruction
 * @property {JudgedText | null} text
 * @property {string} undo What an undo takes back; "" where there is nothing.
 * @property {string} guideline How to answer, with examples.
 */
/** @typedef {{ number: number, act: string, [name: string]: unknown }} Act */
/** @typedef {HTMLInputElement | HTMLTextAreaElement} Field */

/** @type {Act[]} What was done and the page does not know yet; it outlives every draw. */
let unknownActs = [];
/** @type {Map<string, string>} What is written and not stored yet, by episode and field. */
const drafts = new Map();

const OUTCOMES = [
  ["success", "Success"],
  ["failure", "Failure"],
  ["partial", "Partial"],
  ["aborted", "Aborted"],
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
    this.node.addEventListener("input", ({ target }) => this.keepDraft(/** @type {Field} */ (target)));
    this.openId = "";
    this.isGuided = false;
    this.draw();
  }

  /** @param {JudgeData} data */
  update(data) {
    this.data = data;
    unknownActs = unknownActs.filter(({ number }) => number > data.number);
    for (const [field, values] of listStored(data)) {
      const key = `${data.episode} ${field}`;
      if (values.includes(drafts.get(key)?.trim() ?? "")) drafts.delete(key);
    }
    // What is being written stays.
    const active = /** @type {ShadowRoot} */ (this.node.getRootNode()).activeElement;
    const isWritten = active instanceof HTMLTextAreaElement || active?.matches("input");
    if (isWritten && this.node.contains(active)) return;
    this.draw();
  }

  /** @param {Field} field */
  keepDraft(field) {
    const key = `${this.data.episode} ${field.dataset.key}`;
    if (field.value.trim() && field.value !== field.defaultValue) drafts.set(key, field.value);
    else drafts.delete(key);
  }

  putDraftsBack() {
    /** @type {NodeListOf<Field>} */ (this.node.querySelectorAll("input, textarea")).forEach((field) => {
      field.value = drafts.get(`${this.data.episode} ${field.dataset.key}`) ?? field.value;
    });
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
    this.nameField = h("input", { class: "who", defaultValue: localStorage.getItem(PERSON) ?? "" });
    this.nameField.placeholder = "your name";
    this.nameField.dataset.key = "who";
    this.nameField.setAttribute("aria-label", "Your name");
    const who = isAsked ? this.nameField : h("span", { class: "muted" }, person && `as ${person}`);
    const back = h("button", { class: "undo", title: "Undo (u)", onclick: () => this.undo() }, "Undo");
    back.disabled = !undo;
    if (undo) back.append(`: ${undo}`);
    this.node.replaceChildren(
      buildPart("Outcome", this.data.outcome.label, this.buildOutcome()),
      buildPart("Instruction", "", this.buildInstruction()),
      text
        ? buildPart("Caption", text.made, ...this.buildText(text))
        : buildPart("Caption", "none yet", this.buildFirstCaption()),
      buildPart("Tags", "", this.buildTags()),
      buildPart(
        "Notes",
        "",
        ...this.data.notes.map((note) => h("div", { dir: "auto" }, note)),
        this.buildNote(),
      ),
      h("div", { class: "judge-foot" }, back, who),
      this.buildGuideline(),
    );
    this.putDraftsBack();
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
    return h("div", { class: "judge-row outcome" }, h("span", { class: "choices" }, buttons), failure);
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

  buildInstruction() {
    const { instruction } = this.data;
    const save = (/** @type {string} */ value) => this.saveText("instruction", value, { verdict: "unmet" });
    const field = h("input", {
      class: "edit-instruction",
      dir: "auto",
      defaultValue: instruction,
      "aria-label": "Instruction",
    });
    field.placeholder = "What the robot is to do";
    return buildField("instruction", field, save);
  }

  buildFirstCaption() {
    const field = h("textarea", { class: "edit", dir: "auto", rows: 2, value: "", "aria-label": "Caption" });
    field.placeholder = "Write what the robot does";
    return buildField("text", field, (value) => this.saveText("text", value));
  }

  /**
   * @param {JudgedText} text
   * @returns {Node[]}
   */
  buildText(text) {
    const field = h("textarea", {
      class: "edit",
      dir: "auto",
      rows: 2,
      defaultValue: text.text,
      "aria-label": "Caption",
    });
    const slots = text.slots.map(([name, value]) => buildSlot(name, value));
    const save = () => {
      const changed = slots.filter(({ input }) => input.value.trim());
      const named = Object.fromEntries(changed.map(({ name, input }) => [name, input.value.trim()]));
      this.saveText("text", field.value, { subject_id: text.id, subject_kind: "annotation", slots: named });
    };
    buildField("text", field, save);
    for (const { input } of slots) input.addEventListener("change", save);
    const why = text.why && h("span", { class: "judge-why muted", title: text.why }, text.why);
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
    const head = h("div", { class: "judge-head" }, buildBadges([text.badge]), why);
    const rows = sortCriteria(text.criteria).map((criterion) => this.buildCriterion(text, criterion));
    const parts = [field, head, text.slots.length ? fold : "", h("div", { class: "criteria" }, rows)];
    return parts.filter((part) => part instanceof Node);
  }

  /**
   * Says a text: of the episode, unless the fields name another subject.
   *
   * @param {string} question
   * @param {string} written
   * @param {Record<string, unknown>} [fields]
   */
  saveText(question, written, fields = {}) {
    const value = written.trim();
    const episode = { subject_id: this.data.episode, subject_kind: "episode" };
    if (value) this.act("answer", { question, ...episode, text: value, ...fields });
  }

  /**
   * @param {JudgedText} text
   * @param {Criterion} criterion
   */
  buildCriterion(text, criterion) {
    const { id, ruled, verdict } = criterion;
    const isOpen = this.openId === id;
    const tone = ruled || verdict.toLowerCase();
    const [, sign, label] = RULINGS.find(([word]) => word === tone) ?? [tone, "–", codeInWords(tone)];
    const texts = listReasons(criterion);
    const short = texts.join(" · ");
    const props = { class: `sign ${tone} ${ruled ? "ruled" : "judged"}`, role: "img", "aria-label": label };
    const head = h(
      "button",
      { class: "criterion-line", title: `${id}: ${short}`, "aria-expanded": String(isOpen) },
      h("span", props, sign),
      h("b", {}, codeInWords(id)),
      h("span", { class: "muted criterion-reason" }, short),
    );
    head.dataset.key = `open ${id}`;
    head.addEventListener("click", () => this.open(id));
    const open = isOpen && this.buildOpen(text, criterion, texts);
    return h("div", { class: "criterion", "data-criterion": id }, head, open);
  }

  /**
   * @param {JudgedText} text
   * @param {Criterion} criterion
   * @param {string[]} texts
   */
  buildOpen(text, criterion, texts) {
    const { id, ruled, verdict, seconds } = criterion;
    const props = { class: "reason", placeholder: "why, in your words; Enter saves", dir: "auto" };
    const reason = h("input", {
      ...props,
      defaultValue: criterion.words,
      "aria-label": `Reason for ${id}`,
    });
    const rule = (/** @type {string} */ word) => this.rule(text, criterion, word, reason.value.trim());
    reason.dataset.key = `reason ${id}`;
    reason.addEventListener("keydown", (event) => {
      leaveField(event, reason, () => {});
      if (event.key === "Enter") rule(ruled || verdict.toLowerCase());
    });
    const choices = RULINGS.map(([word, sign, label]) => {
      const isOn = (ruled || verdict.toLowerCase()) === word;
      const button = buildChoice(`${id} ${word}`, `${sign} ${label}`, `${id}: ${label}`, isOn, () =>
        rule(word),
      );
      button.classList.add(word, ruled ? "ruled" : "judged");
      return button;
    });
    const moments = seconds.map((second) =>
      h("button", { class: "moment", onclick: () => this.seek(second) }, `${second.toFixed(2)} s`),
    );
    const lines = texts.map((line) => h("div", { class: "muted", dir: "auto" }, line));
    const parts = [h("span", { class: "choices" }, choices), lines, moments, reason];
    return h("div", { class: "criterion-open" }, parts);
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
   * @param {string} reason
   */
  rule(text, criterion, verdict, reason) {
    if (!RULINGS.some(([word]) => word === verdict)) return;
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
      button.append(h("kbd", {}, index + 1), " ", h("bdi", {}, tag));
      return button;
    });
    const field = h("input", { class: "new-tag", dir: "auto", value: "", "aria-label": "New tag" });
    field.placeholder = "a new tag";
    buildField("new tag", field, (tag) => tag.trim() && this.act("tag", { tag: tag.trim(), on: true }));
    return h("div", { class: "judge-row tags", role: "group", "aria-label": "Tags by key" }, tags, field);
  }

  buildNote() {
    const field = h("input", { class: "new-note", dir: "auto", value: "", "aria-label": "New note" });
    field.placeholder = "a note";
    return buildField("new note", field, (note) => note.trim() && this.act("note", { note: note.trim() }));
  }
}

/** @type {(data: JudgeData) => Map<string, string[]>} What each field has stored, by its key. */
function listStored({ instruction, text, notes, tags }) {
  const { slots, criteria } = text ?? { slots: [], criteria: [] };
  const stored = new Map([
    ["instruction", [instruction]],
    ["text", text ? [text.text] : []],
    ["new tag", tags.map(([tag]) => tag)],
    ["new note", notes],
  ]);
  for (const [name, value] of slots) stored.set(`slot ${name}`, [value]);
  for (const { id, words } of criteria) stored.set(`reason ${id}`, [words]);
  return stored;
}

/** @type {(criterion: Criterion) => string[]} What the text says, what a judge saw, and why. */
function listReasons({ claimed, observed, reason }) {
  return [claimed && `caption: ${claimed}`, observed && `saw: ${observed}`, reason].filter(Boolean);
}

/** @type {(title: string, about: string, ...parts: (Node | string)[]) => HTMLElement} */
function buildPart(title, about, ...parts) {
  const head = h(
    "div",
    { class: "part-head" },
    h("b", {}, title),
    h("span", { class: "muted", title: about }, about),
  );
  return h("section", { class: "judge-part" }, head, parts);
}
