// @ts-check
// Rows that are selected, by keyboard or mouse; the bar at the bottom that acts on them.
//
// What is selected stays so while rows come, go and move. An asset that is no longer shown is still
// selected, and the bar says so.
import { announce } from "../shared/announcements.js";
import { isolated } from "./badges.js";
import { number } from "../shared/number.js";

const MOST = 900; // a form has a thousand fields at the most
const NAMED = 5;

export class Selection {
  /**
   * rows: of the board; bar: its form; noun: of one asset.
   *
   * @param {any} rows
   * @param {HTMLTableSectionElement} tbody
   * @param {HTMLElement} bar
   * @param {string} noun
   */
  constructor(rows, tbody, bar, noun) {
    this.rows = rows;
    this.tbody = tbody;
    this.bar = bar;
    this.noun = noun;
    this.anchor = null; // where a stretch begins
    this.missing = new Set();
    if (!bar) return; // who may not act has nothing to select for
    document.getElementById("selection-clear").addEventListener("click", () => this.clear());
    bar.addEventListener("submit", () => this.fillForm());
    tbody.addEventListener("click", (event) => this.clicked(event));
  }

  get size() {
    return this.rows.selected.size;
  }

  get assets() {
    return [...this.rows.selected];
  }

  clicked(event) {
    const box = event.target.closest(".pick");
    if (!box) return;
    event.stopPropagation();
    const { asset } = box.closest("tr").dataset;
    if (event.shiftKey && this.anchor !== null) this.stretch(asset);
    else this.set([asset], box.checked);
    if (!event.shiftKey) this.anchor = asset;
  }

  /** Select the row at the focus, or not any more. */
  toggle(tr) {
    if (!this.bar || !tr) return;
    const { asset } = tr.dataset;
    this.set([asset], !this.rows.selected.has(asset));
    this.anchor = asset;
  }

  /** Select on to the row that the focus has come to. */
  extend(from, to) {
    if (!this.bar || !to) return;
    if (from && (this.anchor === null || !this.rows.lines.has(this.anchor))) {
      this.anchor = from.dataset.asset;
    }
    this.stretch(to.dataset.asset);
  }

  /** All rows from the anchor to this one. */
  stretch(asset) {
    const shown = Array.from(this.tbody.rows, (tr) => tr.dataset.asset);
    const ends = [shown.indexOf(this.anchor), shown.indexOf(asset)].sort((a, b) => a - b);
    this.set(shown.slice(Math.max(0, ends[0]), ends[1] + 1), true);
  }

  all() {
    if (!this.bar) return;
    this.set(
      Array.from(this.tbody.rows, (tr) => tr.dataset.asset),
      true,
    );
  }

  /** Offer to select all that match, where more match than are selected. least: more may match. */
  offer(total, least) {
    const button = document.getElementById("selection-every");
    if (!button) return;
    this.total = total;
    this.least = least;
    button.hidden = total <= this.size || this.size === MOST;
    document.getElementById("selection-every-n").textContent = `${number(total)}${least ? "+" : ""}`;
  }

  /** Select all that the filter finds, on every page, as far as a form can name them. */
  async every(scenario, { states, q }) {
    const url = new URL(document.getElementById("selection-every").dataset.names, location.href);
    url.search = new URLSearchParams([["scenario", scenario], ["q", q], ...states.map((s) => ["state", s])]).toString();
    try {
      const response = await fetch(url);
      const { names, more, problem } = await response.json();
      if (problem) announce(problem);
      else this.set(names, true);
      if (more) announce(`${number(this.size)} selected, and more match: use Bulk… for all`);
    } catch {
      announce("The server did not answer: nothing more is selected");
    }
  }

  clear() {
    const inBar = this.bar?.contains(document.activeElement);
    this.set(this.assets, false);
    if (inBar) document.getElementById("table-box").focus({ preventScroll: true });
  }

  set(assets, on) {
    const { selected } = this.rows;
    for (const asset of assets) {
      if (!on) selected.delete(asset);
      else if (selected.size < MOST) selected.add(asset);
      const tr = this.rows.lines.get(asset);
      if (tr) this.rows.paint(tr);
    }
    if (!selected.size) this.anchor = null;
    this.show();
    const full = on && selected.size === MOST ? `, which is the most at once` : "";
    announce(selected.size ? `${number(selected.size)} selected${full}` : "Nothing is selected");
  }

  /** After rows have changed: whether one that is selected has gone. */
  check() {
    if (!this.size) return;
    const gone = this.assets.filter((asset) => {
      const row = this.rows.known.get(asset);
      return !row || !this.rows.matches(row);
    });
    const fresh = gone.filter((asset) => !this.missing.has(asset));
    if (!fresh.length && gone.length === this.missing.size) return;
    this.missing = new Set(gone);
    this.show();
    if (fresh.length) announce(`${named(fresh)}: selected, and no longer shown`);
  }

  show() {
    if (!this.bar) return;
    const { selected } = this.rows;
    for (const asset of this.missing) if (!selected.has(asset)) this.missing.delete(asset);
    this.bar.hidden = !selected.size;
    this.offer(this.total ?? 0, this.least);
    document.body.classList.toggle("selecting", selected.size > 0);
    document.getElementById("selection-n").textContent = number(selected.size);
    const gone = document.getElementById("selection-gone");
    gone.textContent = this.missing.size ? `, ${number(this.missing.size)} no longer shown` : "";
    gone.title = named([...this.missing]);
  }

  /** What the form sends is what is selected, be it shown or not. */
  fillForm() {
    const fields = this.assets.map((value) =>
      Object.assign(document.createElement("input"), { type: "hidden", name: "asset", value }),
    );
    document.getElementById("selection-assets").replaceChildren(...fields);
  }
}

function named(assets) {
  const some = assets.slice(0, NAMED).map(isolated).join(", ");
  return assets.length > NAMED ? `${some} and ${number(assets.length - NAMED)} more` : some;
}
