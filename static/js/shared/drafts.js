// @ts-check
// What is typed into a form outlives a login that ended, and a form that was not accepted.
//
// In this tab, for this user, until the form is accepted. Passwords, codes, files and tokens are not
// stored, nor is a form or a field with `data-drafts="never"`, nor what confirms: that is given anew
// each time. What is typed into a form with `data-drafts="outlive"` also outlives other pages. Whoever
// logs out in this tab (`data-drafts="clear"`) leaves nothing behind in it.
//
// Hidden fields say what a form is about: an asset, a filter, stop or start. They belong to its key, so
// that what was typed about one thing never comes back about another.
import { announce } from "./announcements.js";

const STORAGE_KEY = "drafts";
const MAX_AGE_MS = 24 * 3_600_000;
const MAX_LENGTH = 200_000; // characters of one form: lists of names come from files
const ANSWER_MS = 2000; // the answer to a form is the page whose loading begins as the form is sent
const RESTORED = "Restored what you had typed.";
const NOT_SENT = `${RESTORED} It has not been sent.`;
const PERHAPS_SENT = `${RESTORED} It may not have been sent: look before you send it again.`;
const LOST = { lost: true, sent: false };
const SECRET_TYPES = ["password", "file", "submit", "button", "reset", "image"];
const SECRETS = ["one-time-code", "current-password", "new-password"];
const CONFIRMATIONS = ["confirm", "typed", "replace"];
// Hidden, and restored with what was typed: the server then tells of what changed since.
const VERSIONS = ["revision", "seen", "sight"];
// Hidden, and another with each loading of the same page: nothing that a form is about.
const OF_THE_PAGE = ["csrfmiddlewaretoken", "id", "zone", "base"];

/**
 * unanswered: it was sent at least once, and nobody knows what became of it.
 *
 * @typedef {Record<string, string[]>} Values by name of a field
 * @typedef {{user: string, at: number, values: Values, outlives: boolean, sent: boolean, lost: boolean, unanswered: boolean}} Draft
 */

/** What this tab stores of forms, by their keys. */
export class Drafts {
  /**
   * user: "" for nobody, of whom nothing is stored.
   *
   * @param {Pick<Storage, "getItem" | "setItem" | "removeItem">} storage
   * @param {string} user
   */
  constructor(storage, user) {
    this.storage = storage;
    this.user = user;
  }

  /**
   * A page has been loaded. How: `refused`, the login or the page of a refusal; `again`, by going back
   * or a reload; `answer`, which a form was answered with; `other`. begun: when its loading began.
   *
   * @param {"refused" | "again" | "answer" | "other"} how
   * @param {number} now
   * @param {number} begun
   */
  arrive(how, now, begun = now) {
    /** @type {Record<string, Draft>} */
    const left = {};
    for (const [key, draft] of Object.entries(this.read())) {
      if (now - draft.at >= MAX_AGE_MS || (this.user && draft.user !== this.user)) continue;
      const refused = how === "refused" && begun - draft.at < ANSWER_MS; // this page is the form's answer
      if (draft.sent && !refused) draft.unanswered = true;
      if (how === "refused" || how === "again" || (draft.sent && how === "other")) Object.assign(draft, LOST);
      if (draft.lost || (draft.outlives && !draft.sent)) left[key] = draft;
    }
    this.write(left);
  }

  /**
   * @param {string} key
   * @param {Partial<Draft>} changes
   */
  update(key, changes) {
    const drafts = this.read();
    const begun = { values: {}, outlives: false, sent: false, lost: false, unanswered: false };
    drafts[key] = { ...begun, ...drafts[key], ...changes, user: this.user };
    this.write(drafts);
  }

  /**
   * The form was sent, and not accepted, or not answered.
   *
   * @param {string} key
   * @param {boolean} unanswered
   */
  lose(key, unanswered = false) {
    const draft = this.read()[key];
    if (draft) this.update(key, { ...LOST, unanswered: draft.unanswered || unanswered });
  }

  /** @param {string} key */
  drop(key) {
    const { [key]: _, ...others } = this.read();
    this.write(others);
  }

  clear() {
    this.write({});
  }

  /**
   * What is to be put back into a form.
   *
   * @param {string} key
   * @returns {Values | undefined}
   */
  restorable(key) {
    const draft = this.user ? this.read()[key] : undefined;
    return draft && (draft.lost || draft.outlives) && !draft.sent ? draft.values : undefined;
  }

  /**
   * What is said of that.
   *
   * @param {string} key
   */
  words(key) {
    return this.read()[key]?.unanswered ? PERHAPS_SENT : NOT_SENT;
  }

  /** @returns {Record<string, Draft>} */
  read() {
    try {
      return JSON.parse(this.storage.getItem(STORAGE_KEY) ?? "{}");
    } catch {
      return {}; // no storage
    }
  }

  /** @param {Record<string, Draft>} drafts */
  write(drafts) {
    try {
      if (Object.keys(drafts).length) this.storage.setItem(STORAGE_KEY, JSON.stringify(drafts));
      else this.storage.removeItem(STORAGE_KEY);
    } catch {
      // No storage, or it is full: what is typed holds for this page.
    }
  }
}

/** Whether what is typed into a field may be stored. */
function isStorable(field) {
  if (!field.name || SECRET_TYPES.includes(field.type) || SECRETS.includes(field.autocomplete)) return false;
  if (field.type === "hidden") return VERSIONS.includes(field.name);
  return !CONFIRMATIONS.includes(field.name) && field.dataset?.drafts !== "never";
}

/** Whether a field says what its form is about. */
function isSubject({ name, type }) {
  return type === "hidden" && name && ![...VERSIONS, ...OF_THE_PAGE, ...CONFIRMATIONS].includes(name);
}

/**
 * A form's address, what it is about, and its name or its place among those that are alike.
 *
 * @param {any} form
 * @param {any[]} forms those of the page
 * @param {string} page its address
 */
function keyOf(form, forms, page) {
  const kind = kindOf(form, page);
  const name = form.getAttribute("id"); // form.id is the field of this name where there is one
  return `${kind} ${name || forms.filter((each) => kindOf(each, page) === kind).indexOf(form)}`;
}

function kindOf(form, page) {
  const { pathname, search } = new URL(form.getAttribute("action") ?? form.getAttribute("hx-post") ?? "", page);
  const subject = Array.from(form.elements).filter(isSubject);
  return pathname + search + (subject.length ? ` ${JSON.stringify(subject.map(({ name, value }) => [name, value]))}` : "");
}

/**
 * The values of a form's fields that may be stored.
 *
 * @param {any} form
 * @returns {Values}
 */
export function valuesOf(form) {
  /** @type {Values} */
  const values = {};
  for (const field of form.elements) {
    if (!isStorable(field)) continue;
    const given = (values[field.name] ??= []);
    if (field.type === "checkbox" || field.type === "radio") given.push(...(field.checked ? [field.value] : []));
    else if (field.type === "select-multiple") given.push(...Array.from(field.selectedOptions, (option) => option.value));
    else given.push(field.value);
  }
  return values;
}

/**
 * Put values into a form's fields. Returns those that it changed.
 *
 * @param {any} form
 * @param {Values} values
 */
export function fill(form, values) {
  const left = structuredClone(values);
  const changed = [];
  for (const field of form.elements) {
    if (!isStorable(field) || !left[field.name]) continue;
    const before = JSON.stringify(valuesOf({ elements: [field] }));
    put(field, left[field.name]);
    if (JSON.stringify(valuesOf({ elements: [field] })) !== before) changed.push(field);
  }
  return changed;
}

/** Give a field its part of the values of its name. */
function put(field, values) {
  if (field.type === "checkbox" || field.type === "radio") field.checked = values.includes(field.value);
  else if (field.type === "select-multiple") {
    for (const option of field.options) option.selected = values.includes(option.value);
  } else if (values.length) field.value = values.shift();
}

// ---- the page's forms ----------------------------------------------------------------------------

const keys = new WeakMap(); // the form, and the key of what is typed into it
let drafts = new Drafts(/** @type {any} */ ({}), "");

/** Store what is typed into the page's forms, and put back what was lost. */
export function startDrafts() {
  const { user = "" } = document.documentElement.dataset;
  drafts = new Drafts(storage(), user);
  drafts.arrive(arrival(), Date.now(), performance.timeOrigin);
  document.addEventListener("input", ({ target }) => save(/** @type {any} */ (target).form));
  document.addEventListener("submit", sending);
  document.addEventListener("htmx:load", (event) => restoreIn(/** @type {any} */ (event).detail.elt));
  document.addEventListener("htmx:afterRequest", (event) => {
    const { elt, successful, xhr } = /** @type {any} */ (event).detail;
    if (successful) accepted(elt);
    else if (xhr.status >= 400 && xhr.status < 500) refused(elt);
    else unanswered(elt);
  });
  restoreIn(document);
}

/** How this page came. */
function arrival() {
  const { user, refused, reload } = document.documentElement.dataset;
  const [navigation] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
  if (!user || refused !== undefined) return "refused";
  if (navigation?.type !== "navigate") return "again";
  return navigation.redirectCount || reload !== undefined ? "answer" : "other";
}

/** What this tab stores; nothing where the browser forbids it. */
function storage() {
  try {
    return sessionStorage;
  } catch {
    return /** @type {any} */ ({});
  }
}

/**
 * A form was accepted: what was typed into it is stored no longer.
 *
 * @param {any} form
 */
export function accepted(form) {
  if (keys.has(form)) drafts.drop(keys.get(form));
}

function refused(form) {
  if (keys.has(form)) drafts.lose(keys.get(form));
}

/**
 * A form was sent, and nobody knows whether it was accepted.
 *
 * @param {any} form
 */
export function unanswered(form) {
  if (keys.has(form)) drafts.lose(keys.get(form), true);
}

function sending(event) {
  const form = event.target;
  if (form.dataset.drafts === "clear") drafts.clear();
  if (event.defaultPrevented && !form.hasAttribute("hx-post")) return; // a script sends it, or nobody
  if (save(form)) drafts.update(keys.get(form), { sent: true, lost: false });
}

/** Store what is typed into a form, if it is one of those. Returns whether it is. */
function save(form) {
  if (!drafts.user || !isDrafted(form)) return false;
  const [before, key, values] = [keys.get(form), renewKey(form), valuesOf(form)];
  if (before !== undefined && before !== key) drafts.drop(before); // a script has changed what it is about
  if (key.length + JSON.stringify(values).length > MAX_LENGTH) return false;
  drafts.update(key, { values, at: Date.now(), sent: false, outlives: form.dataset.drafts === "outlive" });
  return true;
}

/** Whether a form changes something, and somebody types into it. */
function isDrafted(form) {
  const posts = form?.getAttribute("method")?.toLowerCase() === "post" || form?.hasAttribute("hx-post");
  if (!posts || ["never", "clear"].includes(form.dataset.drafts)) return false;
  return Array.from(form.elements).some((field) => isStorable(field) && field.type !== "hidden");
}

/** The key of a form as it is now, which is remembered with the form. */
function renewKey(form) {
  const key = keyOf(form, Array.from(document.forms), location.href);
  keys.set(form, key);
  return key;
}

function restoreIn(part) {
  const inside = Array.from(part.querySelectorAll("form"));
  for (const form of part.matches?.("form") ? [part, ...inside] : inside) if (isDrafted(form)) restore(form);
}

/** Put back what was typed into a form, and say so. */
function restore(form) {
  const key = renewKey(form);
  const values = drafts.restorable(key);
  const words = drafts.words(key);
  const before = valuesOf(form);
  const changed = values ? fill(form, values) : [];
  if (!changed.some((field) => field.type !== "hidden")) {
    fill(form, before); // the version of what the page shows
    return;
  }
  for (let details = form.closest("details"); details; details = details.parentElement.closest("details")) details.open = true;
  const line = Object.assign(document.createElement("p"), { className: "restored", textContent: `${words} ` });
  const discard = Object.assign(document.createElement("button"), { type: "button", textContent: "Discard" });
  discard.addEventListener("click", () => {
    fill(form, before);
    accepted(form);
    line.remove();
    announce("Discarded");
    changed.find((field) => field.type !== "hidden").focus();
  });
  line.append(discard);
  form.prepend(line);
  form.addEventListener("submit", () => line.remove());
  if (form.getClientRects().length) announce(words); // else in a dialog that is not open
  for (const field of changed) field.dispatchEvent(new Event("change", { bubbles: true }));
}
