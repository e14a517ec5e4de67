import assert from "node:assert/strict";
import { test } from "node:test";
import { addressAt } from "../../../../app/dashboard/components/player/address.js";

test("the second replaces the one of the address, and the start is written only in its place", () => {
  const page = "http://h/episode?episode=ab&q=a+b&t=3.00";
  assert.equal(addressAt(page, 1.5), "http://h/episode?episode=ab&q=a+b&t=1.50");
  assert.equal(addressAt(page, 0), "http://h/episode?episode=ab&q=a+b&t=0.00");
  assert.equal(addressAt("http://h/episode?episode=ab", 0), "http://h/episode?episode=ab");
  assert.equal(addressAt("http://h/episode?f.dataset=%7E", 0.25), "http://h/episode?f.dataset=%7E&t=0.25");
});
