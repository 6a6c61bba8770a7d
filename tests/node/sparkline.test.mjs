import assert from "node:assert/strict";
import { test } from "node:test";

import { plain } from "./dom.mjs";

import { detail } from "../../static/js/board/badges.js";
import { Trends, inWords, sparkline } from "../../static/js/board/sparkline.js";

const row = (version, value) => {
  return { asset: "shop", version: String(version).padStart(3, "0"), details: [["udp", null], value] };
};

test("the values of the first number are kept, one of each record, so many at the most", () => {
  const trends = new Trends();
  assert.deepEqual(trends.follow(row(1, ["5 /s", 5])), { at: 1, version: "001", values: [5] });
  assert.deepEqual(trends.follow(row(1, ["5 /s", 5])).values, [5]);
  assert.deepEqual(trends.follow(row(3, ["9 /s", 9])).values, [5, 9]);
  assert.deepEqual(trends.follow(row(2, ["7 /s", 7])).values, [5, 9]);
  assert.equal(trends.follow(row(4, null)), null);
  for (let n = 5; n < 99; n++) trends.follow(row(n, [`${n} /s`, n]));
  const { values } = trends.follow(row(99, ["99 /s", 99]));
  assert.deepEqual([values.length, values[0], values.at(-1)], [40, 60, 99]);
  trends.forget("shop");
  assert.deepEqual(trends.follow(row(100, ["1 /s", 1])).values, [1]);
});

test("a line goes from the oldest to the newest, the highest on top", () => {
  const [, attributes, [line]] = plain(sparkline([0, 10, 5]));
  assert.equal(attributes["aria-hidden"], "true");
  assert.equal(line[1].points, "1.0,13.0 22.0,1.0 43.0,7.0");
  assert.equal(plain(sparkline([3, 3]))[2][0][1].points, "1.0,7.0 43.0,7.0");
  assert.equal(inWords([0, 1200, 5]), "lowest 0, highest 1,200, now 5");
});

test("a cell has a line once there are two values, and says it in words", () => {
  assert.equal(detail(["5 /s", 5], [5]).length, 1);
  const [svg, amount, words] = detail(["9 /s", 9], [5, 9]).map(plain);
  assert.equal(svg[1].class, "spark");
  assert.deepEqual(amount[2], ["9 /s"]);
  assert.deepEqual(words, ["span", { class: "visually-hidden" }, [" lowest 5, highest 9, now 9"]]);
});
