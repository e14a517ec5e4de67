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
 * @property {string} note What else is said of the item.
 * @property {string} progress
 * @property {string} guideline
 * @property {number} start Seconds of the clip.
 * @property {number} stop
 * @property {ReviewCamera[]} cameras
 * @property {AnswerKey[]} keys
 * @property {string[]} ahead Clips that are probably shown next.
 */

const UNDO = "u";

/**
 * Clips that load while the one before is looked at, by their address.
 *
 * @type {Map<string, HTMLVideoElement>}
 */
const loading = new Map();

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
  return h("figure", {}, video, h("figcaption", { class: "muted" }, camera.name), frames);
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

/** @type {(root: HTMLElement, data: ReviewData, send: import("../dom.js").Send) => () => void} */
function buildReview(root, data, send) {
  let isSaid = false;
  /** @param {string} verdict */
  const say = (verdict) => {
    if (isSaid) return;
    isSaid = true;
    root.querySelector(".review")?.classList.add("said");
    send("said", { number: numberClick(), id: data.id, verdict });
  };
  const answers = [...data.keys, { key: UNDO, verdict: UNDO, label: "undo" }];
  const buttons = answers.map((answer) => buildKey(answer, say));
  const note = data.note && h("span", { class: "muted" }, ` ${data.note}`);
  root.append(
    h(
      "div",
      { class: "review" },
      h(
        "div",
        { class: "clips" },
        data.cameras.map((camera) => buildClip(camera, data.start, data.stop)),
      ),
      h(
        "div",
        { class: "asked" },
        h("p", { class: "progress muted", role: "status" }, data.progress),
        data.text && h("p", { class: "text" }, data.text),
        h("p", {}, h("b", {}, data.question), note),
        h("div", { class: "keys" }, buttons),
        h("pre", { class: "guideline", tabIndex: 0, "aria-label": "guideline" }, data.guideline),
      ),
    ),
  );
  const listeners = new AbortController();
  /** @param {KeyboardEvent} event */
  const react = (event) => {
    if (isForPage(event, false) || event.repeat) return;
    const pressed = answers.find(({ key }) => key === event.key);
    if (pressed) say(pressed.verdict);
  };
  document.addEventListener("keydown", react, { signal: listeners.signal });
  return () => listeners.abort();
}

/** @param {import("../dom.js").Component<ReviewData>} component */
export default function (component) {
  const end = mount(component, buildReview);
  // The clips of this item have been taken by now.
  loadAhead(component.data.ahead);
  return end;
}
