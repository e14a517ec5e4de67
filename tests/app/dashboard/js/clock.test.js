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

/** @type {() => any} */
function plainVideo() {
  const video = { duration: 9, readyState: 4, currentTime: 0, paused: true, ended: false, seeking: false };
  const act = { addEventListener: () => {}, pause: () => {}, play: () => Promise.resolve() };
  return Object.assign(video, act);
}

test("a video paired by index shows the frame of each step, and stands still in a long one", () => {
  const clock = new Clock(3.5, 10, () => {}, [0, 0.1, 0.2, 3.2, 3.3], true);
  const video = Object.assign(plainVideo(), { duration: 0.5 });
  clock.follow(video, 10);
  for (let time = 0; time < 3.5; time += 0.01) {
    clock.seek(time);
    assert.equal(Math.floor(video.currentTime * 10), clock.step, String(time));
  }
  const speeds = [0.05, 1.5, 3.25].map((time) => {
    clock.time = time;
    return Math.round(clock.inFrame(video).speed);
  });
  assert.deepEqual(speeds, [1, 0, 1]);
});
