// What the map draws: its points and their density on a canvas, from the units of the map to pixels.

/** @typedef {{ x: number, y: number }} Point */
/** @typedef {Point & { scale: number }} Camera Its middle in units of the map, and pixels a unit. */
/** @typedef {[left: number, bottom: number, right: number, top: number]} Box */
/** @typedef {{ columns: number, lines: number, levels: string, codes: string }} Grid */
/** @typedef {{ positions: string, codes: string, ids: string }} Columns */
/** @typedef {Columns & { box: Box, count: number, grid: Grid | null }} Tile */
/**
 * @typedef {object} Drawing
 * @property {Box} box
 * @property {number} count
 * @property {Float32Array} positions x and y by turns.
 * @property {Uint8Array} codes
 * @property {Uint8Array} ids Eight bytes of every point.
 * @property {HTMLCanvasElement | null} density
 * @property {Uint8Array} outside 1 for points outside the region.
 */
/** @typedef {{ width: number, height: number, isScale: boolean, colours: Palette }} Frame */
/** @typedef {{ other: string, missing: string, accent: string, text: string }} Palette */

export const HUES = "#4e79a7 #f28e2b #59a14f #e15759 #af7aa1 #2aa5a0 #c2a32b #d4668f #9c755f".split(" ");
export const STOPS = ["#3b4cc0", "#3f90c5", "#3fae86", "#c4b32f", "#e2622b"];
const OTHER_CODE = HUES.length;
const MISSING_CODE = 255;
const ZOOM_LIMIT = 1e7;
const FEW_POINTS = 3000;

/** @param {string} text */
export function decodeBytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** @param {string} text */
export function decodeFloats(text) {
  return new Float32Array(decodeBytes(text).buffer);
}

/** @type {(from: string, to: string, share: number) => string} */
function mixColours(from, to, share) {
  const [first, second] = [from, to].map((hex) =>
    [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16)),
  );
  return `rgb(${first.map((part, index) => Math.round(part + (second[index] - part) * share)).join()})`;
}

/** @type {(code: number, isScale: boolean, palette: Palette) => string} */
export function colourOf(code, isScale, palette) {
  if (code === MISSING_CODE) return palette.missing;
  if (!isScale) return code >= OTHER_CODE ? palette.other : HUES[code];
  const at = (code / 254) * (STOPS.length - 1);
  const stop = Math.min(Math.floor(at), STOPS.length - 2);
  return mixColours(STOPS[stop], STOPS[stop + 1], at - stop);
}

/** @type {(box: Box, width: number, height: number) => Camera} */
export function fitBox([left, bottom, right, top], width, height) {
  const scale = Math.min(width / (right - left), height / (top - bottom));
  return { x: (left + right) / 2, y: (bottom + top) / 2, scale };
}

/** @type {(camera: Camera, frame: { width: number, height: number }, point: Point) => Point} */
export function toPixels(camera, { width, height }, { x, y }) {
  return { x: width / 2 + (x - camera.x) * camera.scale, y: height / 2 - (y - camera.y) * camera.scale };
}

/** @type {(camera: Camera, frame: { width: number, height: number }, pixel: Point) => Point} */
export function toUnits(camera, { width, height }, { x, y }) {
  return { x: camera.x + (x - width / 2) / camera.scale, y: camera.y - (y - height / 2) / camera.scale };
}

/** @type {(camera: Camera, frame: { width: number, height: number }, margin?: number) => Box} */
export function visibleBox(camera, { width, height }, margin = 0) {
  const across = (width / camera.scale / 2) * (1 + margin);
  const up = (height / camera.scale / 2) * (1 + margin);
  return [camera.x - across, camera.y - up, camera.x + across, camera.y + up];
}

/** @type {(camera: Camera, factor: number, about: Point, whole: number) => Camera} */
export function zoomCamera(camera, factor, about, whole) {
  const scale = Math.min(Math.max(camera.scale * factor, whole / 2), whole * ZOOM_LIMIT);
  const share = camera.scale / scale;
  return { x: about.x + (camera.x - about.x) * share, y: about.y + (camera.y - about.y) * share, scale };
}

/** @type {(inner: Box, outer: Box) => boolean} */
export function isWithin(inner, outer) {
  return inner[0] >= outer[0] && inner[1] >= outer[1] && inner[2] <= outer[2] && inner[3] <= outer[3];
}

/** @type {(tile: Tile, isScale: boolean, palette: Palette) => Drawing} */
export function readTile(tile, isScale, palette) {
  return {
    box: tile.box,
    count: tile.count,
    positions: decodeFloats(tile.positions),
    codes: decodeBytes(tile.codes),
    ids: decodeBytes(tile.ids),
    density: tile.grid && paintDensity(tile.grid, isScale, palette),
    outside: new Uint8Array(0),
  };
}

/** @type {(grid: Grid, isScale: boolean, palette: Palette) => HTMLCanvasElement} */
function paintDensity({ columns, lines, levels, codes }, isScale, palette) {
  const canvas = document.createElement("canvas");
  canvas.width = columns;
  canvas.height = lines;
  const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const [alphas, hues] = [decodeBytes(levels), decodeBytes(codes)];
  for (let cell = 0; cell < alphas.length; cell += 1) {
    if (!alphas[cell]) continue;
    context.globalAlpha = 0.15 + (0.55 * alphas[cell]) / 255;
    context.fillStyle = colourOf(hues[cell], isScale, palette);
    context.fillRect(cell % columns, lines - 1 - Math.floor(cell / columns), 1, 1);
  }
  return canvas;
}

/** @typedef {CanvasRenderingContext2D} Context */

/** @type {(context: Context, camera: Camera, frame: Frame, drawing: Drawing) => void} */
export function drawDensity(context, camera, frame, { box, density }) {
  if (!density) return;
  const start = toPixels(camera, frame, { x: box[0], y: box[3] });
  const stop = toPixels(camera, frame, { x: box[2], y: box[1] });
  context.globalAlpha = 1;
  context.drawImage(density, start.x, start.y, stop.x - start.x, stop.y - start.y);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Camera} camera
 * @param {Frame} frame
 * @param {Drawing} drawing
 * @param {boolean} isGrey
 */
export function drawPoints(context, camera, frame, drawing, isGrey) {
  const { positions, codes, outside } = drawing;
  const isFew = codes.length <= FEW_POINTS;
  const radius = isFew ? 4 : 2;
  const styles = new Map([...new Set(codes)].map((code) => [code, pointStyle(code, frame, isGrey)]));
  for (let index = 0; index < codes.length; index += 1) {
    const x = frame.width / 2 + (positions[2 * index] - camera.x) * camera.scale;
    const y = frame.height / 2 - (positions[2 * index + 1] - camera.y) * camera.scale;
    if (x < -radius || y < -radius || x > frame.width + radius || y > frame.height + radius) continue;
    context.fillStyle = styles.get(codes[index]) ?? "";
    context.globalAlpha = isGrey || outside[index] ? 0.25 : 0.8;
    if (isFew) {
      context.beginPath();
      context.arc(x, y, radius, 0, 2 * Math.PI);
      context.fill();
    } else context.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
  }
}

/** @type {(code: number, frame: Frame, isGrey: boolean) => string} */
function pointStyle(code, frame, isGrey) {
  return isGrey ? frame.colours.missing : colourOf(code, frame.isScale, frame.colours);
}

/** @type {(context: Context, camera: Camera, frame: Frame, ticked: Float32Array) => void} */
export function drawTicked(context, camera, frame, ticked) {
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.strokeStyle = frame.colours.text;
  for (let index = 0; index < ticked.length; index += 2) {
    const { x, y } = toPixels(camera, frame, { x: ticked[index], y: ticked[index + 1] });
    context.beginPath();
    context.arc(x, y, 7, 0, 2 * Math.PI);
    context.stroke();
  }
}

/** @type {(context: CanvasRenderingContext2D, corners: Point[], colour: string) => void} */
export function drawOutline(context, corners, colour) {
  if (corners.length < 2) return;
  context.beginPath();
  for (const { x, y } of corners) context.lineTo(x, y);
  context.closePath();
  context.globalAlpha = 0.1;
  context.fillStyle = colour;
  context.fill("evenodd");
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.strokeStyle = colour;
  context.stroke();
}
