// Two episodes on one clock, or one as two producers describe it: pictures, curves, and what differs.
import { h, mount, shortId } from "../dom.js";
import { Address } from "../player/address.js";
import { CameraGrid } from "../player/camera.js";
import { Clock } from "../player/clock.js";
import { secondBeyond } from "../player/lanes.js";
import { Plot } from "../player/plots.js";
import { follow, zoom } from "../player/scale.js";
import { Timeline } from "../player/timeline.js";
import { buildHelp, buildTransport, keyListener } from "../player/transport.js";

/** @typedef {[name: string, first: string, second: string, differs: boolean]} Row */
/** @typedef {{ title: string, rows: Row[] }} Table */
/**
 * @typedef {object} Side
 * @property {string} name "A" or "B".
 * @property {string} episode
 * @property {string} title
 * @property {string} dataset The arrangement of its cameras is kept by it.
 * @property {string} maker The producer that describes it; "" for the columns.
 * @property {number} shift Seconds of the common clock before it begins.
 * @property {number} duration
 * @property {number} rate
 * @property {number[]} stamps
 * @property {boolean} paired_by_index
 * @property {import("../player/camera.js").Camera[]} cameras
 * @property {[word: string, differs: boolean][]} words
 */
/**
 * @typedef {object} CompareData
 * @property {boolean} isOne Whether both are the same episode: its pictures are shown once.
 * @property {number} duration
 * @property {number} rate
 * @property {number} start
 * @property {Side[]} sides
 * @property {import("../player/timeline.js").Tick[]} ticks
 * @property {import("../player/plots.js").Signal[]} signals
 * @property {Table[]} tables
 */

function doNothing() {}

/** @param {Side} side */
function buildHead({ name, episode, title }) {
  const link = h("a", { href: `episode?${new URLSearchParams({ episode })}`, target: "_self" }, title);
  return h("div", { class: "side-head" }, h("b", {}, name), " ", link, " ", shortId(episode));
}

/** @param {Side} side */
function buildText({ name, maker, words: all }) {
  const words = all.flatMap(([word, differs]) => [differs ? h("mark", {}, word) : word, " "]);
  const text = words.length ? words : h("span", { class: "muted" }, "no caption");
  const described = maker && h("div", { class: "muted" }, `as described by ${maker}`);
  const label = h("span", { class: "muted" }, `Caption of ${name}: `);
  return h("div", { class: "side-about" }, described, h("p", { class: "side-text" }, label, text));
}

/** @param {Table} table */
function buildTable({ title, rows }) {
  const build = (/** @type {Row} */ [name, first, second, differs]) => {
    const cells = [first, second].map((value) =>
      h("td", {}, differs ? h("mark", {}, value || "none") : value),
    );
    return h("tr", { class: differs ? "differs" : "same" }, h("th", { scope: "row" }, name), cells);
  };
  const different = rows.filter((row) => row[3]);
  const same = rows.filter((row) => !row[3]);
  const heads = ["", "A", "B"].map((name) => h("th", { scope: "col" }, name));
  const draw = (/** @type {Row[]} */ shown) =>
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          heads.map((head) => head.cloneNode(true)),
        ),
      ),
      h("tbody", {}, shown.map(build)),
    );
  const folded =
    same.length > 0 && h("details", {}, h("summary", {}, `${same.length} that are the same`), draw(same));
  const none = h("div", { class: "muted" }, rows.length ? "Nothing differs." : "Neither has any.");
  return h(
    "section",
    { class: "differences" },
    h("h3", {}, title),
    different.length ? draw(different) : none,
    folded,
  );
}

class Comparison {
  /** @param {CompareData} data */
  constructor(data) {
    this.data = data;
    this.shown = { start: 0, stop: data.duration };
    this.clock = new Clock(data.duration, data.rate, () => this.update());
    const actions = this.timeActions();
    this.plots = data.signals.flatMap((signal) =>
      signal.groups.map((group) => new Plot(signal, group, this.shown, actions)),
    );
    this.timeline = new Timeline(data, this.clock, actions);
    this.commands = this.buildCommands();
    this.transport = buildTransport(this.clock, this.commands);
    this.help = buildHelp();
    this.address = new Address();
    const shown = data.isOne ? data.sides.slice(0, 1) : data.sides;
    this.grids = shown.map((side) => this.buildCameras(side));
    this.node = this.build();
    this.isReady = true;
    this.clock.seek(data.start);
  }

  /** @param {Side} side */
  buildCameras(side) {
    const clock = new Clock(side.duration, side.rate, doNothing, side.stamps, side.paired_by_index);
    this.clock.lead(clock, side.shift);
    return new CameraGrid(side.cameras, side.dataset, clock, doNothing);
  }

  build() {
    const { sides, isOne, tables } = this.data;
    const columns = sides.map((side, index) =>
      h(
        "section",
        { class: "side", "aria-label": `Side ${side.name}` },
        !isOne && buildHead(side),
        !isOne && this.grids[index].node,
        buildText(side),
      ),
    );
    const plots = h(
      "div",
      { class: "plots" },
      this.plots.map((plot) => plot.node),
    );
    const dock = h("div", { class: "dock" }, this.timeline.node, this.transport.node, this.help);
    // Pictures that both have stand above both captions; else each caption stands under its pictures.
    const pictures =
      isOne && h("div", { class: "one-episode" }, buildHead({ ...sides[0], name: "" }), this.grids[0].node);
    return h(
      "div",
      { class: "player compare" },
      pictures,
      h("div", { class: "sides" }, columns),
      dock,
      plots,
      tables.map(buildTable),
    );
  }

  /** @returns {import("../player/pointer.js").TimeActions} */
  timeActions() {
    return {
      seek: (time) => this.clock.seek(time),
      hover: (time) => this.plots.forEach((plot) => plot.hover(time)),
      select: (span) => this.clock.loopSpan(span),
      zoom: (factor, time) => this.show(zoom(this.shown, factor, time, this.data.duration)),
    };
  }

  /** @returns {import("../player/transport.js").Commands} */
  buildCommands() {
    const all = { start: 0, stop: this.data.duration };
    const rulings = { jumpToBoundary: doNothing, tick: doNothing, tag: doNothing, undo: doNothing };
    return {
      ...rulings,
      zoom: (factor) =>
        this.show(factor === null ? all : zoom(this.shown, factor, this.clock.time, this.data.duration)),
      jump: (step) => this.jump(step),
      help: () => this.help.classList.toggle("shown"),
      close: () => {
        this.help.classList.remove("shown");
        this.clock.span = null;
        this.clock.onTick();
      },
      copyLink: (button) => this.address.copy(button),
      chooseCameras: () => this.grids.forEach((grid) => grid.toggleChooser()),
    };
  }

  /** @param {number} step -1 for the previous gripper event, 1 for the next. */
  jump(step) {
    const seconds = this.data.ticks.map((tick) => tick.seconds).sort((first, second) => first - second);
    const next = secondBeyond(seconds, this.clock.time, step);
    if (next !== undefined) this.clock.seek(next);
  }

  /** @param {import("../player/clock.js").Span} shown */
  show(shown) {
    this.shown = shown;
    this.plots.forEach((plot) => plot.show(shown));
    this.timeline.show(shown);
  }

  update() {
    if (!this.isReady) return;
    const shown = follow(this.shown, this.clock.time, this.data.duration);
    if (shown !== this.shown) this.show(shown);
    this.plots.forEach((plot) => plot.update(this.clock.time));
    this.timeline.update();
    this.transport.update();
    this.address.show(this.clock.time);
  }

  stop() {
    this.clock.pause();
    this.address.stop();
    this.plots.forEach((plot) => plot.stop());
  }
}

/** @type {(root: HTMLElement, data: CompareData) => () => void} */
function buildCompare(root, data) {
  const comparison = new Comparison(data);
  const listeners = new AbortController();
  const press = keyListener(comparison.clock, comparison.commands);
  document.addEventListener("keydown", press, { signal: listeners.signal });
  root.append(comparison.node);
  return () => {
    listeners.abort();
    comparison.stop();
  };
}

/** @param {import("../dom.js").Component<CompareData>} component */
export default function (component) {
  // The page is told the second that the clock has written into the address.
  return mount(component, buildCompare, ["start"]);
}
