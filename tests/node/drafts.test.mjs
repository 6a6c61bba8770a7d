import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { Drafts, fill, startDrafts, unanswered, valuesOf } from "../../static/js/shared/drafts.js";

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

// ---- the page's forms ----------------------------------------------------------------------------

const BOARD = "https://board/s/orders/";
const NOT_SENT = "Restored what you had typed. It has not been sent. ";
const PERHAPS_SENT = "Restored what you had typed. It may not have been sent: look before you send it again. ";

let events;

/** A form of a page, as a browser has it: a field hides the property of its name. */
function pageForm(attributes, ...fields) {
  const { drafts: data, ...others } = { method: "post", ...attributes };
  for (const each of fields) Object.assign(each, { focus() {}, dispatchEvent() {} });
  const made = {
    elements: fields,
    dataset: data ? { drafts: data } : {},
    lines: [],
    getAttribute: (name) => others[name] ?? null,
    hasAttribute: (name) => name in others,
    closest: () => null,
    addEventListener() {},
    getClientRects: () => [],
    prepend: (line) => made.lines.push(line.textContent),
  };
  for (const each of fields) Object.assign(made, { [each.name]: each });
  for (const each of fields) Object.assign(each, { form: made });
  return made;
}

/** A page with these forms is loaded. */
function load(forms, { how = "navigate", user = "7", refused = false, href = BOARD, late = 0 } = {}) {
  events = new EventTarget();
  const dataset = { user, ...(refused ? { refused: "" } : {}) };
  const global = {
    document: {
      forms,
      documentElement: { dataset },
      addEventListener: (kind, act) => events.addEventListener(kind, ({ detail }) => act(detail)),
      querySelectorAll: () => forms,
      createElement: () => ({ addEventListener() {}, append() {}, remove() {} }),
      getElementById: () => null,
    },
    location: { href },
    sessionStorage: storage,
    performance: { timeOrigin: Date.now() + late, getEntriesByType: () => [{ type: how, redirectCount: 0 }] },
  };
  for (const [name, value] of Object.entries(global)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  startDrafts();
}

/** The listeners are called with an event of these properties. */
const happen = (kind, event) => events.dispatchEvent(new CustomEvent(kind, { detail: event }));
const submit = (target) => happen("submit", { target, defaultPrevented: false });
const hidden = (name, value) => field(name, value, "hidden");

/** One types into the field and sends the form, and the login has ended. */
function sendWithoutLogin(sent, name, text) {
  load([sent]);
  sent.elements.find((each) => each.name === name).value = text;
  happen("input", { target: sent.elements.find((each) => each.name === name) });
  submit(sent);
  load([], { user: "", refused: true }); // the login
}

/** What a form's field has once the page is loaded with it. */
function shown(form, name, page = {}) {
  load(Array.isArray(form) ? form : [form], page);
  const last = Array.isArray(form) ? form.at(-1) : form;
  return last.elements.find((each) => each.name === name).value;
}

const ABOUT = {
  "an acknowledgement of another asset": ["asset", "a", "b"],
  "a filter of another scenario": ["scenario", "orders", "stock"],
  "another filter to be saved": ["q", "rack", "desk"],
  "another state to be saved": ["state", "up", "down"],
  "another request": ["action", "stop", "start"],
};

for (const [what, [name, before, after]] of Object.entries(ABOUT)) {
  test(`what was typed does not come back into ${what}`, () => {
    const about = (value) => pageForm({ action: "/send/" }, hidden("id", "1"), hidden(name, value), field("reason", ""));
    sendWithoutLogin(about(before), "reason", "it waits");
    const other = about(after);
    assert.equal(shown(other, "reason"), "");
    assert.equal(other[name].value, after);
    assert.deepEqual(other.lines, []);
    const same = about(before);
    assert.equal(shown([other, same], "reason"), "it waits");
    assert.deepEqual(same.lines, [NOT_SENT]);
  });
}

test("the query of a form's address, or of the page that it is sent to, tells forms apart", () => {
  const asked = (query) => pageForm({ action: `/send/?q=${query}` }, field("reason", ""));
  sendWithoutLogin(asked("a"), "reason", "it waits");
  assert.equal(shown(asked("b"), "reason"), "");
  assert.equal(shown(asked("a"), "reason"), "it waits");
  const own = () => pageForm({}, field("name", ""));
  assert.equal(shown(own(), "name", { href: `${BOARD}?q=b` }), "");
});

test("what is made anew with each page stays the page's, and what was seen comes back", () => {
  const of = (n) =>
    pageForm(
      { action: "/send/" },
      ...["csrfmiddlewaretoken", "id", "zone", "base", "revision", "seen", "sight"].map((name) => hidden(name, `${name} ${n}`)),
      field("reason", ""),
    );
  sendWithoutLogin(of(1), "reason", "it waits");
  const later = of(2);
  assert.equal(shown(later, "reason"), "it waits");
  assert.deepEqual(
    later.elements.map((each) => each.value),
    ["csrfmiddlewaretoken 2", "id 2", "zone 2", "base 2", "revision 1", "seen 1", "sight 1", "it waits"],
  );
});

test("a version does not come back without anything that was typed", () => {
  const of = (n, text) => pageForm({ action: "/send/" }, hidden("revision", n), field("name", text));
  sendWithoutLogin(of("1", ""), "name", "racks");
  const later = of("2", "racks");
  assert.equal(shown(later, "revision"), "2");
  assert.deepEqual(later.lines, []);
});

test("what confirms is given anew", () => {
  const of = () =>
    pageForm(
      { action: "/send/" },
      ...[box("confirm", "on", false), box("replace", "on", false), field("typed", ""), field("reason", "")],
      field("name", "", "text", { dataset: { drafts: "never" } }),
    );
  const sent = of();
  for (const each of sent.elements) Object.assign(each, each.type === "checkbox" ? { checked: true } : { value: "orders" });
  sendWithoutLogin(sent, "reason", "it waits");
  const later = of();
  assert.equal(shown(later, "reason"), "it waits");
  assert.deepEqual([later.confirm.checked, later.replace.checked, later.typed.value, later.name.value], [false, false, "", ""]);
  assert.doesNotMatch(stored.get("drafts"), /confirm|replace|typed|"name"/);
});

test("what was typed into the step that confirms comes back into the step before it", () => {
  const of = (...more) => pageForm({ action: "/purge/" }, ...more, field("reason", ""));
  sendWithoutLogin(of(hidden("confirm", "yes")), "reason", "it is gone");
  assert.equal(shown(of(), "reason"), "it is gone");
});

test("a script changes what a form is about as it is sent", () => {
  const of = (q) => pageForm({ action: "/save/" }, hidden("q", q), field("title", ""));
  const sent = of("");
  load([sent]);
  sent.title.value = "Racks";
  happen("input", { target: sent.title });
  sent.q.value = "rack";
  submit(sent);
  load([], { user: "", refused: true });
  assert.equal(shown(of(""), "title"), "");
  assert.equal(shown(of("rack"), "title"), "Racks");
});

const note = () => pageForm({ "action": "/note/", "hx-post": "/note/" }, field("text", ""));

/** What is said above the form once something has happened to it and the page is loaded again. */
function said(then, page = {}) {
  const sent = note();
  load([sent]);
  sent.text.value = "it waits";
  happen("input", { target: sent.text });
  then(sent);
  const later = note();
  load([later], page);
  return later.lines;
}

const answered = (status) => (elt) => {
  submit(elt);
  const detail = { elt, successful: status > 0 && status < 400, xhr: { status } };
  happen("htmx:afterRequest", { detail });
};

test("what was sent without an answer may have been sent, and so it is said", () => {
  const again = { how: "reload" };
  const cases = [
    [() => {}, again, [NOT_SENT]],
    [submit, again, [PERHAPS_SENT]], // sent, and back before the answer
    [submit, { how: "back_forward" }, [PERHAPS_SENT]],
    [submit, {}, [PERHAPS_SENT]], // another page meanwhile
    [submit, { refused: true }, [NOT_SENT]], // the answer itself
    [submit, { refused: true, late: 20_000 }, [PERHAPS_SENT]], // a page asked for later
    [answered(0), again, [PERHAPS_SENT]], // out of time, or unreached
    [answered(502), again, [PERHAPS_SENT]],
    [answered(401), again, [NOT_SENT]],
    [answered(403), again, [NOT_SENT]],
    [answered(200), again, []],
    [unanswered, again, [PERHAPS_SENT]], // as a script says
  ];
  for (const [then, page, words] of cases) {
    stored.clear();
    assert.deepEqual(said(then, page), words, `${then} ${JSON.stringify(page)}`);
  }
});

test("what may have been sent stays so until it is accepted", () => {
  said(submit, { how: "reload" });
  const later = note();
  load([later], { how: "reload" });
  assert.deepEqual(later.lines, [PERHAPS_SENT]);
  answered(403)(later);
  const last = note();
  load([last]);
  assert.deepEqual(last.lines, [PERHAPS_SENT]);
});
