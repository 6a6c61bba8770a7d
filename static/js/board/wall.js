// @ts-check
// Wall mode: no chrome, large type, the most severe first, a clock; the screen is kept awake.
import { rewrite } from "./address.js";
import { now, timeOfDay } from "../shared/clock.js";
import { number } from "../shared/number.js";

export class Wall {
  /**
   * tbody: the board's rows; total(): how many match; onChange(on): it was entered or left.
   *
   * @param {HTMLTableSectionElement} tbody
   * @param {() => number} total
   * @param {(on: boolean) => void} onChange
   */
  constructor(tbody, total, onChange) {
    this.tbody = tbody;
    this.total = total;
    this.onChange = onChange;
    this.box = document.getElementById("table-box");
    this.clock = document.getElementById("wall-clock");
    this.more = document.getElementById("wall-more");
    document.getElementById("wall-leave").addEventListener("click", () => this.set(false));
    document.addEventListener("visibilitychange", () => keepAwake(this.on));
    addEventListener("resize", () => this.fit());
    if (this.on) this.entered();
  }

  get on() {
    return document.body.classList.contains("wall");
  }

  /** Enter or leave; the address follows, so that a screen can be set up by it. */
  set(on) {
    if (on === this.on) return;
    document.body.classList.toggle("wall", on);
    rewrite((query) => (on ? query.set("wall", "1") : query.delete("wall")));
    scrollTo(0, 0);
    this.entered();
  }

  entered() {
    keepAwake(this.on);
    this.tick();
    this.onChange(this.on);
    this.fit();
  }

  /** The time of day, which goes on whatever else stands still. */
  tick() {
    if (!this.on) return;
    const text = timeOfDay(now());
    if (this.clock.textContent !== text) this.clock.textContent = text;
  }

  /** Only whole rows, and how many there are beyond them. */
  fit() {
    this.box.style.removeProperty("max-height");
    if (!this.on) return;
    this.more.textContent = "";
    const rows = [...this.tbody.rows];
    if (!rows.length) return;
    const { top } = this.box.getBoundingClientRect();
    const bottom = top + this.box.clientHeight + 1;
    const cut = rows.findIndex((tr) => tr.getBoundingClientRect().bottom > bottom);
    const shown = cut < 0 ? rows.length : Math.max(1, cut);
    const last = rows[shown - 1].getBoundingClientRect();
    this.box.style.maxHeight = `${Math.ceil(last.bottom - top) + 2}px`;
    const left = this.total() - shown;
    if (left > 0) this.more.textContent = `and ${number(left)} more`;
  }
}

let lock = null;

/**
 * Keep the screen awake while the page is seen, or let it sleep.
 *
 * @param {boolean} on
 */
export async function keepAwake(on) {
  if (!on || document.hidden) {
    lock?.release();
    lock = null;
  } else if (!lock || lock.released) {
    try {
      lock = await navigator.wakeLock?.request("screen");
    } catch {
      // The browser will not: a low battery, or a page that is not served safely.
    }
  }
}
