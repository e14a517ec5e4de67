import assert from "node:assert/strict";
import { test } from "node:test";
import { findOutside, isInPolygon, simplifyOutline } from "../../../../app/dashboard/components/map/lasso.js";
import {
  fitBox,
  toPixels,
  toUnits,
  visibleBox,
  zoomCamera,
} from "../../../../app/dashboard/components/map/scene.js";

const frame = { width: 800, height: 400 };

/** @param {number} count */
function circle(count) {
  return Array.from({ length: count }, (_, index) => {
    const angle = (2 * Math.PI * index) / count;
    return { x: 200 + 100 * Math.cos(angle), y: 200 + 100 * Math.sin(angle) };
  });
}

test("an outline of a thousand points keeps its area with at most 40 corners", () => {
  const corners = simplifyOutline(circle(1000));
  assert.ok(corners.length > 8 && corners.length <= 40, String(corners.length));
  assert.ok(isInPolygon(200, 200, corners) && isInPolygon(290, 200, corners));
  assert.ok(!isInPolygon(305, 200, corners) && !isInPolygon(275, 275, corners));
});

test("a line and a click are no region", () => {
  assert.deepEqual(simplifyOutline([{ x: 1, y: 1 }]), []);
  assert.deepEqual(
    simplifyOutline([
      { x: 0, y: 0 },
      { x: 5, y: 5 },
      { x: 200, y: 200 },
    ]),
    [],
  );
});

test("points outside a region are dimmed, and none without one", () => {
  const positions = new Float32Array([1, 1, 9, 9, NaN, 1]);
  const square = [
    { x: 0, y: 0 },
    { x: 4, y: 0 },
    { x: 4, y: 4 },
    { x: 0, y: 4 },
  ];
  assert.deepEqual([...findOutside(positions, square)], [0, 1, 1]);
  assert.deepEqual([...findOutside(positions, [])], [0, 0, 0]);
});

test("pixels and units are inverse, and a zoom leaves the point under the pointer where it is", () => {
  const camera = fitBox([-3, -1, 5, 9], frame.width, frame.height);
  const at = { x: 123, y: 45 };
  const about = toUnits(camera, frame, at);
  const nearer = zoomCamera(camera, 8, about, camera.scale);
  const shown = toPixels(nearer, frame, about);
  assert.ok(Math.abs(shown.x - at.x) < 1e-6 && Math.abs(shown.y - at.y) < 1e-6);
  const [left, bottom, right, top] = visibleBox(camera, frame);
  assert.ok(left <= -3 && bottom <= -1 && right >= 5 && top >= 9);
});
