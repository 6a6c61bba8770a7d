// @ts-check
// The boards in the bar: of each how many are unhandled, and what is wrong with it, on every page; which
// boards of teams there are; and how many incidents are open.
//
// A board is told of boards by its socket, and asks for the teams' and the incidents alone. Other
// pages ask `data-tabs` for all of it every few seconds; while the server does not answer, the counts
// are marked as old.
import { now, timeOfDay } from "./clock.js";
import { number } from "./number.js";
import { showStandstill } from "./status.js";
import { titleCount, titleFilter } from "./title.js";

const EVERY_MS = 5000;
const PATIENCE_MS = 10_000;
const nav = document.getElementById("tabs");
/** @type {(query: string) => HTMLElement[]} */
const all = (query) => [...(nav?.querySelectorAll(query) ?? [])];
const tabs = all("[data-scenario]");
const group = document.getElementById("team-tabs");
const IN_USE = ":hover, :focus-within, :popover-open";
let filters = all("[data-filter]"); // tabs that are filters of a board
/** What a board's page shows, once it has said so. @type {[string, BoardFilter] | null} */
let shown = null;
/** The tab whose name the title of the page begins with; "": none. */
let titled = filters.find((tab) => tab.hasAttribute("aria-current"))?.dataset.title ?? "";

/**
 * Show how many are unhandled on each board, and in each filter that is a tab; of what is not named,
 * what was known.
 *
 * @param {Badges} badges by scenario
 * @param {Badges} [ofFilters] by number
 * @typedef {Record<string, [number, string, string]>} Badges how many, colour and label of the worst state
 */
export function showBadges(badges, ofFilters = {}) {
  for (const tab of [...tabs, ...filters]) {
    const { scenario, filter } = tab.dataset;
    const [n, colour, label] = (filter ? ofFilters[filter] : badges[scenario]) ?? [];
    /** @type {HTMLElement | null} */
    const badge = tab.querySelector(".tab-count"); // a life cycle has none
    if (n === undefined || !badge) continue;
    const words = `unhandled, at worst ${label}`;
    if (badge.dataset.count === String(n) && badge.title === words) continue;
    badge.dataset.count = String(n);
    badge.className = `tab-count c-${colour}`;
    badge.title = words;
    badge.querySelector(".words").textContent = words;
    showCount(badge, n);
  }
  showCount(document.getElementById("all-unhandled"), sum(tabs));
  titleCount(inTitle());
}

/**
 * Show a number, and nothing where it is 0.
 *
 * @param {HTMLElement | null} badge
 * @param {number} n
 */
function showCount(badge, n) {
  if (!badge) return;
  badge.hidden = n === 0;
  badge.querySelector(".n").textContent = number(n);
}

/**
 * Mark the tab of what a board shows: a filter that is a tab, or the whole board.
 *
 * @param {string} scenario
 * @param {BoardFilter} filter
 */
export function markCurrent(scenario, { states, q }) {
  shown = [scenario, { states, q }];
  const mine = filters.filter(({ dataset }) => dataset.of === scenario);
  const filter = mine.find(({ dataset }) => !states.length && dataset.q === q.trim());
  const title = filter?.dataset.title ?? "";
  titleFilter(titled, title);
  titled = title;
  const current = filter ?? tabs.find(({ dataset }) => dataset.scenario === scenario);
  for (const tab of all("[aria-current]")) if (tab !== current) tab.removeAttribute("aria-current");
  current?.setAttribute("aria-current", "page");
  titleCount(inTitle());
}

/**
 * Show the boards of teams that there are by now, under their names. Tabs move by that, so it waits
 * while somebody is at the bar.
 *
 * @param {TeamBoard[]} boards
 * @param {Badges} badges by number
 * @typedef {{ filter: string, of: string, q: string, title: string, name: string, full: string,
 *   address: string }} TeamBoard
 */
function showTeamBoards(boards, badges) {
  if (!group || areShown(boards) || nav.matches(IN_USE)) return;
  const known = new Map(filters.map((tab) => [tab.dataset.filter, tab]));
  filters = boards.map((board) => tabOf(board, known.get(board.filter) ?? newTab()));
  group.replaceChildren(...filters);
  group.hidden = !filters.length;
  showBadges({}, badges);
  if (shown) markCurrent(...shown);
}

/** @param {TeamBoard[]} boards */
function areShown(boards) {
  const isShown = (board, { dataset }) => ["filter", "of", "q", "title"].every((key) => dataset[key] === board[key]);
  return boards.length === filters.length && boards.every((board, at) => isShown(board, filters[at]));
}

/** @returns {HTMLElement} */
function newTab() {
  const { content } = /** @type {HTMLTemplateElement} */ (document.getElementById("team-tab"));
  return /** @type {HTMLElement} */ (content.firstElementChild.cloneNode(true));
}

/**
 * @param {TeamBoard} board
 * @param {HTMLElement} tab
 */
function tabOf({ filter, of, q, title, name, full, address }, tab) {
  Object.assign(tab.dataset, { filter, of, q, title });
  Object.assign(tab, { href: address, title: full });
  tab.querySelector(".tab-name").textContent = name;
  return tab;
}

/**
 * Mark the boards with which something is wrong, in words by scenario.
 *
 * @param {Record<string, string>} wrong
 */
export function showBoardProblems(wrong) {
  for (const tab of tabs) {
    const words = wrong[tab.dataset.scenario] ?? "";
    /** @type {HTMLElement} */
    const mark = tab.querySelector(".tab-problem");
    if (mark.title === words) continue;
    mark.title = words;
    mark.hidden = !words;
    mark.querySelector(".words").textContent = words;
  }
}

/**
 * Say that the counts are those of an earlier time, Unix ms; null: they are those of now.
 *
 * @param {number | null} at
 */
export function markStale(at) {
  if (!nav || (at !== null) === "stale" in nav.dataset) return;
  if (at === null) {
    delete nav.dataset.stale;
    nav.removeAttribute("title");
  } else {
    nav.dataset.stale = "true";
    nav.title = `Counts as they were at ${timeOfDay(at)}: the server does not answer`;
  }
}

/** How many are unhandled on the board that is shown, or on all together. */
function inTitle() {
  const current = all("[aria-current]");
  const n = sum(current.length ? current : tabs);
  return n ? number(n) : "";
}

/** @param {HTMLElement[]} counted */
function sum(counted) {
  return counted.reduce((n, tab) => n + count(tab), 0);
}

/** @param {HTMLElement} tab */
function count(tab) {
  return Number(tab.querySelector(".tab-count")?.getAttribute("data-count") ?? 0);
}

/** Keep the bar live: of a board's page the teams' boards and the incidents, of others all boards. */
export function followTabs() {
  if (!nav?.dataset.tabs) return;
  const { live, hasBanner, standstill: kind, standstillSince: since } = nav.dataset;
  if (kind && hasBanner === undefined) showStandstill({ kind, since: Number(since) });
  let timer = 0;
  const ask = async () => {
    clearTimeout(timer);
    if (document.hidden) return; // asked again once it is seen
    try {
      const answer = await fetch(nav.dataset.tabs, { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!answer.ok || answer.redirected) throw new Error(`status ${answer.status}`);
      const boards = await answer.json();
      showCount(document.getElementById("open-incidents"), boards.incidents);
      showTeamBoards(boards.filters, boards.tabs);
      if (live === undefined) showBoards(boards, hasBanner === undefined);
    } catch {
      if (live === undefined) markStale(now());
    }
    timer = setTimeout(ask, EVERY_MS);
  };
  document.addEventListener("visibilitychange", () => document.hidden || ask());
  timer = setTimeout(ask, EVERY_MS);
}

/** Show what the server says of all boards. */
function showBoards(boards, hasNoBanner) {
  showBadges(boards.badges, boards.tabs);
  showBoardProblems(boards.board_problems);
  if (hasNoBanner) showStandstill(boards.standstill);
  markStale(null);
}
