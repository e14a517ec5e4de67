// Ranges of ticks, and where the arrows lead, without a page.
import assert from "node:assert/strict";
import test from "node:test";

import { cardRange, nextIndex } from "../../../../app/dashboard/components/grid/ticks.js";

test("arrows move by one and by a row, and stay at the ends", () => {
  assert.equal(nextIndex("ArrowRight", 0, 10, 4), 1);
  assert.equal(nextIndex("ArrowDown", 1, 10, 4), 5);
  assert.equal(nextIndex("ArrowUp", 5, 10, 4), 1);
  assert.equal(nextIndex("ArrowLeft", 0, 10, 4), 0);
  assert.equal(nextIndex("ArrowDown", 7, 10, 4), 7);
  assert.equal(nextIndex("a", 3, 10, 4), -1);
});

test("a range has both ends, in either direction", () => {
  const cards = /** @type {any} */ (["a", "b", "c", "d"]);
  assert.deepEqual(cardRange(cards, 1, 3), ["b", "c", "d"]);
  assert.deepEqual(cardRange(cards, 3, 1), ["b", "c", "d"]);
});
