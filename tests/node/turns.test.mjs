import assert from "node:assert/strict";
import { test } from "node:test";

import { turnsOf } from "../../static/js/board/turns.js";

/** A wall with room for so many tiles; the line of what is good takes the room of one. */
const wall = (room) => (tiles, rest) => tiles.length + Number(rest) <= room;
const turns = (unhandled, others, room) => {
  const { rest, pages } = turnsOf([...unhandled], [...others], wall(room));
  return { rest, pages: pages.map((page) => page.join("")) };
};

test("what fits is one page, with what is good", () => {
  assert.deepEqual(turns("AB", "cd", 5), { rest: true, pages: ["ABcd"] });
  assert.deepEqual(turns("", "", 1), { rest: true, pages: [""] });
});

test("unhandled ones stay while the others take turns", () => {
  assert.deepEqual(turns("AB", "cdefg", 5), { rest: true, pages: ["ABcd", "ABef", "ABg"] });
});

test("what is good has no place where unhandled ones have not", () => {
  assert.deepEqual(turns("ABCDE", "f", 3), { rest: false, pages: ["ABC", "DEf"] });
  assert.deepEqual(turns("ABC", "", 3), { rest: false, pages: ["ABC"] });
});

test("a tile that does not fit by itself has a page all the same", () => {
  assert.deepEqual(turns("AB", "", 0), { rest: false, pages: ["A", "B"] });
});

test("every tile has its turn, and none is good while an unhandled one waits", () => {
  for (let unhandled = 0; unhandled < 9; unhandled++) {
    for (let others = 0; others < 9; others++) {
      for (let room = 0; room < 12; room++) {
        const [mine, rest] = ["ABCDEFGHI".slice(0, unhandled), "abcdefghi".slice(0, others)];
        const told = turns(mine, rest, room);
        assert.deepEqual([...new Set(told.pages.join(""))].sort(), [...mine, ...rest].sort());
        if (told.rest) assert.ok(told.pages.every((page) => page.startsWith(mine)));
      }
    }
  }
});
