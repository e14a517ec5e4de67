// A boundary takes both of its segments along.
import assert from "node:assert/strict";
import { test } from "node:test";
import { moveBoundary } from "../../../../app/dashboard/components/player/corrections.js";

test("a boundary moves the segments on both sides, and neither gets too short", () => {
  /** @type {[number, number, number, number, string][]} */
  const spans = [
    [0, 2, 0, 0, "a"],
    [2, 4, 0, 1, "b"],
    [4, 5, 0, 2, "c"],
  ];
  assert.deepEqual(moveBoundary(spans, 2, 3), [
    { id: "a", start: 0, stop: 3 },
    { id: "b", start: 3, stop: 4 },
  ]);
  const [, second] = moveBoundary(spans, 2, 9);
  assert.equal(second.stop - second.start > 0.04, true);
});
