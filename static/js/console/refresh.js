// @ts-check
// Parts of a page that renew themselves.
//
// `<div data-refresh="<url>" data-every="2" data-now="<Unix ms>">`: every so many seconds the
// address is asked for this element once more, and what has changed is changed in place, so that
// focus, selection, scroll and order stay. Children that come and go have a `data-key`; those without
// one beside them are told apart by tag and place. What has `data-keep` is left alone, and so is whether a `<details>` is open. Nothing
// is asked for while the tab is hidden, or the element has `data-paused`. That the server cannot be
// reached is said in the header and at the bottom of the page.
import { correct, freeze, localise, now, timeAt } from "../shared/clock.js";
import { showStatus } from "../shared/status.js";

const PATIENCE_MS = 10_000;
const cut = new Set(); // regions that the server did not answer last
let since = 0;

/**
 * Let every region of the page renew itself. onRenewed(region): after each time.
 *
 * @param {(region: HTMLElement) => void} onRenewed
 */
export function startRefresh(onRenewed) {
  for (const element of document.querySelectorAll("[data-refresh]")) {
    new Region(element, onRenewed).start();
  }
}

class Region {
  constructor(element, onRenewed) {
    this.element = element;
    this.onRenewed = onRenewed;
    this.timer = 0;
    this.asking = false;
  }

  start() {
    correct(Number(this.element.dataset.now) || now());
    document.addEventListener("visibilitychange", () => document.hidden || this.ask());
    window.addEventListener("online", () => this.ask());
    show("live");
    this.askLater();
  }

  askLater() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), 1000 * Number(this.element.dataset.every));
  }

  async ask() {
    if (document.hidden || this.asking) return; // asked again once it is seen
    if ("paused" in this.element.dataset) {
      this.askLater();
      return;
    }
    this.asking = true;
    try {
      const signal = AbortSignal.timeout(PATIENCE_MS);
      const headers = { "HX-Request": "true" };
      await this.take(await fetch(this.element.dataset.refresh, { headers, signal }));
    } catch {
      this.fail(navigator.onLine ? "reconnecting" : "offline");
    }
    this.asking = false;
    this.askLater();
  }

  async take(response) {
    if (response.status === 401) location.reload(); // to the login, and back here
    else if (response.status === 403) this.fail("ended", "not allowed any more");
    else if (response.ok) this.renew(await response.text());
    else throw new Error(`status ${response.status}`);
  }

  renew(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = /** @type {HTMLElement} */ (page.body.firstElementChild);
    correct(Number(fresh.dataset.now) || now());
    renew(this.element, fresh);
    localise();
    this.onRenewed(this.element);
    this.element.dispatchEvent(new CustomEvent("renewed", { bubbles: true }));
    cut.delete(this);
    if (!cut.size) show("live");
  }

  fail(state, reason) {
    if (!cut.size) since = Date.now();
    cut.add(this);
    show(state, reason);
  }
}

function show(state, reason) {
  const well = state === "live";
  const line = document.getElementById("cut-off");
  showStatus(state, since, reason);
  freeze(!well);
  document.body.classList.toggle("stale", !well);
  if (line.hidden === well) return;
  line.hidden = well;
  if (well) line.replaceChildren();
  else line.append("Cut off from the server since ", timeAt(since + now() - Date.now()), TODO);
}

const TODO = ". Figures are as of then; retrying.";

/**
 * Make `old` what `fresh` is, changing nothing that is the same.
 *
 * @param {any} old an element or a text node of the page
 * @param {any} fresh
 */
export function renew(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data && !selected(old)) old.data = fresh.data;
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE || "keep" in old.dataset || sameTime(old, fresh)) return;
  renewAttributes(old, fresh);
  if ([...fresh.children, ...old.children].some((child) => child.dataset.key)) renewKeyed(old, fresh);
  else renewInOrder(old, fresh);
}

/** What somebody is about to copy stays until the selection is gone. */
function selected(node) {
  const selection = getSelection();
  return !selection.isCollapsed && selection.containsNode(node, true);
}

/** A moment that is shown in the viewer's zone already. */
function sameTime(old, fresh) {
  return "local" in old.dataset && old.dataset.at && old.dataset.at === fresh.dataset.at;
}

function renewAttributes(old, fresh) {
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const name of old.getAttributeNames()) {
    if (!fresh.hasAttribute(name) && !OURS.has(name)) old.removeAttribute(name);
  }
}

const OURS = new Set(["open", "title", "data-paused"]); // set in the browser

function renewKeyed(old, fresh) {
  const [there, next] = [byKey(old), byKey(fresh)];
  for (const [key, child] of there) if (!next.has(key)) child.remove();
  let before = null;
  let place = 0;
  for (const [key, child] of next) {
    let here = there.get(key);
    if (here) {
      renew(here, child);
    } else {
      here = document.adoptNode(child);
      old.insertBefore(here, before ? before.nextSibling : old.firstChild);
    }
    here.place = place++; // the server's order, which table-sort.js goes by
    before = here;
  }
}

/** An element's children by key; those without one by tag, and place among these. */
function byKey(parent) {
  const children = new Map();
  const counts = new Map();
  for (const child of parent.children) {
    const count = counts.get(child.nodeName) ?? 0;
    if (!child.dataset.key) counts.set(child.nodeName, count + 1);
    children.set(child.dataset.key || `${child.nodeName} ${count}`, child);
  }
  return children;
}

function renewInOrder(old, fresh) {
  const [there, next] = [[...old.childNodes], [...fresh.childNodes]];
  next.forEach((child, at) => {
    if (at >= there.length) old.append(document.adoptNode(child));
    else if (there[at].nodeName === child.nodeName) renew(there[at], child);
    else there[at].replaceWith(document.adoptNode(child));
  });
  for (const rest of there.slice(next.length)) rest.remove();
}
