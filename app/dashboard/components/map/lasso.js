// A lasso: the corners that a hand-drawn outline needs, and what lies in it.

/** @typedef {import("./scene.js").Point} Point */

const MOST_CORNERS = 40;
const CLOSED_PIXELS = 12;

/** @type {(point: Point, start: Point, stop: Point) => number} */
function distanceToLine({ x, y }, start, stop) {
  const [across, up] = [stop.x - start.x, stop.y - start.y];
  const length = Math.hypot(across, up);
  if (!length) return Math.hypot(x - start.x, y - start.y);
  return Math.abs(across * (y - start.y) - up * (x - start.x)) / length;
}

/**
 * Corners without which the outline moves by at most a tolerance (Douglas and Peucker).
 *
 * @type {(points: Point[], tolerance: number) => Point[]}
 */
function reduceCorners(points, tolerance) {
  if (points.length < 3) return points;
  const [start, stop] = [points[0], points[points.length - 1]];
  let [farthest, distance] = [0, 0];
  for (let index = 1; index < points.length - 1; index += 1) {
    const offset = distanceToLine(points[index], start, stop);
    if (offset > distance) [farthest, distance] = [index, offset];
  }
  if (distance <= tolerance) return [start, stop];
  const before = reduceCorners(points.slice(0, farthest + 1), tolerance);
  return [...before.slice(0, -1), ...reduceCorners(points.slice(farthest), tolerance)];
}

/**
 * An outline with few corners; one that is no area has none.
 *
 * @param {Point[]} points In pixels.
 */
export function simplifyOutline(points) {
  let [tolerance, corners] = [1, reduceCorners(points, 1)];
  while (corners.length > MOST_CORNERS) {
    tolerance *= 1.5;
    corners = reduceCorners(points, tolerance);
  }
  const [start, end] = [corners[0], corners[corners.length - 1]];
  // Back where it began: that corner is there already.
  if (Math.hypot(end.x - start.x, end.y - start.y) < CLOSED_PIXELS) corners.pop();
  return corners.length < 3 ? [] : corners;
}

/**
 * Whether a point lies in a polygon, by the rule of the filter `in_polygon`.
 *
 * @type {(x: number, y: number, corners: Point[]) => boolean}
 */
export function isInPolygon(x, y, corners) {
  let isInside = false;
  for (let index = 0, last = corners.length - 1; index < corners.length; last = index, index += 1) {
    const [from, to] = [corners[last], corners[index]];
    const isCrossed = from.y > y !== to.y > y;
    if (isCrossed && x < from.x + ((y - from.y) * (to.x - from.x)) / (to.y - from.y)) isInside = !isInside;
  }
  return isInside;
}

/** @type {(positions: Float32Array, corners: Point[]) => Uint8Array} */
export function findOutside(positions, corners) {
  const outside = new Uint8Array(positions.length / 2);
  if (!corners.length) return outside;
  for (let index = 0; index < outside.length; index += 1) {
    outside[index] = isInPolygon(positions[2 * index], positions[2 * index + 1], corners) ? 0 : 1;
  }
  return outside;
}
