// The player: cameras, transport, timeline and plots of an episode on the same clock.
import { h, mount } from "../dom.js";
import { Address } from "./address.js";
import { CameraGrid } from "./camera.js";
import { Clock } from "./clock.js";
import { JudgePanel } from "./judge.js";
import { Lanes } from "./lanes.js";
import { Moments } from "./moments.js";
import { Plot } from "./plots.js";
import { follow, zoom } from "./scale.js";
import { Timeline } from "./timeline.js";
import { buildHelp, buildTransport, keyListener } from "./transport.js";

/**
 * @typedef {object} PlayerData
 * @property {string} episode
 * @property {string} dataset The arrangement of its cameras is kept by it.
 * @property {import("./judge.js").JudgeData | null} judge What people say of it; null where two are compared.
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
// What the checks find comes later than the player: see the component of findings.
const FINDINGS = "ares-findings";
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
      this.judge?.act("spans", { changes }),
    );
    this.moments = new Moments(data.ticks, this.clock);
    this.transport = buildTransport(this.clock, this.commands, this.moments.node);
    this.help = buildHelp();
    const seekTo = (/** @type {number} */ second) => this.clock.seek(second);
    this.judge = data.judge && new JudgePanel(data.judge, send, seekTo);
    this.node = this.build(send);
    this.address = new Address(data.episode);
    this.isReady = true;
    this.clock.seek(data.start);
  }

  /** @param {import("../dom.js").Send} send */
  build(send) {
    const { episode, dataset } = this.data;
    // With its episode: the page may have gone on to the next one.
    const search = (/** @type {string} */ frame) => send("frame", `${episode}/${frame}`);
    this.cameras = new CameraGrid(this.data.cameras, dataset, this.clock, search);
    const pictures = h("div", { class: "pictures" }, this.cameras.node, this.lanes.now);
    const dock = h("div", { class: "dock" }, this.timeline.node, this.transport.node, this.help);
    const plots =
      this.plots.length > 0 &&
      h(
        "div",
        { class: "plots" },
        this.plots.map(({ node }) => node),
      );
    // The curves stand beside one picture, and below several.
    const isBeside = plots && this.data.cameras.length === 1;
    const watch = h("div", { class: isBeside ? "watch beside" : "watch" }, pictures, dock, plots);
    const screen = h("div", { class: this.judge ? "screen" : "screen wide" }, watch, this.judge?.node);
    return h("div", { class: "player", "data-episode": episode }, screen, this.lanes.node);
  }

  /** @param {{ episode: string, lanes: import("./lanes.js").Lane[] }} findings */
  addFindings({ episode, lanes }) {
    if (episode !== this.data.episode) return;
    this.lanes.add(lanes);
    const ticks = lanes.flatMap(({ label, spans }) =>
      spans.map(([seconds]) => ({ seconds, label, kind: "finding", likely: true })),
    );
    this.timeline.addTicks(ticks);
    this.moments.add(ticks);
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
      jump: (step) => this.moments.jump(step),
      jumpToBoundary: (step) => this.lanes.jump(step),
      help: () => this.help.classList.toggle("shown"),
      close: () => this.close(),
      tick: () => this.judge?.tick(),
      tag: (number) => this.judge?.tag(number - 1),
      undo: () => this.judge?.undo(),
    };
  }

  close() {
    this.help.classList.remove("shown");
    this.clock.span = null;
    this.clock.onTick();
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
    this.moments.update();
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
  window.addEventListener(OPENED, stop, { signal });
  const addFindings = (/** @type {any} */ later) => player.addFindings(later);
  window.addEventListener(FINDINGS, (event) => addFindings(/** @type {CustomEvent} */ (event).detail), {
    signal,
  });
  root.append(player.node);
  const earlier = Reflect.get(window, FINDINGS);
  if (earlier) addFindings(earlier);
  if (keepsPlaying) player.clock.play();
  return { stop, update: (/** @type {PlayerData} */ { judge }) => judge && player.judge?.update(judge) };
}

/** @param {import("../dom.js").Component<PlayerData>} component */
export default function (component) {
  // The page is told the second that the player has written into the address.
  return mount(component, buildPlayer, ["start", "judge"]);
}
