import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Drafts, fill, valuesOf } from "../../static/js/shared/drafts.js";

const FORM = "/handover/shift/text/ 0";
const TYPED = { text: ["all quiet"] };
const DAY_MS = 24 * 3_600_000;

let stored;
let drafts;

const storage = {
  getItem: (name) => stored.get(name) ?? null,
  setItem: (name, value) => stored.set(name, value),
  removeItem: (name) => stored.delete(name),
};

/** A page of this user is loaded. */
function arrive(how, user = "7", now = 0) {
  drafts = new Drafts(storage, user);
  drafts.arrive(how, now);
}

function type(more = {}) {
  drafts.update(FORM, { values: TYPED, at: 0, ...more });
}

function send() {
  type();
  drafts.update(FORM, { sent: true, lost: false });
}

beforeEach(() => {
  stored = new Map();
  arrive("other");
});

test("what was sent without a login is put back once there is one, and until it is accepted", () => {
  send();
  arrive("refused", ""); // the login
  assert.equal(drafts.restorable(FORM), undefined);
  arrive("refused", ""); // its second step
  arrive("answer"); // what the login leads to
  assert.deepEqual(drafts.restorable(FORM), TYPED);
  arrive("other"); // another page first
  assert.deepEqual(drafts.restorable(FORM), TYPED);
  send();
  assert.equal(drafts.restorable(FORM), undefined);
  arrive("answer");
  assert.equal(stored.size, 0);
});

for (const how of ["refused", "again", "other"]) {
  test(`what was sent and not answered is put back: ${how}`, () => {
    send();
    arrive(how);
    arrive("other");
    assert.deepEqual(drafts.restorable(FORM), TYPED);
  });
}

test("what was typed before the login ended, or the page was loaded again, is put back", () => {
  for (const how of ["refused", "again"]) {
    type();
    arrive(how, "7");
    assert.deepEqual(drafts.restorable(FORM), TYPED);
    drafts.drop(FORM);
  }
});

test("a form that a script sends is lost or accepted as the script says", () => {
  send();
  drafts.lose(FORM);
  drafts.lose("/another/ 0");
  assert.deepEqual(drafts.restorable(FORM), TYPED);
  drafts.drop(FORM);
  assert.equal(stored.size, 0);
});

test("what was left alone does not come back", () => {
  for (const how of ["other", "answer"]) {
    type();
    arrive(how);
    assert.equal(stored.size, 0);
  }
});

test("a text that outlives other pages is stored until it is sent", () => {
  type({ outlives: true });
  arrive("other");
  arrive("answer");
  assert.deepEqual(drafts.restorable(FORM), TYPED);
  drafts.update(FORM, { sent: true });
  arrive("answer");
  assert.equal(stored.size, 0);
});

test("another user finds nothing, nor does anybody after a logout, or a day later", () => {
  type();
  arrive("refused", "");
  arrive("answer", "8");
  assert.equal(stored.size, 0);
  type();
  drafts.clear();
  assert.equal(stored.size, 0);
  type();
  arrive("refused", "");
  arrive("answer", "7", DAY_MS);
  assert.equal(stored.size, 0);
});

test("without a storage nothing is stored, and nothing fails", () => {
  const without = new Drafts(/** @type {any} */ ({}), "7");
  without.arrive("other", 0);
  without.update(FORM, { values: TYPED });
  assert.equal(without.restorable(FORM), undefined);
});

const field = (name, value, type = "text", more = {}) => ({ name, value, type, ...more });
const box = (name, value, checked) => field(name, value, "checkbox", { checked });

function choice(name, chosen) {
  const options = ["up", "down"].map((value) => ({ value, selected: chosen.includes(value) }));
  const type = "select-multiple";
  return { name, type, options, get selectedOptions() { return options.filter((each) => each.selected); } }; // prettier-ignore
}

const form = (text, ...boxes) => ({
  elements: [
    field("csrfmiddlewaretoken", text, "hidden"),
    field("text", text, "textarea"),
    field("revision", text, "hidden"),
    field("secret", text, "password"),
    field("code", text, "text", { autocomplete: "one-time-code" }),
    field("file", text, "file"),
    field("do", text, "submit"),
    field("name", text),
    field("name", `${text} too`),
    box("day", "1", boxes.includes("1")),
    box("day", "2", boxes.includes("2")),
    choice("state", boxes),
  ],
});

test("neither tokens nor passwords, codes and files are stored", () => {
  assert.deepEqual(valuesOf(form("a", "2", "down")), {
    ...{ text: ["a"], revision: ["a"], name: ["a", "a too"], day: ["2"], state: ["down"] },
  });
});

test("values come back into the fields of their names, and those that changed are told", () => {
  const there = form("b", "1", "up");
  const changed = fill(there, valuesOf(form("a", "2", "down")));
  assert.deepEqual(valuesOf(there), valuesOf(form("a", "2", "down")));
  assert.deepEqual(
    changed.map((each) => each.name),
    ["text", "revision", "name", "name", "day", "day", "state"],
  );
  assert.equal(there.elements[0].value, "b");
  assert.deepEqual(fill(there, valuesOf(there)), []);
});
