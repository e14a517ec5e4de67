// Words that two texts share, without a page.
import assert from "node:assert/strict";
import test from "node:test";

import { sharedWords } from "../../../../app/dashboard/components/words.js";

const compare = (/** @type {string} */ own, /** @type {string} */ other) =>
  own.split(" ").filter((_, index, words) => !sharedWords(words, other.split(" "))[index]);

test("only the words that differ are marked, whatever their case, marks and articles", () => {
  assert.deepEqual(compare("Open the red drawer.", "open a drawer"), ["red"]);
  assert.deepEqual(compare("open a drawer", "Open the red drawer."), []);
  assert.deepEqual(compare("close it", "open it"), ["close"]);
});

test("words in another order are other words", () => {
  assert.deepEqual(compare("cup on plate", "plate on cup").length, 2);
});
