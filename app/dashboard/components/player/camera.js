// A camera of the episode: its video on the clock, or a still picture until it is chosen; a caption folds it.
import { h } from "../dom.js";

/**
 * @typedef {object} Camera
 * @property {string} name
 * @property {string} about
 * @property {string} video
 * @property {string} poster
 * @property {string} lost Why its file cannot be played; "" where it can.
 * @property {string[]} flags What is wrong with it; such a camera is folded at the start.
 * @property {number} rate
 */

/**
 * @param {Camera} camera
 * @param {import("./clock.js").Clock} clock
 * @param {(frame: string) => void} search Searches for frames like "CAMERA@SECONDS".
 * @param {boolean} plays Whether its video is loaded at once; else a click does that.
 */
export function buildCamera(camera, clock, search, plays) {
  const video = buildVideo(camera);
  const note = h("div", { class: "note", role: "status" }, camera.lost);
  const fold = buildFold(camera);
  const play = h("button", { class: "alike play-camera", title: "Play this camera with the others" }, "Play");
  const flags = camera.flags.map((flag) => h("span", { class: "badge bad" }, flag));
  const caption = h(
    "figcaption",
    {},
    fold,
    flags,
    camera.lost && h("span", { class: "badge bad" }, "gone"),
    h("span", { class: "space" }),
    !camera.lost && play,
    !camera.lost && buildAlike(camera, clock, search),
  );
  const style = camera.lost ? "camera lost" : "camera";
  const node = h("figure", { class: style, "data-camera": camera.name }, video, note, caption);
  let isChosen = plays;
  const setOpen = (/** @type {boolean} */ isOpen) => {
    node.classList.toggle("collapsed", !isOpen);
    node.classList.toggle("still", isOpen && !isChosen && !camera.lost);
    fold.setAttribute("aria-expanded", String(isOpen));
    if (isOpen && isChosen && !camera.lost) start(camera, video, clock);
    else clock.unfollow(video);
  };
  const choose = () => {
    isChosen = true;
    setOpen(true);
  };
  fold.addEventListener("click", () => (node.classList.contains("collapsed") ? choose() : setOpen(false)));
  play.addEventListener("click", choose);
  video.addEventListener("error", () => explain(video, note));
  video.addEventListener("click", () => (node.classList.contains("still") ? choose() : clock.toggle()));
  setOpen(camera.flags.length === 0);
  return node;
}

/** @param {Camera} camera */
function buildVideo(camera) {
  const label = `camera ${camera.name}`;
  return h("video", {
    muted: true,
    playsInline: true,
    preload: "auto",
    poster: camera.lost ? null : camera.poster,
    "aria-label": label,
  });
}

/** @param {Camera} camera */
function buildFold(camera) {
  const about = h("span", { class: "muted" }, ` ${camera.about}`);
  return h("button", { class: "fold", title: "Show or hide this camera" }, h("b", {}, camera.name), about);
}

/**
 * @param {Camera} camera
 * @param {import("./clock.js").Clock} clock
 * @param {(frame: string) => void} search Searches for frames like "CAMERA@SECONDS".
 */
function buildAlike(camera, clock, search) {
  const ask = () => search(`${camera.name}@${clock.time.toFixed(3)}`);
  const title = "Find moments that look like this frame";
  return h("button", { class: "alike", title, onclick: ask }, "Find like this");
}

/**
 * @param {Camera} camera
 * @param {HTMLVideoElement} video
 * @param {import("./clock.js").Clock} clock
 */
function start(camera, video, clock) {
  if (!video.src) video.src = camera.video;
  clock.follow(video, camera.rate);
  clock.seek(clock.time);
}

/**
 * Says why a video cannot be played: the reason of the server is one line of text.
 *
 * @param {HTMLVideoElement} video
 * @param {HTMLElement} note
 */
async function explain(video, note) {
  note.textContent = "this video cannot be played";
  const answer = await fetch(video.src).catch(() => null);
  if (answer && answer.status === 422) note.textContent = await answer.text();
}
