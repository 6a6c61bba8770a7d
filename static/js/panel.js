// The panel of one asset: opened beside the table, its facts renewed as it changes.
/* global htmx */
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
    htmx.ajax("GET", part, { target: "#facts", swap: "outerHTML" }).catch(() => {});
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
    try {
      await htmx.ajax("GET", url, { target: this.box, swap: "innerHTML" });
    } catch {
      location.assign(url);
      return;
    }
    if (this.asset !== asset) return;
    this.show(true);
    this.address();
    this.box.scrollTop = 0;
    document.getElementById("panel-title")?.focus({ preventScroll: true });
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
