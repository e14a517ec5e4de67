// One item of a review queue: its clips in a loop, the text, and a key for each answer.
import { h, mount, numberClick } from "../dom.js";
import { isForPage } from "../keys.js";

/** @typedef {{ key: string, verdict: string, label: string }} AnswerKey */
/** @typedef {{ name: string, video: string, poster: string, frames: string[] }} ReviewCamera */
/**
 * @typedef {object} ReviewData
 * @property {string} id What tells this item from the one before.
 * @property {string} question
 * @property {string} text
 * @property {string} progress
 * @property {string} guideline
 * @property {number} start Seconds of the clip.
 * @property {number} stop
 * @property {ReviewCamera[]} cameras
 * @property {AnswerKey[]} keys
 * @property {string} writes What the person can write of the episode; "" for nothing.
 * @property {string} reason What the person wrote before, as kind and severity.
 * @property {string} kind
 * @property {string} severity
 * @property {string[]} reasons Those that the person gave last.
 * @property {string[]} kinds Kinds of a failure; none where the question is another.
 * @property {string[]} severities
 * @property {string[]} ahead Clips that are probably shown next.
 */
/** @typedef {{ reason: string, kind: string, severity: string, text: string }} Details */
/** @typedef {import("../dom.js").Drawn} Drawn */

const UNDO = "u";
const REASON = "r";
const HELP = "?";
const TEXT = "t";

/**
 * Clips that load while the one before is looked at, by their address.
 *
 * @type {Map<string, HTMLVideoElement>}
 */
const loading = new Map();

/**
 * Items of which a clip could be seen: an answer to any other measures nothing.
 *
 * @type {Set<string>}
 */
const shownItems = new Set();

/**
 * Remembers an item once a clip has a picture, which it may lose again while it jumps to its start.
 *
 * @param {HTMLVideoElement} video
 * @param {string} id
 * @returns {() => void} Looks now: a picture can be there before its event is.
 */
function rememberShown(video, id) {
  const remember = () => {
    if (video.readyState >= 2) shownItems.add(id);
  };
  ["loadeddata", "seeked", "canplay", "timeupdate"].forEach((name) => video.addEventListener(name, remember));
  return remember;
}

/**
 * Loads clips, and forgets those that will not be shown.
 *
 * @param {string[]} sources
 */
function loadAhead(sources) {
  for (const source of loading.keys()) if (!sources.includes(source)) loading.delete(source);
  for (const source of sources) {
    if (!loading.has(source)) loading.set(source, h("video", { preload: "auto", muted: true, src: source }));
  }
}

/**
 * A clip that begins again at its end.
 *
 * @param {ReviewCamera} camera
 * @param {number} start
 * @param {number} stop
 */
function buildClip(camera, start, stop) {
  const video = loading.get(camera.video) ?? h("video", { muted: true, src: camera.video });
  loading.delete(camera.video);
  Object.assign(video, { poster: camera.poster, autoplay: true, playsInline: true, ariaLabel: camera.name });
  const restart = () => {
    if (stop > start && (video.ended || video.currentTime >= stop || video.currentTime < start - 0.2)) {
      video.currentTime = start;
      void video.play().catch(() => {});
    }
  };
  for (const moment of ["loadedmetadata", "timeupdate", "ended"]) video.addEventListener(moment, restart);
  if (video.readyState) restart();
  const frames = camera.frames.map((source) => h("img", { src: source, alt: `${camera.name}, a moment` }));
  const deciding = frames.length > 0 && [
    h("figcaption", { class: "muted" }, "frames that decide"),
    h("div", { class: "frames" }, frames),
  ];
  return h("figure", {}, video, h("figcaption", { class: "muted" }, camera.name), deciding);
}

/**
 * A button and the key that does the same.
 *
 * @param {AnswerKey} answer
 * @param {(verdict: string) => void} say
 */
function buildKey({ key, verdict, label }, say) {
  return h(
    "button",
    { onclick: () => say(verdict), "data-verdict": verdict },
    h("kbd", {}, key),
    ` ${label}`,
  );
}

/**
 * A list of the lab's words, and nothing chosen.
 *
 * @param {string} name
 * @param {string[]} options
 * @param {string} value
 */
function buildList(name, options, value) {
  const none = h("option", { value: "" }, name);
  const words = options.map((option) => h("option", { value: option }, option));
  const select = h("select", { "aria-label": name }, none, words);
  select.value = value;
  // The keys are for answers again.
  select.addEventListener("change", () => select.blur());
  return select;
}

/**
 * A field whose key goes to it; Enter and Escape go back to the keys.
 *
 * @param {string} key
 * @param {string} name
 * @param {string} placeholder
 * @param {string} value
 */
function buildField(key, name, placeholder, value) {
  const title = `${key} comes here, Enter and Escape go back to the keys`;
  const field = h("input", {
    class: "reason",
    placeholder,
    value,
    maxLength: 4000,
    "aria-label": name,
    title,
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === "Escape") field.blur();
  });
  return field;
}

/**
 * The reason and what is said of a failure, which stand as they were written before.
 *
 * @param {ReviewData} data
 */
function buildDetails(data) {
  const reason = buildField(REASON, "Reason", "why, in your words", data.reason);
  reason.setAttribute("list", "review-reasons");
  const text = buildField(TEXT, data.writes, data.writes, "");
  const options = data.reasons.map((value) => h("option", { value }));
  const known = h("datalist", { id: "review-reasons" }, options);
  const kind = buildList("kind of failure", data.kinds, data.kind);
  const severity = buildList("severity", data.severities, data.severity);
  const lists = [data.kinds.length > 0 && kind, data.severities.length > 0 && severity];
  /** @type {(key: string, field: HTMLElement) => HTMLElement} */
  const withKey = (key, field) => h("span", { class: "field" }, h("kbd", {}, key), field);
  const written = data.writes && withKey(TEXT, text);
  const node = h("div", { class: "details" }, withKey(REASON, reason), known, lists, written);
  /** @type {() => Details} */
  const read = () => ({
    reason: reason.value,
    kind: kind.value,
    severity: severity.value,
    text: text.value,
  });
  return { node, fields: { [REASON]: reason, ...(data.writes && { [TEXT]: text }) }, read };
}

/**
 * What a reviewer needs who was given an address and nothing else: less than 100 words.
 *
 * @param {ReviewData} data
 */
function buildHelp(data) {
  const rows = [
    ...data.keys.map(({ key, label }) => [key, label]),
    [UNDO, "undo: the last question is asked again"],
    [REASON, "reason: write it before the answer; Enter ends it"],
    ...(data.writes ? [[TEXT, `text: ${data.writes}`]] : []),
    [HELP, "this help"],
  ];
  return h(
    "section",
    { class: "help", hidden: true, "aria-label": "Help" },
    h("p", {}, "Watch the clips, which begin again by themselves. Then answer by a key or its button:"),
    h(
      "dl",
      {},
      rows.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]),
    ),
    h("p", {}, "The guideline says what each answer means. Where no camera shows it, nobody can tell."),
    h(
      "p",
      {},
      "Each answer is stored at once, under your name. Leave when you like: the same address goes on.",
    ),
  );
}

/**
 * What is asked, with a button for each answer.
 *
 * @param {ReviewData} data
 * @param {HTMLElement[]} buttons
 * @param {HTMLElement} help
 */
function buildQuestion(data, buttons, help) {
  return h(
    "div",
    { class: "asked" },
    h("p", { class: "progress muted", role: "status" }, data.progress),
    data.text && h("p", { class: "text" }, data.text),
    h("p", {}, h("b", {}, data.question)),
    h("div", { class: "keys" }, buttons),
    help,
  );
}

/** @type {(root: HTMLElement, data: ReviewData, send: import("../dom.js").Send) => Drawn} */
function buildReview(root, data, send) {
  let isSaid = false;
  const details = buildDetails(data);
  /** @param {string} verdict */
  const say = (verdict) => {
    if (isSaid) return;
    isSaid = true;
    root.querySelector(".review")?.classList.add("said");
    looks.forEach((check) => check());
    const shown = shownItems.has(data.id);
    send("said", { number: numberClick(), id: data.id, verdict, shown, ...details.read() });
  };
  const answers = [...data.keys, { key: UNDO, verdict: UNDO, label: "undo" }];
  const help = buildHelp(data);
  const helpKey = { key: HELP, verdict: HELP, label: "help" };
  const helpButton = buildKey(helpKey, () => toggleHelp(help, helpButton));
  helpButton.setAttribute("aria-expanded", "false");
  const buttons = [...answers.map((answer) => buildKey(answer, say)), helpButton];
  const clips = data.cameras.map((camera) => buildClip(camera, data.start, data.stop));
  const question = buildQuestion(data, buttons, help);
  const guideline = h("pre", { class: "guideline", tabIndex: 0, "aria-label": "guideline" }, data.guideline);
  const more = h("div", { class: "more" }, details.node, guideline);
  root.append(h("div", { class: "review" }, question, h("div", { class: "clips" }, clips), more));
  const looks = Array.from(root.querySelectorAll("video"), (video) => rememberShown(video, data.id));
  looks.forEach((check) => check());
  const stop = listenToKeys((key) => {
    const pressed = answers.find((answer) => answer.key === key);
    if (pressed) say(pressed.verdict);
    const field = Object.entries(details.fields).find(([name]) => name === key)?.[1];
    field?.focus();
    if (key === HELP) toggleHelp(help, helpButton);
    return field !== undefined;
  });
  /** @param {ReviewData} data */
  const update = ({ progress }) => {
    // The item is still asked: an answer was refused, or others have answered, which changes the progress.
    isSaid = false;
    root.querySelector(".review")?.classList.remove("said");
    const line = question.querySelector(".progress");
    if (line) line.textContent = progress;
  };
  return { stop, update };
}

/**
 * Shows or hides the help.
 *
 * @param {HTMLElement} help
 * @param {HTMLElement} button
 */
function toggleHelp(help, button) {
  help.hidden = !help.hidden;
  button.setAttribute("aria-expanded", String(!help.hidden));
}

/**
 * Hears the keys that no field keeps for itself, until the returned function is called.
 *
 * @param {(key: string) => boolean} react Whether the browser must not react, too.
 */
function listenToKeys(react) {
  const listeners = new AbortController();
  /** @param {KeyboardEvent} event */
  const hear = (event) => {
    if (!isForPage(event, false) && !event.repeat && react(event.key)) event.preventDefault();
  };
  document.addEventListener("keydown", hear, { signal: listeners.signal });
  return () => listeners.abort();
}

/** @param {import("../dom.js").Component<ReviewData>} component */
export default function (component) {
  // These must not build the item again: that would take away what the person has entered.
  const end = mount(component, buildReview, ["ahead", "progress"]);
  // The clips of this item have been taken by now.
  loadAhead(component.data.ahead);
  return end;
}
