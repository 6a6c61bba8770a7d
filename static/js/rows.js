// The table's rows: what is known, and what is shown of it.
//
// Cells change in place at any time. Rows come, go and move only while neither the pointer nor the
// focus is in the table; until then what waits is counted.
import { ticking } from "./clock.js";
import * as marks from "./marks.js";
import { byOrder, plan } from "./order.js";

const TOUCHED_MS = 1500;

const CELLS = {
  "col-state": (row) => [marks.state(row.state), ...marks.badges(row)],
  "col-since": (row) => [ticking("since", row.since)],
  "col-votes": (row) => [marks.votes(row)],
  "col-pending": (row) => marks.pending(row),
  "col-cause": (row) => [marks.cause(row)],
};

export class Rows {
  /** onShown(): after rows came, went or moved; onWaiting(n): how many changes wait. */
  constructor(tbody, template, limit, { onShown, onWaiting }) {
    this.tbody = tbody;
    this.template = template;
    this.limit = limit;
    this.onShown = onShown;
    this.onWaiting = onWaiting;
    this.known = new Map();
    this.lines = new Map();
    this.full = false;
    this.inside = false;
    this.touchedAt = 0;
    this.matches = () => true;
    this.frame = 0;
    this.chosen = null;
    for (const tr of tbody.rows) this.lines.set(tr.dataset.asset, tr);
    this.guard();
  }

  guard() {
    const { tbody } = this;
    tbody.addEventListener("pointerenter", (event) => {
      this.inside = event.pointerType !== "touch";
    });
    tbody.addEventListener("pointerleave", () => {
      this.inside = false;
      this.soon();
    });
    tbody.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch") this.inside = true;
    });
    tbody.addEventListener(
      "touchstart",
      () => {
        this.touchedAt = Date.now();
        setTimeout(() => this.soon(), TOUCHED_MS + 50);
      },
      { passive: true },
    );
    tbody.addEventListener("focusout", () => this.soon());
    document.documentElement.addEventListener("pointerleave", () => {
      this.inside = false;
      this.soon();
    });
  }

  /** Whether rows must stay where they are. */
  held() {
    return (
      this.inside ||
      this.tbody.contains(document.activeElement) ||
      Date.now() - this.touchedAt < TOUCHED_MS
    );
  }

  /** Everything the server knows that matches; what is not in it is gone. */
  snapshot(rows) {
    const before = this.known;
    this.known = new Map();
    for (const row of rows) {
      const old = before.get(row.asset);
      this.known.set(row.asset, old && old.version > row.version ? old : row);
    }
    this.refresh(rows.map((row) => row.asset));
    for (const asset of before.keys()) if (!this.known.has(asset)) this.mark(asset);
    if (!this.full) {
      this.full = true;
      for (const asset of this.lines.keys()) if (!this.known.has(asset)) this.mark(asset);
    }
    this.soon();
  }

  /** Newer rows, and assets that are gone with the version at which they went. */
  change(rows, gone) {
    const changed = [];
    for (const row of rows) {
      const old = this.known.get(row.asset);
      if (old && old.version >= row.version) continue;
      this.known.set(row.asset, row);
      changed.push(row.asset);
    }
    for (const [asset, version] of gone) {
      const old = this.known.get(asset);
      if (!old || old.version > version) continue;
      this.known.delete(asset);
      this.mark(asset);
    }
    this.refresh(changed, true);
    this.soon();
  }

  /** Show only what `matches(row)`; at once, because the user asked for it. */
  narrow(matches) {
    this.matches = matches;
    if (this.full) this.arrange();
  }

  mark(asset) {
    this.lines.get(asset)?.classList.add("leaving");
  }

  refresh(assets, visibly = false) {
    for (const asset of assets) {
      const tr = this.lines.get(asset);
      const row = this.known.get(asset);
      if (!tr || !row || tr.dataset.version === row.version) continue;
      const moved = tr.dataset.state !== undefined && tr.dataset.state !== row.state;
      this.fill(tr, row);
      if (visibly && moved) this.flash(tr);
    }
  }

  fill(tr, row) {
    tr.dataset.asset = row.asset;
    tr.dataset.version = row.version;
    tr.dataset.state = row.state;
    const kept = ["chosen", "fresh"].filter((name) => tr.classList.contains(name));
    tr.className = [`s${row.severity}`, `c-${row.colour}`, ...kept].join(" ");
    const link = tr.querySelector(".asset");
    if (link.textContent !== row.asset) {
      link.textContent = row.asset;
      link.title = row.asset;
      link.setAttribute("href", row.url);
    }
    for (const [name, make] of Object.entries(CELLS)) {
      tr.querySelector(`.${name}`).replaceChildren(...make(row));
    }
  }

  flash(tr) {
    tr.classList.remove("fresh");
    requestAnimationFrame(() => tr.classList.add("fresh"));
  }

  soon() {
    if (!this.full || this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.settle();
    });
    if (document.hidden) {
      cancelAnimationFrame(this.frame);
      this.frame = 0;
      this.settle();
    }
  }

  settle() {
    if (this.held()) this.onWaiting(this.waiting());
    else this.arrange();
  }

  /** How many rows wait to come, go or move. */
  waiting() {
    const { come, go, move } = this.plan(this.wanted());
    return come.length + go.length + move.length;
  }

  /** Bring rows to their places now, whatever is under the pointer. */
  arrange() {
    const wanted = this.wanted();
    const { come, go, move } = this.plan(wanted);
    for (const asset of go) {
      this.lines.get(asset).remove();
      this.lines.delete(asset);
    }
    for (const asset of come) this.add(this.known.get(asset));
    const out = new Set([...come, ...move]);
    let after = null; // from the end, so that what comes next is in place already
    for (const { asset } of wanted.reverse()) {
      const tr = this.lines.get(asset);
      if (out.has(asset)) this.tbody.insertBefore(tr, after);
      after = tr;
    }
    this.onWaiting(0);
    this.onShown();
  }

  wanted() {
    return [...this.known.values()].filter(this.matches).sort(byOrder).slice(0, this.limit);
  }

  plan(wanted) {
    const shown = Array.from(this.tbody.rows, (tr) => tr.dataset.asset);
    return plan(
      shown,
      wanted.map((row) => row.asset),
    );
  }

  add(row) {
    const tr = this.template.content.firstElementChild.cloneNode(true);
    this.fill(tr, row);
    this.lines.set(row.asset, tr);
    tr.classList.toggle("chosen", row.asset === this.chosen);
  }

  /** Mark the row whose panel is open. */
  choose(asset) {
    this.lines.get(this.chosen)?.classList.remove("chosen");
    this.chosen = asset;
    this.lines.get(asset)?.classList.add("chosen");
  }
}
