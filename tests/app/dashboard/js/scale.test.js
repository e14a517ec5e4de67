// The numbers of the plots, and the part of the episode that they show.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Clock } from "../../../../app/dashboard/components/player/clock.js";
import {
  bandColumns,
  bounds,
  follow,
  niceSteps,
  shareOf,
  timeSteps,
  writeSecond,
  writeValue,
  zoom,
} from "../../../../app/dashboard/components/player/scale.js";

test("zooming keeps a second where it is and stays within the episode", () => {
  const shown = zoom({ start: 0, stop: 10 }, 0.5, 4, 10);
  assert.deepEqual(shown, { start: 2, stop: 7 });
  assert.equal(shareOf(4, shown.start, shown.stop), shareOf(4, 0, 10));
  assert.deepEqual(zoom(shown, 100, 4, 10), { start: 0, stop: 10 });
  const shortest = zoom(shown, 1e-9, 7, 10);
  assert.ok(Math.abs(shortest.stop - shortest.start - 0.2) < 1e-9);
});

test("the window follows what plays by pages, and stays while the second is inside", () => {
  const shown = { start: 2, stop: 4 };
  assert.equal(follow(shown, 3.9, 10), shown);
  const next = follow(shown, 4.1, 10);
  assert.ok(next.start < 4.1 && next.stop > 5.5 && Math.abs(next.stop - next.start - 2) < 1e-9);
  assert.deepEqual(follow(shown, 9.99, 10), { start: 8, stop: 10 });
  assert.deepEqual(follow(shown, 0, 10), { start: 0, stop: 2 });
});

test("axes have round numbers between the bounds", () => {
  assert.deepEqual(niceSteps(0, 1, 4), [0, 0.5, 1]);
  assert.deepEqual(niceSteps(-0.31, 0.29, 3), [-0.2, 0, 0.2]);
  for (const value of niceSteps(1e-7, 9e-7, 5)) assert.ok(value >= 1e-7 && value <= 9e-7);
});

test("bounds leave out what is missing, and a constant has room", () => {
  const [low, high] = bounds([[1, null, 3], [2]]);
  assert.ok(low < 1 && low > 0.8 && high > 3 && high < 3.2);
  assert.deepEqual(bounds([[null]]), [0, 1]);
  const [below, above] = bounds([[5, 5]]);
  assert.ok(below < 5 && above > 5);
});

test("values are written in few digits", () => {
  assert.deepEqual(
    [null, 0, 0.25, -123.456, 2e6, 1e-5].map(writeValue).join(" "),
    "– 0.000 0.250 -123.5 2.0e+6 1.0e-5",
  );
});

test("a loop of a part starts in it, returns to its start, and ends with Escape's null", () => {
  const clock = new Clock(10, 10, () => {});
  clock.loopSpan({ start: 2, stop: 3 });
  assert.equal(clock.time, 2);
  clock.time = 3.01;
  assert.ok(clock.time >= clock.end && clock.wrap());
  assert.equal(clock.time, 2);
  clock.span = null;
  assert.equal(clock.end, 10);
});

test("hours have round steps of minutes, written as a clock does", () => {
  const steps = timeSteps(0, 3 * 3600, 6);
  assert.deepEqual(steps.slice(0, 3), [0, 1800, 3600]);
  assert.deepEqual(steps.map((second) => writeSecond(second, 3 * 3600)).slice(0, 4), [
    "0:00:00",
    "0:30:00",
    "1:00:00",
    "1:30:00",
  ]);
  assert.deepEqual([writeSecond(125, 600), writeSecond(7, 60)], ["2:05", "7 s"]);
  assert.deepEqual(timeSteps(0, 1, 4), niceSteps(0, 1, 4));
});

test("a column of pixels has the lowest, the highest and the mean of its values, and gaps stay", () => {
  const columns = bandColumns([1.1, 1.2, 1.4, 1.4, 2.6, 5.1], [3, -1, null, 1, 2, null]);
  assert.deepEqual(columns, [
    { x: 1, low: -1, high: 3, mean: 1, count: 3 },
    { x: 3, low: 2, high: 2, mean: 2, count: 1 },
  ]);
});
