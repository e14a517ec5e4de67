// The player: cameras, transport, timeline and plots of an episode on the same clock.
import { h, mount } from "../dom.js";
import { Address } from "./address.js";
import { CameraGrid } from "./camera.js";
import { Clock } from "./clock.js";
import { JudgePanel } from "./judge.js";
import { Lanes, secondBeyond } from "./lanes.js";
import { Plot } from "./plots.js";
import { follow, zoom } from "./scale.js";
import { Timeline } from "./timeline.js";
import { buildHelp, buildTransport, keyListener } from "./transport.js";

/**
 * @typedef {object} PlayerData
 * @property {string} episode
 * @property {string} dataset The arrangement of its cameras is kept by it.
 * @property {import("./judge.js").JudgeData} judge
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
// Whether the player of the last episode played when this one took its place.
let keepsPlaying = false;

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
    this.plots = data.signals.flatMap((signal) =>
      signal.groups.map((group) => new Plot(signal, group, this.shown, actions)),
    );
    this.timeline = new Timeline(data, this.clock, actions);
    this.lanes = new Lanes(data.segments, data.duration, this.clock, (changes) =>
      this.judge.act("spans", { changes }),
    );
    this.transport = buildTransport(this.clock, this.commands);
    this.help = buildHelp();
    this.judge = new JudgePanel(data.judge, send, (second) => this.clock.seek(second));
    this.node = this.build(send);
    this.address = new Address();
    this.isReady = true;
    this.clock.seek(data.start);
  }

  /** @param {import("../dom.js").Send} send */
  build(send) {
    const { episode, dataset } = this.data;
    // With its episode: the page may have gone on to the next one.
    const search = (/** @type {string} */ frame) => send("frame", `${episode}/${frame}`);
    this.cameras = new CameraGrid(this.data.cameras, dataset, this.clock, search);
    const lanes = !this.lanes.isEmpty;
    const pictures = h("div", { class: "pictures" }, this.cameras.node, lanes && this.lanes.now);
    const dock = h("div", { class: "dock" }, this.timeline.node, this.transport.node, this.help);
    const screen = h("div", { class: "screen" }, pictures, dock, this.judge.node);
    const plots = h(
      "div",
      { class: "plots" },
      this.plots.map((plot) => plot.node),
    );
    const parts = [screen, lanes && this.lanes.node, this.plots.length > 0 && plots];
    return h("div", { class: "player", "data-episode": episode }, parts);
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
      tick: () => this.judge.tick(),
      tag: (number) => this.judge.tag(number - 1),
      undo: () => this.judge.undo(),
      chooseCameras: () => this.cameras?.toggleChooser(),
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

/** @typedef {import("../dom.js").Drawn} Drawn */
/** @type {(root: HTMLElement, data: PlayerData, send: import("../dom.js").Send) => Drawn} */
function buildPlayer(root, data, send) {
  // The page keeps the player of the last episode for a while: it must not hear the keys of this one.
  window.dispatchEvent(new CustomEvent(OPENED));
  const player = new Player(data, send);
  const listeners = new AbortController();
  const stop = () => {
    if (listeners.signal.aborted) return;
    // The next player is built in the same moment; one that is opened later does not begin by itself.
    keepsPlaying = player.clock.playing;
    queueMicrotask(() => {
      keepsPlaying = false;
    });
    listeners.abort();
    player.stop();
  };
  const { signal } = listeners;
  document.addEventListener("keydown", keyListener(player.clock, player.commands), { signal });
  window.addEventListener("ares-seek", (event) => seek(player.clock, event), { signal });
  window.addEventListener(OPENED, stop, { signal });
  root.append(player.node);
  if (keepsPlaying) player.clock.play();
  return { stop, update: (/** @type {PlayerData} */ { judge }) => player.judge.update(judge) };
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
  return mount(component, buildPlayer, ["start", "judge"]);
}
