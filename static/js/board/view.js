// @ts-check
// How the board is looked at: its order, its columns, and the file of what it shows.
import { rewrite } from "./address.js";

const STORED = "without"; // columns that are not shown; preferences.js reads it too
const HEADS = { asset: "ascending", state: "descending", since: "ascending", votes: "descending", pending: "ascending" };
const TURNED = { ascending: "descending", descending: "ascending" };

export class View {
  /**
   * heads: of the columns; sort: the order that the page was made in; onSort(sort).
   *
   * @param {HTMLTableSectionElement} heads
   * @param {string} sort
   * @param {(sort: string) => void} onSort
   */
  constructor(heads, sort, onSort) {
    this.heads = heads;
    this.sort = sort;
    this.onSort = onSort;
    this.choice = /** @type {HTMLSelectElement} */ (document.getElementById("sort"));
    heads.addEventListener("click", (event) => {
      /** @type {HTMLElement | null} */
      const link = /** @type {Element} */ (event.target).closest("[data-sort]");
      if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
      event.preventDefault();
      this.set(this.next(link.dataset.sort));
    });
    this.choice.addEventListener("change", () => this.set(this.choice.value));
    startColumns(document.getElementById("columns"));
    document.getElementById("view-menu").hidden = false;
  }

  /** What a head asks for: its order, then the other way round, then the board's own. */
  next(name) {
    const first = name === "state" ? "" : name;
    const other = `-${name}`;
    if (this.sort === first) return this.offers(other) ? other : "";
    return this.sort === other ? "" : first;
  }

  offers(sort) {
    return [...this.choice.options].some((option) => option.value === sort);
  }

  set(sort) {
    this.sort = sort;
    rewrite((query) => (sort ? query.set("sort", sort) : query.delete("sort")));
    this.choice.value = sort;
    for (const link of this.heads.querySelectorAll("[data-sort]")) this.show(link);
    this.onSort(sort);
  }

  /** Show at a head whether, and how, the page is sorted by it, and where it leads. */
  show(link) {
    const { sort: name } = link.dataset;
    const by = this.sort.replace(/^-/, "") || "state";
    const head = link.closest("th");
    const rises = HEADS[name] ?? "descending"; // a detail's
    const way = this.sort.startsWith("-") ? TURNED[rises] : rises;
    if (by === name) head.setAttribute("aria-sort", way);
    else head.removeAttribute("aria-sort");
    const url = new URL(location.href);
    url.searchParams.delete("asset");
    const next = this.next(name);
    if (next) url.searchParams.set("sort", next);
    else url.searchParams.delete("sort");
    link.href = url.pathname + url.search;
  }
}

/**
 * The board's file has what the filter finds.
 *
 * @param {HTMLAnchorElement} link
 * @param {BoardFilter} filter
 */
export function showFile(link, { states, q }) {
  const url = new URL(link.href);
  url.searchParams.delete("state");
  url.searchParams.delete("q");
  for (const state of states) url.searchParams.append("state", state);
  if (q) url.searchParams.set("q", q);
  link.href = url.pathname + url.search;
}

/** Boxes that show or hide columns, on every board, as this browser keeps it. */
function startColumns(box) {
  const root = document.documentElement;
  const without = new Set((root.dataset.without ?? "").split(" ").filter(Boolean));
  for (const each of box.querySelectorAll("[name=column]")) each.checked = !without.has(each.value);
  box.addEventListener("change", ({ target }) => {
    if (target.checked) without.delete(target.value);
    else without.add(target.value);
    root.dataset.without = [...without].join(" ");
    try {
      localStorage.setItem(STORED, root.dataset.without);
    } catch {
      // No storage: it holds for this page.
    }
  });
}

/**
 * How far down the filters reach, for the heads that stay below them.
 *
 * @param {HTMLElement} head
 */
export function keepHeads(head) {
  const measure = () => {
    const { top } = getComputedStyle(head);
    const below = (parseFloat(top) || 0) + head.offsetHeight;
    document.documentElement.style.setProperty("--heads", `${below}px`);
  };
  new ResizeObserver(measure).observe(head);
  addEventListener("resize", measure);
}
