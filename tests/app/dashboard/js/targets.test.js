// The buttons of markers on a clock, without a page.
import assert from "node:assert/strict";
import test from "node:test";

import { layOutTargets } from "../../../../app/dashboard/components/targets.js";

/** @param {...number} positions */
const points = (...positions) => positions.map((position) => ({ left: position, right: position }));

test("markers far from each other have a button of 24 pixels each, around the marker", () => {
  assert.deepEqual(layOutTargets(points(100, 200), 400), [
    { start: 88, stop: 112, first: 0, last: 0 },
    { start: 188, stop: 212, first: 1, last: 1 },
  ]);
});

test("markers close to each other share a button, and no button lies over another", () => {
  for (const step of [1, 5, 7, 11, 13, 23, 25]) {
    const positions = Array.from({ length: 40 }, (_, index) => Math.min(500, index * step));
    const targets = layOutTargets(points(...positions), 500);
    assert.equal(targets[0].first, 0);
    assert.equal(targets.at(-1)?.last, 39);
    targets.forEach(({ start, stop, first, last }, index) => {
      assert.ok(stop - start >= 24 && start >= 0 && stop <= 500, `${step}: ${start} to ${stop}`);
      assert.ok(index === 0 || (start >= targets[index - 1].stop && first === targets[index - 1].last + 1));
      assert.ok(positions[first] >= start - 6 && positions[last] <= stop, `${step}: markers of ${start}`);
    });
  }
});

test("wide markers keep their own ends, and a narrow one behind them has its own button", () => {
  const extents = [
    { left: 0, right: 100 },
    { left: 100, right: 108 },
  ];
  assert.deepEqual(layOutTargets(extents, 300), [
    { start: 0, stop: 100, first: 0, last: 0 },
    { start: 100, stop: 124, first: 1, last: 1 },
  ]);
});
