// The cameras of an episode: each a video on the clock, or a still picture until it is played.
// Which are hidden, which is large, and their order are kept for each dataset by the browser.
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
const STORED = "ares.cameras";

/**
 * @typedef {object} Arrangement
 * @property {string[]} order Names, as they are drawn.
 * @property {string[]} hidden
 * @property {string} large Name of the camera that is large, or "".
 */

/**
 * How cameras are arranged: as it was kept, with those that it does not know behind the others.
 *
 * @param {readonly Camera[]} cameras
 * @param {Partial<Arrangement> | null} kept
 * @returns {Arrangement}
 */
export function arrangeCameras(cameras, kept) {
  const names = cameras.map(({ name }) => name);
  const known = (kept?.order ?? []).filter((name) => names.includes(name));
  const order = [...known, ...names.filter((name) => !known.includes(name))];
  const isNew = (/** @type {string} */ name) => !known.includes(name);
  const flagged = cameras.filter(({ name, flags }) => flags.length && isNew(name)).map(({ name }) => name);
  const hidden = [...(kept?.hidden ?? []).filter((name) => names.includes(name)), ...flagged];
  const first = order.find((name) => !hidden.includes(name)) ?? "";
  const usual = names.length > MANY_CAMERAS ? first : "";
  const large = kept?.large ?? usual;
  return { order, hidden, large: names.includes(large) && !hidden.includes(large) ? large : "" };
}

/** @param {string} dataset */
function readArrangement(dataset) {
  try {
    return JSON.parse(localStorage.getItem(`${STORED}.${dataset}`) ?? "null");
  } catch {
    return null; // kept by another version, or not to be kept at all
  }
}

export class CameraGrid {
  /**
   * @param {Camera[]} cameras
   * @param {string} dataset
   * @param {import("./clock.js").Clock} clock
   * @param {(frame: string) => void} search Searches for frames like "CAMERA@SECONDS".
   */
  constructor(cameras, dataset, clock, search) {
    this.cameras = cameras;
    this.dataset = dataset;
    this.arrangement = arrangeCameras(cameras, readArrangement(dataset));
    const shown = this.arrangement.order.filter((name) => !this.arrangement.hidden.includes(name));
    const playing = shown.filter((name) => !this.cameraOf(name).lost).slice(0, MANY_CAMERAS);
    /** @type {Map<string, CameraView>} */
    this.views = new Map(
      cameras.map((camera) => [
        camera.name,
        new CameraView(camera, clock, search, playing.includes(camera.name), (what) =>
          this.change(camera.name, what),
        ),
      ]),
    );
    this.large = h("div", { class: "large" });
    this.small = h("div", { class: "small" });
    this.chooser = h("div", { class: "chooser", role: "region", "aria-label": "Cameras", hidden: true });
    this.node = h("div", { class: "cameras" }, this.chooser, this.large, this.small);
    this.draw();
  }

  /** @param {string} name */
  cameraOf(name) {
    return /** @type {Camera} */ (this.cameras.find((camera) => camera.name === name));
  }

  /**
   * @param {string} name
   * @param {"hide" | "enlarge" | "up" | "down"} what
   */
  change(name, what) {
    const { arrangement } = this;
    const { order, hidden } = arrangement;
    const from = order.indexOf(name);
    if (what === "hide") arrangement.hidden = toggled(hidden, name);
    else if (what === "enlarge") arrangement.large = arrangement.large === name ? "" : name;
    else order.splice(from + (what === "up" ? -1 : 1), 0, ...order.splice(from, 1));
    if (arrangement.hidden.includes(arrangement.large)) arrangement.large = "";
    try {
      localStorage.setItem(`${STORED}.${this.dataset}`, JSON.stringify(arrangement));
    } catch {
      // What the browser does not keep is for this page alone.
    }
    this.draw();
  }

  draw() {
    const { order, hidden, large } = this.arrangement;
    const nodes = order.map((name) => {
      const view = /** @type {CameraView} */ (this.views.get(name));
      view.show(!hidden.includes(name), name === large);
      return view.node;
    });
    putInto(this.large, large ? [/** @type {CameraView} */ (this.views.get(large)).node] : []);
    putInto(this.small, large ? nodes.filter((node) => node.dataset.camera !== large) : nodes);
    const count = order.length - hidden.length;
    this.node.className = `cameras n${Math.min(4, count)}${large ? " one" : ""}`;
    if (!this.chooser.hidden) this.drawChooser();
  }

  toggleChooser() {
    this.chooser.hidden = !this.chooser.hidden;
    if (!this.chooser.hidden) this.drawChooser();
  }

  drawChooser() {
    const { order, hidden, large } = this.arrangement;
    const rows = order.map((name, index) => {
      const box = h("input", { type: "checkbox", checked: !hidden.includes(name) });
      box.addEventListener("change", () => this.change(name, "hide"));
      const button = (/** @type {"enlarge" | "up" | "down"} */ what, /** @type {string} */ sign) =>
        h("button", { title: `${name}: ${what}`, onclick: () => this.change(name, what) }, sign);
      const up = button("up", "↑");
      const down = button("down", "↓");
      up.disabled = index === 0;
      down.disabled = index === order.length - 1;
      const enlarge = button("enlarge", name === large ? "as the others" : "large");
      return h("div", { class: "chooser-row" }, h("label", {}, box, ` ${name}`), enlarge, up, down);
    });
    this.chooser.replaceChildren(...rows);
  }
}

/** @type {(names: string[], name: string) => string[]} */
function toggled(names, name) {
  return names.includes(name) ? names.filter((other) => other !== name) : [...names, name];
}

/**
 * Puts nodes into another one, without moving those that are there in this order: a video that moves stops.
 *
 * @type {(parent: HTMLElement, nodes: HTMLElement[]) => void}
 */
function putInto(parent, nodes) {
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
   * @param {(what: "hide" | "enlarge") => void} change
   */
  constructor(camera, clock, search, plays, change) {
    this.camera = camera;
    this.clock = clock;
    this.isPlayed = plays;
    this.isOpen = false;
    this.video = buildVideo(camera);
    const note = h("div", { class: "note", role: "status" }, camera.lost);
    this.fold = buildFold(camera);
    this.enlarge = h("button", { class: "alike enlarge", "aria-label": `Enlarge ${camera.name}` }, "⤢");
    this.enlarge.title = "Large, or as the others";
    this.play = h(
      "button",
      { class: "alike play-camera", title: "Play this camera with the others" },
      "Play",
    );
    const gone = camera.lost && h("span", { class: "badge bad" }, "gone");
    const flags = camera.flags.map((flag) => h("span", { class: "badge bad" }, flag));
    const actions = !camera.lost && [this.play, buildAlike(camera, clock, search)];
    const space = h("span", { class: "space" });
    const caption = h("figcaption", {}, this.fold, flags, gone, space, actions, this.enlarge);
    const style = camera.lost ? "camera lost" : "camera";
    this.node = h("figure", { class: style, "data-camera": camera.name }, this.video, note, caption);
    this.fold.addEventListener("click", () => change("hide"));
    this.enlarge.addEventListener("click", () => change("enlarge"));
    this.play.addEventListener("click", () => this.playVideo());
    this.video.addEventListener("error", () => explain(this.video, note));
    this.video.addEventListener("click", () => this.press(change));
  }

  /** @param {(what: "hide" | "enlarge") => void} change */
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
    this.fold.setAttribute("aria-expanded", String(isOpen));
    this.enlarge.setAttribute("aria-pressed", String(isLarge));
    const isPlaying = isOpen && this.isPlayed && !camera.lost;
    if (isPlaying && !this.isOpen) start(camera, this.video, this.clock);
    else if (!isPlaying) this.clock.unfollow(this.video);
    this.isOpen = isPlaying;
  }
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
  return h("button", { class: "alike find", title, onclick: ask }, "Find like this");
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
