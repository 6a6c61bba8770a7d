import assert from "node:assert/strict";
import { test } from "node:test";

import { walker } from "../../static/js/board/shortcuts.js";

/** Rows in a table, by name; a capital letter is unhandled. */
function table(names) {
  const rows = [...names].map((name) => {
    const row = { name, contains: (other) => other?.row === row, scrollIntoView() {} };
    row.link = { row, closest: () => row, focus: () => (globalThis.document.activeElement = row.link) };
    return row;
  });
  globalThis.document = { activeElement: null };
  const walk = walker({
    querySelectorAll: () => rows.map(({ link }) => link),
    querySelector: () => null,
    contains: () => true,
  });
  const unhandled = ({ name }) => name === name.toUpperCase();
  return (by) => walk.seek(by, unhandled) && globalThis.document.activeElement.row.name;
}

test("the next unhandled row is sought either way, round and round", () => {
  const seek = table("aBcDe");
  assert.deepEqual([seek(1), seek(1), seek(1), seek(-1), seek(-1)], ["B", "D", "B", "D", "B"]);
});

test("from nowhere it begins at the end that is nearest", () => {
  assert.equal(table("AbC")(1), "A");
  assert.equal(table("AbC")(-1), "C");
});

test("a table without any says so", () => {
  assert.equal(table("abc")(1), false);
  assert.equal(table("")(1), false);
});
