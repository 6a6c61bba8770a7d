// @ts-check
// The panel of one asset: opened beside the table, its facts renewed as it changes.
/* global htmx */
import { advance, retreat, rewrite, rewriteAs } from "./address.js";
import { isolated } from "./badges.js";
import { followRecords } from "./record.js";

const PAUSE_MS = 400; // an asset may change many times a second
const AGAIN_MS = 1200; // by then the history is in the database too

/**
 * Renew the facts, and only them: a form being typed in stays as it is.
 *
 * @returns {() => void} renews them, at most once in a while
 */
export function followFacts() {
  let soon = 0;
  let later = 0;
  let last = 0;
  followRecords();
  const renew = () => {
    soon = 0;
    last = Date.now();
    const facts = document.getElementById("facts");
    if (!facts) return;
    const { url, before } = facts.dataset;
    const part = `${url}?part=facts${before ? `&before=${before}` : ""}`;
    // With itself as the source: requests of one source wait for each other, and the last one wins.
    htmx.ajax("GET", part, { source: facts, target: facts, swap: "outerHTML" }).catch(() => {});
  };
  return () => {
    soon ||= setTimeout(renew, Math.max(0, last + PAUSE_MS - Date.now()));
    clearTimeout(later);
    later = setTimeout(renew, AGAIN_MS);
  };
}

/** The facts that were asked for are not needed any more. */
function abortFacts() {
  const facts = document.getElementById("facts");
  if (facts) htmx.trigger(facts, "htmx:abort");
}

export class Panel {
  /**
   * onChoose(asset or null): which asset's panel is open.
   *
   * @param {HTMLElement} box
   * @param {HTMLElement} main
   * @param {(asset: string | null) => void} onChoose
   */
  constructor(box, main, onChoose) {
    this.box = box;
    this.main = main;
    this.onChoose = onChoose;
    this.asset = document.getElementById("facts")?.dataset.asset ?? null;
    this.opener = null;
    box.addEventListener("click", (event) => {
      const target = /** @type {Element} */ (event.target);
      if (target.closest("#panel-close")) this.close();
      if (target.closest(".to-commands")) this.toCommands(event);
    });
    // What comes beside the facts goes by its id: of an asset that is left nothing may come any more.
    box.addEventListener("htmx:beforeSwap", (/** @type {CustomEvent} */ { detail }) => {
      if (detail.target === box) abortFacts();
    });
  }

  /**
   * Show an asset's panel. Where none was open it is a step of the browser's, so that going back
   * closes it; stepped: the browser has made that step itself.
   */
  async open(asset, url, opener, stepped = false) {
    const further = this.asset === null && !stepped;
    this.asset = asset;
    this.opener = opener;
    if (further) advance((query) => query.set("asset", asset));
    else rewrite((query) => query.set("asset", asset));
    this.onChoose(asset);
    htmx.trigger(this.box, "htmx:abort"); // what was asked for before
    try {
      await htmx.ajax("GET", url, { source: this.box, target: this.box, swap: "innerHTML" });
    } catch {
      // It is said below: the board stays.
    }
    if (this.asset !== asset) return;
    if (document.getElementById("facts")?.dataset.asset !== asset) this.miss(asset, url);
    this.show(true);
    document.getElementById("panel-title")?.focus({ preventScroll: true });
  }

  /** To the commands, by scrolling the panel alone: the board stays where it is. */
  toCommands(event) {
    event.preventDefault();
    const [body, forms] = ["panel-body", "panel-commands"].map((id) => document.getElementById(id));
    body.scrollTop += forms.getBoundingClientRect().top - body.getBoundingClientRect().top;
    const offered = [...forms.querySelectorAll("summary")].find((each) => each.getClientRects().length);
    offered?.focus({ preventScroll: true });
  }

  /** No answer, or none of this asset: say so, and offer to ask again. */
  miss(asset, url) {
    const title = Object.assign(document.createElement("h2"), { id: "panel-title", tabIndex: -1 });
    title.className = "panel-title";
    title.textContent = isolated(asset);
    const words = Object.assign(document.createElement("p"), { className: "note" });
    words.setAttribute("role", "alert");
    words.textContent = "The server did not answer, so this cannot be shown.";
    const again = Object.assign(document.createElement("button"), { type: "button" });
    again.textContent = "Try again";
    again.addEventListener("click", () => this.open(asset, url, this.opener));
    const close = Object.assign(document.createElement("button"), { type: "button" });
    close.id = "panel-close";
    close.className = "quiet";
    close.textContent = "Close";
    const actions = Object.assign(document.createElement("p"), { className: "actions" });
    actions.append(again, close);
    const missing = Object.assign(document.createElement("div"), { className: "panel-missing" });
    missing.append(title, words, actions);
    this.box.replaceChildren(missing);
  }

  close() {
    if (this.asset === null) return;
    retreat((query) => query.delete("asset"));
    this.leave();
  }

  /** Put the panel away, whoever asked for it. */
  leave() {
    const back = this.opener;
    this.asset = null;
    this.show(false);
    abortFacts();
    this.box.replaceChildren();
    this.onChoose(null);
    if (back?.isConnected) back.focus({ preventScroll: true });
  }

  show(open) {
    this.box.hidden = !open;
    this.main.classList.toggle("with-panel", open);
  }

  /** The browser went back or forth: the panel follows, all else stays as it is. */
  follow(urlOf) {
    const asset = new URL(location.href).searchParams.get("asset");
    rewriteAs((query) => (asset === null ? query.delete("asset") : query.set("asset", asset)));
    if (asset === this.asset) return;
    if (asset === null) this.leave();
    else this.open(asset, urlOf(asset), this.opener, true);
  }
}
