// What is named beside the timeline: the event that is shown, or the likely one that comes next.
import assert from "node:assert/strict";
import { test } from "node:test";
import { momentAt } from "../../../../app/dashboard/components/player/moments.js";

/** @type {(seconds: number, label: string, likely?: boolean) => any} */
const event = (seconds, label, likely = false) => ({ seconds, label, kind: "changes", likely });

test("the event that is shown has the name, else the next likely one, and behind the last the first", () => {
  const events = [event(1, "first"), event(2, "last gripper", true), event(5, "end", true)];
  const named = [0, 1, 2, 2.5, 5, 6].map((time) => momentAt(events, time)?.label);
  assert.deepEqual(named, ["last gripper", "first", "last gripper", "end", "end", "last gripper"]);
  assert.equal(momentAt([], 1), null);
});
