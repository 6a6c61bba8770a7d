// @ts-check
// The table's rows: what is known, and what is shown of it.
//
// Cells change in place at any time. Rows come, go and move while nobody is at the list, and at
// most once a second; until then what waits is counted by kind. Many of them come in steps, one a
// frame, from the top.
import { Presence } from "../shared/presence.js";
import { now, ticking } from "../shared/clock.js";
import * as marks from "./badges.js";
import { Trends } from "./sparkline.js";
import { byOrder, comparator, placeOf, plan } from "./order.js";

const PACE_MS = 1000;
const MOST_FLASHED = 50; // more than these and the whole page would flash

const UNMARKED = ["", 0, null, 0, null, null];
const STEP = 30; // rows made or moved in one frame: with more a page is felt to stick

// Of each cell what it is made of, and how. said: who has the row's asset in hand, its notes, its
// maintenance, the number of its incident, and the state of what it lies behind.
const CELLS = {
  "col-state": {
    of: (row, said) => [
      row.state,
      row.disputed,
      row.beneath,
      row.override,
      row.doubt?.why,
      row.unconfirmed && [row.unconfirmed_reason],
      row.votes.length > 0,
      said,
    ],
    make: (row, [ack, notes, work, number, cause]) => [
      marks.rowState(row),
      ...marks.badges(row),
      ...marks.behind(row.behind, cause),
      ...marks.annotations(ack, notes, work, number),
    ],
  },
  "col-since": { of: (row) => row.since, make: (row) => [ticking("since", row.since)] },
  "col-votes": {
    of: (row) => [row.votes, row.more_votes, row.muted, row.silent, row.doubt],
    make: (row) => [marks.votes(row)],
  },
  "col-pending": { of: (row) => row.pending, make: (row) => marks.pending(row) },
  ...Object.fromEntries([0, 1, 2, 3].map((at) => [`col-d${at + 1}`, detailCell(at)])),
  "col-cause": { of: (row) => [row.cause, row.caused_at], make: (row) => [marks.cause(row)] },
};

/** Of the detail at this place, from 0. */
function detailCell(at) {
  return {
    of: (row) => [row.details?.[at] ?? null, valuesAt(row, at)],
    make: (row) => marks.detail(row.details?.[at] ?? null, valuesAt(row, at)),
  };
}

/** How the number at this place of a row has gone. */
const valuesAt = (row, at) => (row.trend?.at === at ? row.trend.values : []);

export class Rows {
  /**
   * onShown(): after rows came, went or moved; onWaiting({come, go, move}): how many wait.
   *
   * @param {HTMLTableSectionElement} tbody
   * @param {HTMLTemplateElement} template
   * @param {number} limit
   * @param {{onShown: () => void, onWaiting: (kinds: {come: number, go: number, move: number}) => void}} handlers
   */
  constructor(tbody, template, limit, { onShown, onWaiting }) {
    this.tbody = tbody;
    this.template = template;
    this.limit = limit;
    this.onShown = onShown;
    this.onWaiting = onWaiting;
    this.known = new Map();
    this.trends = new Trends();
    this.lines = new Map();
    this.filled = new WeakMap(); // what each line's cells were made of, as text
    this.full = false;
    this.requested = false; // the next snapshot answers what the user asked for
    this.arrangedAt = -Infinity;
    /** @type {(row: BoardRow) => boolean} */
    this.matches = () => true;
    this.sort = "";
    this.ranked = false; // whether the server has chosen the rows by the sort, not the board's order
    this.frame = 0;
    this.chosen = null;
    this.marks = new Map(); // by asset: [asset, revision, ack, notes, work, number], as dashboard/live has them
    this.causes = new Map(); // what is not well that rows lie behind: its state in words, by name
    this.calmFrom = Infinity; // the severity from which on nothing is to be done
    this.selected = new Set();
    for (const tr of tbody.rows) this.lines.set(tr.dataset.asset, tr);
    this.presence = new Presence(tbody, () => this.soon());
  }

  /** Everything the server knows that matches; what is not in it is gone. */
  snapshot(rows) {
    const before = this.known;
    this.known = new Map();
    for (const row of rows) {
      const old = before.get(row.asset);
      this.know(old && old.version > row.version ? old : row);
    }
    this.refresh(rows.map((row) => row.asset));
    for (const asset of before.keys()) if (!this.known.has(asset)) this.leave(asset);
    if (!this.full) {
      this.full = true;
      for (const asset of this.lines.keys()) if (!this.known.has(asset)) this.leave(asset);
    }
    if (this.requested) this.arrange(false);
    else this.soon();
    this.requested = false;
  }

  /** Newer rows, and assets that are gone with the version at which they went. */
  change(rows, gone) {
    const changed = [];
    for (const row of rows) {
      const old = this.known.get(row.asset);
      if (old && old.version >= row.version) continue;
      this.know(row);
      changed.push(row.asset);
    }
    for (const [asset, version] of gone) {
      const old = this.known.get(asset);
      if (!old || old.version > version) continue;
      this.known.delete(asset);
      this.leave(asset);
    }
    this.refresh(changed, true);
    this.soon();
  }

  /** Show only what `matches(row)`; at once, because the user asked for it. */
  narrow(matches) {
    this.matches = matches;
    this.requested = true;
    if (this.full) this.arrange(false);
  }

  /** Show the page in another order; at once, because the user asked for it. */
  order(sort) {
    this.sort = sort;
    if (this.full) this.arrange(false);
  }

  know(row) {
    row.trend = this.trends.follow(row);
    this.known.set(row.asset, row);
  }

  leave(asset) {
    this.trends.forget(asset);
    this.lines.get(asset)?.classList.add("leaving");
  }

  refresh(assets, visibly = false) {
    for (const asset of assets) {
      const tr = this.lines.get(asset);
      const row = this.known.get(asset);
      if (!tr || !row) continue;
      const same = (tr.dataset.behind ?? "") === (row.behind ?? "") && marks.sameLabels(tr, row);
      if (tr.dataset.version === row.version && same) continue;
      const moved = tr.dataset.state !== undefined && tr.dataset.state !== row.state;
      this.fill(tr, row);
      if (visibly && moved) this.flash(tr);
    }
  }

  fill(tr, row) {
    tr.dataset.asset = row.asset;
    tr.dataset.version = row.version;
    tr.dataset.state = row.state;
    if (row.behind) tr.dataset.behind = row.behind;
    else delete tr.dataset.behind;
    const kept = ["chosen", "fresh"].filter((name) => tr.classList.contains(name));
    if (row.alarming) kept.unshift(this.isHandled(row) ? "is-handled" : "is-unhandled");
    tr.className = [marks.rowClass(row), ...kept].join(" ");
    const link = tr.querySelector(".asset");
    if (link.textContent !== row.asset) {
      link.textContent = row.asset;
      link.title = marks.isolated(row.asset);
      link.setAttribute("href", row.url);
    }
    if (!marks.sameLabels(tr, row)) marks.label(tr, row);
    const before = this.filled.get(tr) ?? {};
    const made = {};
    const said = this.said(row);
    for (const [name, { of, make }] of Object.entries(CELLS)) {
      made[name] = JSON.stringify(of(row, said));
      if (made[name] === before[name]) continue;
      tr.querySelector(`.${name}`)?.replaceChildren(...make(row, said));
    }
    this.filled.set(tr, made);
    this.paint(tr);
  }

  // ---- what people add ----

  /**
   * Who has a row's asset in hand now, or null; how many notes it has; its maintenance, or null;
   * the number of its incident, or null; the state of what it lies behind, in words, if that is not
   * well.
   *
   * @param {BoardRow} row
   * @returns {[any, number, any, number | null, string | undefined]}
   */
  said(row) {
    const [, , ack, notes, work, number] = this.marks.get(row.asset) ?? UNMARKED;
    const [, , until, severity] = ack ?? [];
    const held = ack && now() < until && severity <= row.severity && row.severity < this.calmFrom;
    const works = work && now() < work[1] ? work : null;
    return [held ? ack : null, notes, works, number, this.causes.get(row.behind)];
  }

  /** The assets of the same incident, as far as they are shown; without one the asset alone. */
  wave(asset) {
    const number = this.marks.get(asset)?.[5];
    if (!number) return [asset];
    const shown = [...this.lines.keys()].filter((each) => this.known.has(each));
    return shown.filter((each) => this.marks.get(each)?.[5] === number);
  }

  /** Whether somebody has an alarming row in hand, or it is in maintenance. */
  isHandled(row) {
    const [ack, , work] = this.said(row);
    return row.alarming && Boolean(ack || work);
  }

  /** Newer marks of rows, in whatever order they come. */
  mark(keyed) {
    for (const mark of keyed) {
      const [asset, revision] = mark;
      if (this.marks.get(asset)?.[1] >= revision) continue;
      this.marks.set(asset, mark);
      this.renew(asset);
    }
    this.soon();
  }

  /**
   * What is not well that rows lie behind, by name, with its state in words.
   *
   * @param {Record<string, string>} causes
   */
  relate(causes) {
    const before = this.causes;
    this.causes = new Map(Object.entries(causes));
    for (const [asset, { behind }] of this.known) {
      if (before.get(behind) !== this.causes.get(behind)) this.renew(asset);
    }
  }

  /** Acknowledgements and maintenance whose time is over are shown no more. */
  tick() {
    const at = now();
    for (const [asset, [, revision, ack, notes, work, number]] of this.marks) {
      const [acked, worked] = [ack?.[2] <= at, work?.[1] <= at];
      if (!acked && !worked) continue;
      const left = [acked ? null : ack, notes, worked ? null : work, number];
      this.marks.set(asset, [asset, revision, ...left]);
      this.renew(asset);
      this.soon();
    }
  }

  renew(asset) {
    const [tr, row] = [this.lines.get(asset), this.known.get(asset)];
    if (tr && row) this.fill(tr, row);
  }

  /** Show whether the row of a line is selected. */
  paint(tr) {
    const { asset } = tr.dataset;
    const box = tr.querySelector(".pick");
    if (!box) return;
    const on = this.selected.has(asset);
    box.checked = on;
    tr.classList.toggle("picked", on);
    tr.setAttribute("aria-selected", String(on));
    const name = `Select ${marks.isolated(asset)}`;
    if (box.getAttribute("aria-label") !== name) box.setAttribute("aria-label", name);
  }

  flash(tr) {
    tr.classList.remove("fresh");
    requestAnimationFrame(() => tr.classList.add("fresh"));
  }

  soon() {
    if (!this.full || this.frame) return;
    if (document.hidden) {
      this.settle();
      return;
    }
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.settle();
    });
  }

  settle() {
    const early = this.arrangedAt + PACE_MS - Date.now();
    if (this.presence.holds()) this.onWaiting(this.waiting());
    else if (early > 0) this.presence.askIn(early);
    else this.arrange(true, false);
  }

  /** How many rows wait to come, go and move. */
  waiting() {
    const { come, go, move } = this.plan(this.target());
    return { come: come.length, go: go.length, move: move.length };
  }

  /**
   * Bring rows to their places now. The focus stays where it is, and so does what is in sight.
   *
   * requested: by the user, and so to be finished whoever is at the list.
   */
  arrange(visibly, requested = true) {
    const target = this.target();
    const { come, go, move } = this.plan(target);
    const out = new Set([...come, ...move]);
    const most = document.hidden ? Infinity : STEP;
    const cut = cutAfter(target, out, most);
    const front = target.slice(0, cut);
    const leave = go.slice(0, Math.max(most, go.length - target.length));
    const restore = this.hold(new Set([...leave, ...move]));
    for (const asset of leave) {
      this.lines.get(asset).remove();
      this.lines.delete(asset);
    }
    const follows = target.slice(cut).find(({ asset }) => !out.has(asset));
    let after = follows ? this.lines.get(follows.asset) : null;
    const flashed = visibly && come.length <= MOST_FLASHED;
    for (const row of front.reverse()) {
      // From the end, so that what comes next is in place already.
      const known = this.lines.get(row.asset);
      const tr = known ?? this.add(row);
      if (out.has(row.asset)) this.tbody.insertBefore(tr, after);
      if (!known && flashed) this.flash(tr);
      after = tr;
    }
    restore();
    if (out.size || go.length) this.arrangedAt = Date.now();
    this.onWaiting({ come: 0, go: 0, move: 0 });
    this.onShown();
    if (cut < target.length || leave.length < go.length) this.goOn(flashed, requested);
  }

  /** The next step of an arrangement, in the next frame. */
  goOn(visibly, requested) {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (!requested && this.presence.holds()) this.onWaiting(this.waiting());
      else this.arrange(visibly, requested);
    });
  }

  /** Remember focus and a row in sight that stays; returns what puts both back. */
  hold(leaving) {
    const lines = [...this.tbody.rows];
    const focus = this.presence.focused() ? /** @type {HTMLElement} */ (document.activeElement) : null;
    const at = focus ? lines.indexOf(focus.closest("tr")) : -1;
    const stays = this.presence.scrolled() && inSight(lines, leaving);
    const top = stays && stays.getBoundingClientRect().top;
    return () => {
      if (focus && document.activeElement !== focus) {
        const next = focus.isConnected ? focus : this.linkAt(at);
        next?.focus({ preventScroll: true });
      }
      if (stays) scrollBy({ top: stays.getBoundingClientRect().top - top, behavior: "instant" });
    };
  }

  /** The link of the row at this place, or of the last one. */
  linkAt(at) {
    const { rows } = this.tbody;
    /** @type {HTMLElement | null} */
    const link = rows[Math.min(at, rows.length - 1)]?.querySelector(".asset");
    return link;
  }

  /** All that matches, each with its place. */
  matching() {
    const rows = [...this.known.values()].filter(this.matches);
    for (const row of rows) row.place = placeOf(row, this.isHandled(row));
    return rows;
  }

  target() {
    const page = this.matching().sort(this.ranked ? comparator(this.sort) : byOrder).slice(0, this.limit);
    return this.sort && !this.presence.unwatched ? page.sort(comparator(this.sort)) : page;
  }

  plan(target) {
    const shown = Array.from(this.tbody.rows, (tr) => tr.dataset.asset);
    return plan(
      shown,
      target.map((row) => row.asset),
    );
  }

  add(row) {
    const { firstElementChild } = this.template.content;
    const tr = /** @type {HTMLTableRowElement} */ (firstElementChild.cloneNode(true));
    this.fill(tr, row);
    this.lines.set(row.asset, tr);
    tr.classList.toggle("chosen", row.asset === this.chosen);
    return tr;
  }

  /** Mark the row whose panel is open. */
  choose(asset) {
    this.lines.get(this.chosen)?.classList.remove("chosen");
    this.chosen = asset;
    this.lines.get(asset)?.classList.add("chosen");
  }
}

/** How many of the target rows are in place once `most` of those `out` of it are. */
function cutAfter(target, out, most) {
  let left = most;
  const beyond = target.findIndex(({ asset }) => out.has(asset) && left-- <= 0);
  return beyond < 0 ? target.length : beyond;
}

/** The first row below the header that does not leave its place. */
function inSight(lines, leaving) {
  const heads = document.querySelector("#rows thead").getBoundingClientRect();
  const below = Math.max(heads.bottom, document.getElementById("head").getBoundingClientRect().bottom);
  return lines.find(
    (tr) => !leaving.has(tr.dataset.asset) && tr.getBoundingClientRect().bottom > below,
  );
}
