// Lanes of segments: which one is current, and where a key jumps to.
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  latestEnds,
  listBoundaries,
  secondBeyond,
  segmentAt,
} from "../../../../app/dashboard/components/player/lanes.js";

/** @type {import("../../../../app/dashboard/components/player/lanes.js").Segment[]} */
const SPANS = [
  [0, 9, 0, 0],
  [1, 2, 1, 1],
  [2, 3, 1, 2],
  [5, 5, 1, 3],
  [20, 20, 0, 4],
];

test("the current segment is the one that began last and still lasts, and an instant is for a second", () => {
  const ends = latestEnds(SPANS);
  const textAt = (/** @type {number} */ time) => segmentAt(SPANS, ends, time)?.[3] ?? null;
  assert.deepEqual([0, 1, 1.99, 2, 3, 5, 5.9, 6.1, 9, 19, 20.5, 21.5].map(textAt), [
    0,
    1,
    1,
    2,
    0,
    3,
    3,
    0,
    null,
    null,
    4,
    null,
  ]);
  assert.equal(segmentAt([], [], 1), null);
});

test("boundaries of all lanes are jumped to in order, each once", () => {
  const lane = { name: "", label: "", about: "", rows: 1, crowded: 0, texts: [] };
  const seconds = listBoundaries([
    { ...lane, spans: SPANS },
    { ...lane, spans: [[2.0002, 7, 0, 0]] },
  ]);
  assert.deepEqual(seconds, [0, 1, 2, 3, 5, 7, 9, 20]);
  assert.equal(secondBeyond(seconds, 2, 1), 3);
  assert.equal(secondBeyond(seconds, 2, -1), 1);
  assert.equal(secondBeyond(seconds, 20, 1), undefined);
});
