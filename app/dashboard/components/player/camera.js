// The cameras of an episode: each a video on the clock, or a still picture until it is played.
// Which one is large is kept for each dataset.
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

// Of more cameras one is large, and so many play at first: a video takes a decoder and a connection.
const MANY_CAMERAS = 6;
// By dataset, the name of the camera that a person has enlarged, for as long as the page is open.
/** @type {Map<string, string>} */
const enlarged = new Map();

export class CameraGrid {
  /**
   * @param {Camera[]} cameras
   * @param {string} dataset
   * @param {import("./clock.js").Clock} clock
   * @param {(frame: string) => void} search Searches for frames like "CAMERA@SECONDS".
   */
  constructor(cameras, dataset, clock, search) {
    this.dataset = dataset;
    const flagged = cameras.filter(({ flags }) => flags.length > 0).map(({ name }) => name);
    /** @type {Set<string>} */
    this.folded = new Set(flagged);
    const shown = cameras.filter(({ name }) => !this.folded.has(name));
    const playing = shown.filter(({ lost }) => !lost).slice(0, MANY_CAMERAS);
    const usual = cameras.length > MANY_CAMERAS ? (shown[0]?.name ?? "") : "";
    const kept = enlarged.get(dataset) ?? usual;
    this.largest = shown.some(({ name }) => name === kept) ? kept : "";
    const act = (/** @type {string} */ name, /** @type {"fold" | "enlarge"} */ what) =>
      this.change(name, what);
    this.views = cameras.map(
      (camera) =>
        new CameraView(camera, clock, search, playing.includes(camera), (what) => act(camera.name, what)),
    );
    this.large = h("div", { class: "large" });
    this.small = h("div", { class: "small" });
    this.node = h("div", { class: "cameras" }, this.large, this.small);
    this.draw();
  }

  /**
   * @param {string} name
   * @param {"fold" | "enlarge"} what
   */
  change(name, what) {
    if (what === "enlarge") this.largest = this.largest === name ? "" : name;
    else if (!this.folded.delete(name)) this.folded.add(name);
    if (this.folded.has(this.largest)) this.largest = "";
    enlarged.set(this.dataset, this.largest);
    this.draw();
  }

  draw() {
    for (const view of this.views) {
      const { name } = view.camera;
      view.show(!this.folded.has(name), name === this.largest);
    }
    const isLarge = (/** @type {CameraView} */ { camera }) => camera.name === this.largest;
    putInto(this.large, this.views.filter(isLarge));
    putInto(
      this.small,
      this.views.filter((view) => !isLarge(view)),
    );
    const count = this.views.length - this.folded.size;
    this.node.className = `cameras n${Math.min(4, count)}${this.largest ? " one" : ""}`;
  }
}

/**
 * Puts cameras into a node, without moving those that are there in this order: a video that moves stops.
 *
 * @type {(parent: HTMLElement, views: CameraView[]) => void}
 */
function putInto(parent, views) {
  const nodes = views.map(({ node }) => node);
  const isSame =
    parent.children.length === nodes.length && nodes.every((node, at) => parent.children[at] === node);
  if (!isSame) parent.replaceChildren(...nodes);
  parent.hidden = nodes.length === 0;
}

class CameraView {
  /**
   * @param {Camera} camera
   * @param {import("./clock.js").Clock} clock
   * @param {(frame: string) => void} search Searches for frames like "CAMERA@SECONDS".
   * @param {boolean} plays Whether its video is loaded at once; else a click does that.
   * @param {(what: "fold" | "enlarge") => void} change
   */
  constructor(camera, clock, search, plays, change) {
    this.camera = camera;
    this.clock = clock;
    this.isPlayed = plays;
    this.isOpen = false;
    this.video = buildVideo(camera);
    const { name, about, lost, flags } = camera;
    const note = h("div", { class: "note", role: "status" }, lost);
    const faults = [...flags, ...(lost ? ["gone"] : [])];
    const badges = faults.map((text) => h("span", { class: "badge bad" }, text));
    // A camera with a fault is folded, and opened by its name.
    const label = [h("b", {}, name), h("span", { class: "muted" }, ` ${about}`)];
    this.fold = h(flags.length ? "button" : "span", { class: "fold" }, label);
    this.fold.addEventListener("click", () => flags.length && change("fold"));
    const find = h("button", { class: "alike find", title: "Find moments that look like this frame" });
    find.append("Find like this");
    find.addEventListener("click", () => search(`${name}@${clock.time.toFixed(3)}`));
    this.enlarge = h("button", { class: "alike enlarge", "aria-label": `Enlarge ${name}` }, "⤢");
    this.enlarge.title = "Large, or as the others";
    this.play = h("button", { class: "alike play-camera" }, "Play");
    this.play.title = "Play this camera with the others";
    const actions = h("span", { class: "actions" }, !lost && [find, this.enlarge]);
    const caption = h("figcaption", {}, this.fold, badges, !lost && this.play, actions);
    const style = lost ? "camera lost" : "camera";
    this.node = h("figure", { class: style, "data-camera": name }, this.video, note, caption);
    this.enlarge.addEventListener("click", () => change("enlarge"));
    this.play.addEventListener("click", () => this.playVideo());
    this.video.addEventListener("error", () => explain(this.video, note));
    this.video.addEventListener("click", () => this.press(change));
  }

  /** @param {(what: "fold" | "enlarge") => void} change */
  press(change) {
    const isThumbnail = this.node.parentElement?.className === "small" && this.node.closest(".one");
    if (isThumbnail) change("enlarge");
    else if (this.node.classList.contains("still")) this.playVideo();
    else this.clock.toggle();
  }

  playVideo() {
    this.isPlayed = true;
    this.show(true, this.node.classList.contains("is-large"));
  }

  /**
   * @param {boolean} isOpen
   * @param {boolean} isLarge A camera that is large plays.
   */
  show(isOpen, isLarge) {
    this.isPlayed ||= isLarge;
    const { node, camera } = this;
    node.classList.toggle("collapsed", !isOpen);
    node.classList.toggle("is-large", isLarge);
    node.classList.toggle("still", isOpen && !this.isPlayed && !camera.lost);
    if (this.fold instanceof HTMLButtonElement) this.fold.setAttribute("aria-expanded", String(isOpen));
    this.enlarge.setAttribute("aria-pressed", String(isLarge));
    const isPlaying = isOpen && this.isPlayed && !camera.lost;
    if (isPlaying && !this.isOpen) start(camera, this.video, this.clock);
    else if (!isPlaying) this.clock.unfollow(this.video);
    this.isOpen = isPlaying;
  }
}

/** @param {Camera} camera */
function buildVideo({ name, lost, poster }) {
  const video = h("video", { muted: true, playsInline: true, preload: "auto", poster: lost ? null : poster });
  video.setAttribute("aria-label", `camera ${name}`);
  return video;
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
 * Says why a video cannot be played: the server says it in a header of its empty answer.
 *
 * @param {HTMLVideoElement} video
 * @param {HTMLElement} note
 */
async function explain(video, note) {
  note.textContent = "this video cannot be played";
  const answer = await fetch(video.src).catch(() => null);
  const reason = answer?.headers.get("x-reason");
  if (reason) note.textContent = decodeURIComponent(reason);
}
