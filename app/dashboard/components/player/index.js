// The player: cameras, transport, timeline and plots of an episode on the same clock.
import { h, mount } from "../dom.js";
import { Address } from "./address.js";
import { buildCamera } from "./camera.js";
import { Clock } from "./clock.js";
import { Lanes, secondBeyond } from "./lanes.js";
import { Plot } from "./plots.js";
import { follow, zoom } from "./scale.js";
import { Timeline } from "./timeline.js";
import { buildHelp, buildTransport, keyListener } from "./transport.js";

/**
 * @typedef {object} PlayerData
 * @property {string} episode
 * @property {number} duration Seconds.
 * @property {number} rate Steps per second.
 * @property {number} start The second that is shown at first.
 * @property {number[]} stamps Seconds of the steps, where these are not even.
 * @property {boolean} paired_by_index
 * @property {import("./camera.js").Camera[]} cameras
 * @property {import("./plots.js").Signal[]} signals
 * @property {import("./timeline.js").Tick[]} ticks
 * @property {import("./lanes.js").LaneData} segments
 */

const OPENED = "ares-player-opened";
// Of more cameras the grid is dense, and so many play at first: a video takes a decoder and a connection.
const MANY_CAMERAS = 6;

class Player {
  /**
   * @param {PlayerData} data
   * @param {import("../dom.js").Send} send
   */
  constructor(data, send) {
    this.data = data;
    this.shown = { start: 0, stop: data.duration };
    this.clock = new Clock(data.duration, data.rate, () => this.update(), data.stamps, data.paired_by_index);
    const actions = this.timeActions();
    this.commands = this.buildCommands();
    this.plots = data.signals.map((signal) => new Plot(signal, this.shown, actions));
    this.timeline = new Timeline(data, this.clock, actions);
    this.lanes = new Lanes(data.segments, data.duration, this.clock);
    this.transport = buildTransport(this.clock, this.commands);
    this.help = buildHelp();
    this.node = this.build(send);
    this.address = new Address();
    this.isReady = true;
    this.clock.seek(data.start);
  }

  /** @param {import("../dom.js").Send} send */
  build(send) {
    const numOpen = this.data.cameras.filter((camera) => !camera.flags.length).length;
    // With its episode: the page may have gone on to the next one.
    const search = (/** @type {string} */ frame) => send("frame", `${this.data.episode}/${frame}`);
    const playable = this.data.cameras.filter(({ flags, lost }) => !flags.length && !lost);
    const playing = playable.slice(0, MANY_CAMERAS);
    const cameras = this.data.cameras.map((camera) => {
      return buildCamera(camera, this.clock, search, playing.includes(camera));
    });
    const plots =
      this.plots.length > 0 &&
      h(
        "div",
        { class: "plots" },
        this.plots.map((plot) => plot.node),
      );
    const cameraGrid = h("div", { class: `cameras n${Math.min(4, numOpen)}` }, cameras);
    const style = `stage${plots ? "" : " alone"}${numOpen > MANY_CAMERAS ? " many" : ""}`;
    const lanes = !this.lanes.isEmpty;
    const pictures = lanes ? h("div", { class: "pictures" }, cameraGrid, this.lanes.now) : cameraGrid;
    const stage = h("div", { class: style }, pictures, plots);
    const dock = h("div", { class: "dock" }, this.timeline.node, this.transport.node, this.help);
    const parts = [stage, dock, lanes && this.lanes.node];
    return h("div", { class: "player", "data-episode": this.data.episode }, parts);
  }

  /** @returns {import("./pointer.js").TimeActions} */
  timeActions() {
    return {
      seek: (time) => this.clock.seek(time),
      hover: (time) => this.plots.forEach((plot) => plot.hover(time)),
      select: (span) => this.clock.loopSpan(span),
      zoom: (factor, time) => this.show(zoom(this.shown, factor, time, this.data.duration)),
    };
  }

  /** @returns {import("./transport.js").Commands} */
  buildCommands() {
    const all = { start: 0, stop: this.data.duration };
    return {
      zoom: (factor) =>
        this.show(factor === null ? all : zoom(this.shown, factor, this.clock.time, this.data.duration)),
      jump: (step) => this.jump(step),
      jumpToBoundary: (step) => this.lanes.jump(step),
      help: () => this.help.classList.toggle("shown"),
      close: () => this.close(),
      copyLink: (button) => this.address.copy(button),
    };
  }

  close() {
    this.help.classList.remove("shown");
    this.clock.span = null;
    this.clock.onTick();
  }

  /** @param {number} step -1 for the previous tick, 1 for the next. */
  jump(step) {
    const seconds = this.data.ticks.map((tick) => tick.seconds).sort((first, second) => first - second);
    const next = secondBeyond(seconds, this.clock.time, step);
    if (next !== undefined) this.clock.seek(next);
  }

  /** @param {import("./clock.js").Span} shown */
  show(shown) {
    this.shown = shown;
    this.plots.forEach((plot) => plot.show(shown));
    this.timeline.show(shown);
    this.lanes.show(shown);
  }

  update() {
    if (!this.isReady) return;
    const shown = follow(this.shown, this.clock.time, this.data.duration);
    if (shown !== this.shown) this.show(shown);
    this.plots.forEach((plot) => plot.update(this.clock.time));
    this.timeline.update();
    this.lanes.update();
    this.transport.update();
    this.address.show(this.clock.time);
  }

  stop() {
    this.clock.pause();
    this.address.stop();
    this.plots.forEach((plot) => plot.stop());
  }
}

/** @type {(root: HTMLElement, data: PlayerData, send: import("../dom.js").Send) => () => void} */
function buildPlayer(root, data, send) {
  // The page keeps the player of the last episode for a while: it must not hear the keys of this one.
  window.dispatchEvent(new CustomEvent(OPENED));
  const player = new Player(data, send);
  const listeners = new AbortController();
  const stop = () => {
    listeners.abort();
    player.stop();
  };
  const { signal } = listeners;
  document.addEventListener("keydown", keyListener(player.clock, player.commands), { signal });
  window.addEventListener("ares-seek", (event) => seek(player.clock, event), { signal });
  window.addEventListener(OPENED, stop, { signal });
  root.append(player.node);
  return stop;
}

/**
 * @param {Clock} clock
 * @param {Event} event
 */
function seek(clock, event) {
  clock.pause();
  clock.seek(Number(/** @type {CustomEvent} */ (event).detail));
}

/** @param {import("../dom.js").Component<PlayerData>} component */
export default function (component) {
  // The page is told the second that the player has written into the address.
  return mount(component, buildPlayer, ["start"]);
}
