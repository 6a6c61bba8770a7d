import assert from "node:assert/strict";
import { test } from "node:test";

import {
  byOrder,
  chooses,
  comparator,
  knowDetails,
  longestRising,
  placeOf,
  plan,
} from "../../static/js/board/order.js";

const row = (asset, place = 0, since = 0, votes = 0) => {
  return { asset, place, since, votes: Array(votes).fill({}), more_votes: 0, pending: null };
};
const names = (rows) => rows.map(({ asset }) => asset);

test("the board's order: place, then the newest, then the name by code points", () => {
  const rows = [row("b"), row("😀"), row("\uffee"), row("a"), row("new", 0, 5), row("first", -1)];
  assert.deepEqual(names(rows.sort(byOrder)), ["first", "new", "a", "b", "\uffee", "😀"]);
});

test("what is unhandled comes first, each part by rank", () => {
  const rows = [
    { asset: "calm", alarming: false, rank: 4 },
    { asset: "held", alarming: true, rank: 1 },
    { asset: "odd", alarming: true, rank: 3 },
    { asset: "bad", alarming: true, rank: 1 },
  ].map((each) => ({ ...each, since: 0, place: placeOf(each, each.asset === "held") }));
  assert.deepEqual(names(rows.sort(byOrder)), ["bad", "odd", "held", "calm"]);
});

test("a column sorts either way; equals keep the board's order", () => {
  const rows = [row("b", 0, 0, 1), row("a", 0, 0, 1), row("c", 0, 0, 3)];
  assert.deepEqual(names(rows.toSorted(comparator("votes"))), ["c", "a", "b"]);
  assert.deepEqual(names(rows.toSorted(comparator("-votes"))), ["a", "b", "c"]);
  assert.deepEqual(names(rows.toSorted(comparator("unknown"))), ["a", "b", "c"]);
});

test("the server chooses the rows of what is sorted by a detail", () => {
  knowDetails(["kind", "rate"]);
  assert.deepEqual(["rate", "-kind", "since", "", "-state"].map(chooses), [true, true, false, false, false]);
});

test("a detail sorts numbers above texts, and rows without it last either way", () => {
  knowDetails(["kind", "rate"]);
  const rows = [
    { ...row("none"), details: [null, null] },
    { ...row("text"), details: [null, ["many", null]] },
    { ...row("small"), details: [null, ["7 /s", 7]] },
    { ...row("large"), details: [null, ["41,200 /s", 41200]] },
  ];
  assert.deepEqual(names(rows.toSorted(comparator("rate"))), ["large", "small", "text", "none"]);
  assert.deepEqual(names(rows.toSorted(comparator("-rate"))), ["text", "small", "large", "none"]);
});

test("a list becomes another with as few moves as can be", () => {
  const { come, go, move } = plan(["a", "b", "c", "d"], ["d", "a", "c", "e"]);
  assert.deepEqual({ come, go, move }, { come: ["e"], go: ["b"], move: ["d"] });
  assert.deepEqual(longestRising([3, 1, 2, 4]), [1, 2, 4]);
});
