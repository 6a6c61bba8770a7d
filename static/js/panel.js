// The panel of one asset: opened beside the table, its facts renewed as it changes.
/* global htmx */
import { isolated } from "./marks.js";
import { followRecords } from "./record.js";

const PAUSE_MS = 400; // an asset may change many times a second
const AGAIN_MS = 1200; // by then the history is in the database too

/** Renew the facts, and only them: a form being typed in stays as it is. */
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

export class Panel {
  /** onChoose(asset or null): which asset's panel is open. */
  constructor(box, main, onChoose) {
    this.box = box;
    this.main = main;
    this.onChoose = onChoose;
    this.asset = document.getElementById("facts")?.dataset.asset ?? null;
    this.opener = null;
    box.addEventListener("click", (event) => {
      if (event.target.closest("#panel-close")) this.close();
    });
  }

  async open(asset, url, opener) {
    this.asset = asset;
    this.opener = opener;
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
    this.address();
    this.box.scrollTop = 0;
    document.getElementById("panel-title")?.focus({ preventScroll: true });
  }

  /** No answer, or none of this asset: say so, and offer to ask again. */
  miss(asset, url) {
    const title = Object.assign(document.createElement("h2"), { id: "panel-title", tabIndex: -1 });
    title.className = "panel-title";
    title.textContent = isolated(asset);
    const words = Object.assign(document.createElement("p"), { className: "note" });
    words.setAttribute("role", "alert");
    words.textContent = "The server did not answer, so nothing can be shown of it.";
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
    const back = this.opener;
    this.asset = null;
    this.show(false);
    this.box.replaceChildren();
    this.address();
    this.onChoose(null);
    if (back?.isConnected) back.focus({ preventScroll: true });
  }

  show(open) {
    this.box.hidden = !open;
    this.main.classList.toggle("with-panel", open);
  }

  address() {
    const url = new URL(location.href);
    if (this.asset === null) url.searchParams.delete("asset");
    else url.searchParams.set("asset", this.asset);
    history.replaceState(null, "", url);
  }
}
