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
 */

const UNDO = "u";

/**
 * A clip that begins again at its end.
 *
 * @param {ReviewCamera} camera
 * @param {number} start
 * @param {number} stop
 */
function buildClip(camera, start, stop) {
  const video = h("video", {
    src: camera.video,
    poster: camera.poster,
    muted: true,
    autoplay: true,
    playsInline: true,
    "aria-label": camera.name,
  });
  const restart = () => {
    if (stop > start && (video.ended || video.currentTime >= stop || video.currentTime < start - 0.2)) {
      video.currentTime = start;
      void video.play().catch(() => {});
    }
  };
  for (const moment of ["loadedmetadata", "timeupdate", "ended"]) video.addEventListener(moment, restart);
  const frames = camera.frames.map((source) => h("img", { src: source, alt: `${camera.name}, a moment` }));
  return h("figure", {}, video, h("figcaption", { class: "muted" }, camera.name), frames);
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
  const buttons = data.keys.map(({ key, verdict, label }) =>
    h("button", { onclick: () => say(verdict), "data-verdict": verdict }, h("kbd", {}, key), ` ${label}`),
  );
  const undo = h("button", { onclick: () => say(UNDO) }, h("kbd", {}, UNDO), " undo");
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
        h("p", {}, h("b", {}, data.question), data.note && h("span", { class: "muted" }, ` ${data.note}`)),
        h("div", { class: "keys" }, buttons, undo),
        h("pre", { class: "guideline", tabIndex: 0, "aria-label": "guideline" }, data.guideline),
      ),
    ),
  );
  const listeners = new AbortController();
  /** @param {KeyboardEvent} event */
  const react = (event) => {
    if (isForPage(event, false) || event.repeat) return;
    const pressed = data.keys.find(({ key }) => key === event.key);
    if (pressed) say(pressed.verdict);
    else if (event.key === UNDO) say(UNDO);
  };
  document.addEventListener("keydown", react, { signal: listeners.signal });
  return () => listeners.abort();
}

/** @param {import("../dom.js").Component<ReviewData>} component */
export default function (component) {
  return mount(component, buildReview);
}
