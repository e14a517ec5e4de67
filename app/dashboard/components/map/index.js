// The map: points that are moved, zoomed and selected by a lasso, with the mouse, a finger or the keyboard.
import { h, mount } from "../dom.js";
import { findOutside, simplifyOutline } from "./lasso.js";
import { buildLegend } from "./legend.js";
import { showPreview } from "./preview.js";
import {
  decodeFloats,
  drawDensity,
  drawOutline,
  drawPoints,
  drawTicked,
  fitBox,
  isWithin,
  readTile,
  toPixels,
  toUnits,
  visibleBox,
  zoomCamera,
} from "./scene.js";

/** @typedef {import("./scene.js").Box} Box */
/** @typedef {import("./scene.js").Camera} Camera */
/** @typedef {import("./scene.js").Drawing} Drawing */
/** @typedef {import("./scene.js").Point} Point */
/** @typedef {import("./scene.js").Tile} Tile */
/**
 * @typedef {object} MapData
 * @property {Box} extent
 * @property {Tile} tile
 * @property {Tile | null} rest All episodes, where a filter leaves some out.
 * @property {import("./legend.js").Legend} legend
 * @property {Point[]} region
 * @property {string} ticked
 */

const ASK_MS = 150;
const CLICK_PIXELS = 4;
const NEAR_PIXELS = 10;
const STEP = 0.15;
const KEY_ZOOM = 1.4;
const LABEL =
  "Map of the episodes. Arrow keys move it, plus and minus zoom, 0 shows all, " +
  "Enter makes a region of what is shown.";

class MapView {
  /**
   * @param {HTMLElement} root
   * @param {MapData} data
   * @param {import("../dom.js").Send} send
   */
  constructor(root, data, send) {
    this.send = send;
    this.data = data;
    this.isLasso = true;
    /** @type {Point[]} */
    this.outline = [];
    /** @type {Point | null} */
    this.start = null;
    this.timer = 0;
    this.paints = 0;
    this.paintRequest = 0;
    this.frame = { width: 1, height: 1, isScale: false, colours: readPalette(root) };
    /** @type {Camera | null} */
    this.camera = null;
    /** @type {Drawing | null} */
    this.drawing = null;
    /** @type {Drawing | null} */
    this.rest = null;
    this.parts = buildParts(this);
    root.append(this.parts.tools, h("div", { class: "sheet" }, this.parts.stage, this.parts.legend));
    this.setTool(true);
    this.listen(this.parts.canvas);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.parts.stage);
    this.update(data);
  }

  /** @param {HTMLCanvasElement} canvas */
  listen(canvas) {
    canvas.addEventListener("pointerdown", (event) => this.begin(event));
    canvas.addEventListener("pointermove", (event) => this.follow(event));
    canvas.addEventListener("pointerup", (event) => this.finish(event));
    canvas.addEventListener("pointercancel", () => this.cancel());
    canvas.addEventListener(
      "pointerleave",
      () => this.start ?? showPreview(this.parts.preview, "", { x: 0, y: 0 }),
    );
    canvas.addEventListener("keydown", (event) => this.press(event));
    const turn = (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), { x: event.offsetX, y: event.offsetY });
    };
    canvas.addEventListener("wheel", turn, { passive: false });
  }

  /** @param {MapData} data */
  update(data) {
    this.data = data;
    this.frame.isScale = data.legend.low !== null;
    this.frame.colours = readPalette(this.parts.stage);
    const { isScale, colours } = this.frame;
    this.drawing = readTile(data.tile, isScale, colours);
    this.rest = data.rest && readTile(data.rest, false, { ...colours, other: colours.missing });
    this.drawing.outside = findOutside(this.drawing.positions, data.region);
    this.ticked = decodeFloats(data.ticked);
    this.parts.legend.replaceChildren(...buildLegend(data.legend, isScale, colours));
    const drawn = this.drawing.codes.length;
    const sample =
      drawn < data.tile.count ? `, a sample of ${drawn.toLocaleString("en")} over their density` : "";
    this.parts.status.textContent = `${data.tile.count.toLocaleString("en")} episodes in this part${sample}`;
    this.parts.canvas.dataset.points = String(drawn);
    this.parts.canvas.dataset.count = String(data.tile.count);
    this.parts.canvas.dataset.ticked = String(this.ticked.length / 2);
    this.parts.canvas.dataset.inside = String(
      this.drawing.outside.reduce((sum, value) => sum + 1 - value, 0),
    );
    this.paint();
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.parts.stage;
    if (!width || !height) return;
    Object.assign(this.frame, { width, height });
    const ratio = window.devicePixelRatio || 1;
    this.parts.canvas.width = width * ratio;
    this.parts.canvas.height = height * ratio;
    this.camera ??= fitBox(this.data.extent, width, height);
    this.paint();
  }

  paint() {
    cancelAnimationFrame(this.paintRequest);
    this.paintRequest = requestAnimationFrame(() => this.paintNow());
  }

  paintNow() {
    const context = this.parts.canvas.getContext("2d");
    if (!context || !this.camera || !this.drawing) return;
    const { camera, frame } = this;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, frame.width, frame.height);
    if (this.rest) {
      drawDensity(context, camera, frame, this.rest);
      drawPoints(context, camera, frame, this.rest, true);
    }
    drawDensity(context, camera, frame, this.drawing);
    drawPoints(context, camera, frame, this.drawing, false);
    drawTicked(context, camera, frame, this.ticked ?? new Float32Array(0));
    const corners = this.data.region.map((corner) => toPixels(camera, frame, corner));
    drawOutline(context, corners, frame.colours.accent);
    drawOutline(context, this.outline, frame.colours.accent);
    this.paints += 1;
    this.parts.canvas.dataset.paints = String(this.paints);
  }

  /** @param {boolean} isLasso */
  setTool(isLasso) {
    this.isLasso = isLasso;
    this.parts.lassoButton.setAttribute("aria-pressed", String(isLasso));
    this.parts.moveButton.setAttribute("aria-pressed", String(!isLasso));
    this.parts.canvas.classList.toggle("moving", !isLasso);
  }

  /** @param {PointerEvent} event */
  begin(event) {
    if (event.button > 1 || !this.camera) return;
    this.parts.canvas.setPointerCapture(event.pointerId);
    this.start = { x: event.offsetX, y: event.offsetY };
    this.from = { ...this.camera };
    this.isMoved = !this.isLasso || event.shiftKey || event.button === 1;
    this.outline = [];
  }

  /** @param {PointerEvent} event */
  follow(event) {
    const at = { x: event.offsetX, y: event.offsetY };
    if (!this.start || !this.camera || !this.from) {
      showPreview(this.parts.preview, this.nearestId(at), at);
      return;
    }
    if (this.isMoved) {
      this.camera.x = this.from.x - (at.x - this.start.x) / this.camera.scale;
      this.camera.y = this.from.y + (at.y - this.start.y) / this.camera.scale;
    } else this.outline.push(at);
    this.paint();
  }

  /** @param {PointerEvent} event */
  finish(event) {
    const { start, camera, frame, outline } = this;
    this.cancel();
    if (!start || !camera) return;
    const isClick = Math.hypot(event.offsetX - start.x, event.offsetY - start.y) < CLICK_PIXELS;
    if (isClick && outline.length < 2 * CLICK_PIXELS) this.open(this.nearestId(start));
    else if (this.isMoved) this.ask();
    else this.choose(simplifyOutline([start, ...outline]).map((corner) => toUnits(camera, frame, corner)));
  }

  cancel() {
    this.start = null;
    this.outline = [];
    this.paint();
  }

  /** @param {string} id */
  open(id) {
    if (id) this.send("opened", id);
  }

  /** @param {Point[]} corners */
  choose(corners) {
    if (corners.length > 2) this.send("region", corners);
  }

  chooseView() {
    if (!this.camera) return;
    const [left, bottom, right, top] = visibleBox(this.camera, this.frame);
    const corners = [
      [left, bottom],
      [right, bottom],
      [right, top],
      [left, top],
    ];
    this.choose(corners.map(([x, y]) => ({ x, y })));
  }

  /** @type {(factor: number, at?: Point) => void} */
  zoom(factor, at = { x: this.frame.width / 2, y: this.frame.height / 2 }) {
    if (!this.camera) return;
    const whole = fitBox(this.data.extent, this.frame.width, this.frame.height).scale;
    this.camera = zoomCamera(this.camera, factor, toUnits(this.camera, this.frame, at), whole);
    this.paint();
    this.ask();
  }

  showAll() {
    this.camera = fitBox(this.data.extent, this.frame.width, this.frame.height);
    this.paint();
    this.ask();
  }

  /** @param {KeyboardEvent} event */
  press(event) {
    /** @type {Record<string, () => void>} */
    const keys = {
      ArrowLeft: () => this.move(-STEP, 0),
      ArrowRight: () => this.move(STEP, 0),
      ArrowUp: () => this.move(0, STEP),
      ArrowDown: () => this.move(0, -STEP),
      "+": () => this.zoom(KEY_ZOOM),
      "=": () => this.zoom(KEY_ZOOM),
      "-": () => this.zoom(1 / KEY_ZOOM),
      0: () => this.showAll(),
      Enter: () => this.chooseView(),
    };
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  }

  /** @type {(across: number, up: number) => void} */
  move(across, up) {
    if (!this.camera) return;
    this.camera.x += (across * this.frame.width) / this.camera.scale;
    this.camera.y += (up * this.frame.height) / this.camera.scale;
    this.paint();
    this.ask();
  }

  /** Asks for the points of the part that is shown, unless they are all here. */
  ask() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      if (!this.camera || !this.drawing) return;
      const box = visibleBox(this.camera, this.frame);
      const isWhole = this.drawing.codes.length >= this.drawing.count;
      if (isWhole && isWithin(clipBox(box, this.data.extent), this.drawing.box)) return;
      this.send("view", visibleBox(this.camera, this.frame, 0.2));
    }, ASK_MS);
  }

  /** @param {Point} at */
  nearestId(at) {
    if (!this.camera || !this.drawing) return "";
    const { positions, ids } = this.drawing;
    const { x, y } = toUnits(this.camera, this.frame, at);
    let [nearest, least] = [-1, NEAR_PIXELS / this.camera.scale];
    for (let index = 0; index < positions.length / 2; index += 1) {
      const distance = Math.hypot(positions[2 * index] - x, positions[2 * index + 1] - y);
      if (distance < least) [nearest, least] = [index, distance];
    }
    if (nearest < 0) return "";
    const bytes = [...ids.subarray(8 * nearest, 8 * nearest + 8)];
    return bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  stop() {
    this.observer.disconnect();
    clearTimeout(this.timer);
    cancelAnimationFrame(this.paintRequest);
  }
}

/** @param {MapView} view */
function buildParts(view) {
  const tool = (/** @type {string} */ label, /** @type {() => void} */ onclick, title = label) =>
    h("button", { class: "tool", title, "aria-label": title, onclick }, label);
  const status = h("p", { class: "status muted", role: "status" });
  const canvas = h("canvas", { tabIndex: 0, role: "application", "aria-label": LABEL });
  const preview = h("div", { class: "preview", hidden: true });
  const lassoButton = tool("Lasso", () => view.setTool(true), "Lasso: drag around points");
  const moveButton = tool("Move", () => view.setTool(false), "Move: drag the map");
  const tools = h(
    "div",
    { class: "tools", role: "group", "aria-label": "Map" },
    lassoButton,
    moveButton,
    tool("+", () => view.zoom(KEY_ZOOM), "Zoom in"),
    tool("−", () => view.zoom(1 / KEY_ZOOM), "Zoom out"),
    tool("Show all", () => view.showAll()),
    tool("Region of this view", () => view.chooseView()),
    status,
  );
  const stage = h("div", { class: "stage" }, canvas, preview);
  return {
    tools,
    stage,
    canvas,
    preview,
    status,
    lassoButton,
    moveButton,
    legend: h("div", { class: "legend" }),
  };
}

/** @type {(box: Box, extent: Box) => Box} */
function clipBox(box, extent) {
  const [left, bottom, right, top] = box;
  return [
    Math.max(left, extent[0]),
    Math.max(bottom, extent[1]),
    Math.min(right, extent[2]),
    Math.min(top, extent[3]),
  ];
}

/** @param {HTMLElement} element */
function readPalette(element) {
  const style = getComputedStyle(element);
  const read = (/** @type {string} */ name, /** @type {string} */ otherwise) =>
    style.getPropertyValue(name).trim() || otherwise;
  const text = read("--st-text-color", "#0f172a");
  return { other: "#7c8797", missing: "#a3acb9", accent: read("--st-primary-color", "#2563eb"), text };
}

/** @type {(root: HTMLElement, data: MapData, send: import("../dom.js").Send) => import("../dom.js").Drawn} */
function buildMap(root, data, send) {
  const view = new MapView(root, data, send);
  return { stop: () => view.stop(), update: (newer) => view.update(newer) };
}

/** @param {import("../dom.js").Component<MapData>} component */
export default function (component) {
  return mount(component, buildMap, ["extent", "tile", "rest", "legend", "region", "ticked"]);
}
