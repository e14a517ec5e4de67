// Paging: presses add up from the episode that the address names, whatever is drawn.
import assert from "node:assert/strict";
import { test } from "node:test";
import { addressOf, hasNext, planSteps } from "../../../../app/dashboard/components/headline/paging.js";

/** @type {import("../../../../app/dashboard/components/headline/paging.js").Neighbourhood} */
const KNOWN = {
  episode: "c",
  at: 6,
  before: [
    ["a", 4],
    ["b", 5],
  ],
  after: [
    ["d", 7],
    ["e", 8],
  ],
  begins: false,
  ends: true,
};

test("steps go from the episode of the address, not from the drawn one", () => {
  assert.deepEqual(planSteps(KNOWN, "c", 1), { entry: ["d", 7], rest: 0 });
  assert.deepEqual(planSteps(KNOWN, "d", 1), { entry: ["e", 8], rest: 0 });
  assert.deepEqual(planSteps(KNOWN, "d", -1), { entry: ["c", 6], rest: 0 });
  assert.deepEqual(planSteps(KNOWN, "d", -3), { entry: ["a", 4], rest: 0 });
});

test("steps beyond what is known wait, and those beyond the end of the list are over", () => {
  assert.deepEqual(planSteps(KNOWN, "c", -5), { entry: ["a", 4], rest: -3 });
  assert.deepEqual(planSteps(KNOWN, "c", 5), { entry: ["e", 8], rest: 0 });
  assert.deepEqual(planSteps(KNOWN, "z", 2), { entry: null, rest: 2 });
  assert.deepEqual([hasNext(KNOWN, "e", 1), hasNext(KNOWN, "a", -1)], [false, true]);
});

test("the address keeps the list, and drops the second", () => {
  const page = "http://h/episode?f.dataset=x&episode=c&at=6&t=2.00";
  assert.equal(addressOf(page, ["d", 7]), "http://h/episode?f.dataset=x&episode=d&at=7");
  assert.equal(addressOf(page, ["c", -1]), "http://h/episode?f.dataset=x&episode=c");
});
