// @ts-check
// Tables that sort by their headers.
//
// `<table data-sorts="name">`: each `<th data-sort="text">` or `"number"` in its head becomes a
// button. A cell sorts by its `data-value`, else by its text; one without is always last. Largest
// numbers and first names come first, then the other way round, then the server's own order. The
// choice is remembered under the table's name. Rows that stay where somebody is reading them are
// put in order as soon as nobody is (presence.js).
import { announce } from "../shared/announcements.js";
import { Presence } from "../shared/presence.js";

const known = new WeakMap();

/**
 * Let every table in `root` sort, and put in order those that do already.
 *
 * @param {Document | HTMLElement} root
 */
export function makeSortable(root) {
  for (const table of root.querySelectorAll("table[data-sorts]")) {
    if (!known.has(table)) known.set(table, new Sorted(table));
    else known.get(table).settle();
  }
}

class Sorted {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.headers = [...table.tHead.rows[0].cells];
    table.tHead.dataset.keep = "";
    this.presence = new Presence(this.body, () => this.settle());
    for (const header of this.headers.filter((each) => each.dataset.sort)) this.equip(header);
    [...this.body.rows].forEach((row, at) => {
      row.place = at;
    });
    this.recall();
    this.apply();
  }

  equip(header) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => this.choose(header));
  }

  recall() {
    const [column, way] = (read(this.name()) ?? "").split(":");
    const header = this.headers.find((each) => each.dataset.sort && column === key(each));
    if (header && ["ascending", "descending"].includes(way)) header.ariaSort = way;
  }

  name() {
    return `sort:${this.table.dataset.sorts}`;
  }

  choose(header) {
    const ways =
      header.dataset.sort === "number"
        ? ["descending", "ascending", null]
        : ["ascending", "descending", null];
    const way = ways[(ways.indexOf(header.ariaSort) + 1) % ways.length];
    for (const each of this.headers) each.ariaSort = each === header ? way : null;
    write(this.name(), way && `${key(header)}:${way}`);
    this.apply();
    announce(way ? `Sorted by ${key(header)}, ${way}` : "In the usual order");
  }

  /** Put the rows in order, unless somebody is at them. */
  settle() {
    if (!this.presence.holds()) this.apply();
  }

  apply() {
    const at = this.headers.findIndex((each) => each.ariaSort);
    const rows = [...this.body.rows];
    const sorted = rows.toSorted(at < 0 ? byPlace : compare(this.headers[at], at));
    if (sorted.some((row, place) => row !== rows[place])) this.body.append(...sorted);
  }
}

/** A header's name, as it is remembered. */
const key = (header) => header.dataset.name ?? header.textContent.trim();

const byPlace = (one, other) => one.place - other.place;

function compare(header, at) {
  const way = header.ariaSort === "descending" ? -1 : 1;
  const value = header.dataset.sort === "number" ? number : text;
  return (one, other) => {
    const [left, right] = [value(one.cells[at]), value(other.cells[at])];
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    const order =
      typeof left === "number" ? left - right : left.localeCompare(right, "en", { numeric: true });
    return order * way || byPlace(one, other);
  };
}

const text = (cell) => (cell.dataset.value ?? cell.textContent.trim()) || null;

function number(cell) {
  const value = Number.parseFloat(text(cell));
  return Number.isNaN(value) ? null : value;
}

function read(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // no storage: the usual order
  }
}

function write(name, value) {
  try {
    if (value) localStorage.setItem(name, value);
    else localStorage.removeItem(name);
  } catch {
    // No storage: it holds for this page.
  }
}
