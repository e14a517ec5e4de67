// The clock of the player, with videos that are plain objects.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Clock } from "../../../../app/dashboard/components/player/clock.js";

const STAMPS = [0, 0.1, 0.2, 0.9, 1.0];

test("a step of an even clock begins at its second", () => {
  const clock = new Clock(2, 10, () => {});
  for (let step = 0; step < clock.steps; step++) {
    clock.seek(step / 10);
    assert.equal(clock.step, step);
  }
  assert.equal(clock.steps, 20);
});

test("within a gap of the stamps the step before it is shown", () => {
  const clock = new Clock(1.1, 10, () => {}, STAMPS);
  const shown = [0.05, 0.2, 0.89, 0.9, 1.05].map((second) => {
    clock.seek(second);
    return clock.step;
  });
  assert.deepEqual(shown, [0, 2, 2, 3, 4]);
});

test("a seek beyond the ends stays within the episode", () => {
  const clock = new Clock(2, 10, () => {});
  clock.seek(-3);
  assert.equal(clock.time, 0);
  clock.seek(9);
  assert.deepEqual([clock.time, clock.step], [2, 19]);
});
