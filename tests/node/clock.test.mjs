import assert from "node:assert/strict";
import { test } from "node:test";

import { correct, duration, now, utc, within } from "../../static/js/shared/clock.js";
import { number } from "../../static/js/shared/number.js";

test("a duration has its two largest units", () => {
  assert.equal(duration(-1), "0 s");
  assert.equal(duration(42_999), "42 s");
  assert.equal(duration(307_000), "5 m 07 s");
  assert.equal(duration(11_520_000), "3 h 12 m");
  assert.equal(duration(356_400_000), "4 d 03 h");
});

test("what is to come has a dash once it is overdue", () => {
  assert.equal(within(42_999), "42 s");
  assert.equal(within(-4_000), "0 s");
  assert.equal(within(-6_000), "–");
});

test("the clock is the server's", () => {
  correct(Date.UTC(2026, 0, 31, 14, 3, 59));
  assert.equal(utc(now()).slice(0, 16), "2026-01-31 14:03");
});

test("numbers have their thousands apart", () => {
  assert.equal(number(12345), "12,345");
});
