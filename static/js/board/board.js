// @ts-check
// The board's page: socket, rows, filters, panel, banner, wall and keys put together.
import { Acknowledge } from "./acknowledgement.js";
import { Alarm } from "./alarm.js";
import { startBulk } from "./bulk-dialog.js";
import { announce } from "../shared/announcements.js";
import * as clock from "../shared/clock.js";
import { isJudged, matcher, showCounts, showDoubts, startFilters } from "./filters.js";
import { startKeys, walker } from "./shortcuts.js";
import * as marks from "./badges.js";
import { number } from "../shared/number.js";
import { chooses, knowDetails } from "./order.js";
import { Paging } from "./paging.js";
import { followFacts, Panel } from "./panel.js";
import { Rows } from "./rows.js";
import { Selection } from "./selection.js";
import { openSocket } from "./socket.js";
import { Banner } from "./banner.js";
import { showStatus } from "../shared/status.js";
import { markCurrent, showBadges, showBoardProblems } from "../shared/tabs.js";
import { keepHeads, showFile, View } from "./view.js";
import { Wall } from "./wall.js";

const FILTERING = "filtering…";
const NOT_BY_THIS = "filter not applied";
const ANNOUNCED_MS = 20000; // waiting changes are announced at most this often
/** @type {(id: string) => any} */
const $ = (id) => document.getElementById(id);
const boot = JSON.parse($("boot").textContent);
clock.correct(boot.now);
marks.knowStates(boot.states);
knowDetails(boot.details);

/** What changes while the page is open; the rows have their own, in `rows`. */
const state = {
  counts: boot.counts, // by state, of the whole board
  total: boot.total, // how many match the filter, on all pages
  least: boot.least, // whether there may be more than that
  beyond: 0, // how many match that the server did not send
  filterNumber: 0, // a snapshot says which filter of this page it answers
  caption: "", // beside the total, while the rows are those of the filter before
  faulty: false, // what is in the box is no filter: the rows stay those of the one before
  announcedAt: -Infinity, // when waiting changes were last announced
  /** @type {Panel | null} */
  panel: null, // until it is made
  connection: [], // what the socket last said of itself
};

const getTotal = () => state.total;
const all = () => Object.values(state.counts).reduce((sum, n) => sum + n, 0);
const plural = (n) => (n === 1 ? boot.noun : `${boot.noun}s`);

// ---- rows and how many there are ----

/** How many match on all pages; known: those that this browser knows. */
function matching(known) {
  const { states, q } = filters.read();
  if (q) return known.length + state.beyond;
  return states.length ? states.reduce((sum, name) => sum + (state.counts[name] ?? 0), 0) : all();
}

function showTotals() {
  const shown = tbody.rows.length;
  const known = rows.matching();
  state.total = Math.max(matching(known), shown);
  const total = Math.min(state.total, all()); // rows that are gone may wait to go
  const count = `${number(total)}${state.least ? "+" : ""} of ${number(all())} ${plural(all())}`;
  $("shown").textContent = [count, state.caption].filter(Boolean).join(" · ");
  const part = Boolean(rows.sort) && (state.total > shown || Boolean(paging.after));
  $("sorted").hidden = !part || rows.ranked;
  $("rows").classList.toggle("page-only", part && !rows.ranked);
  $("rows").classList.toggle("all-sorted", part && rows.ranked);
  $("rows").hidden = shown === 0;
  paging.show(shown, state.total, rows.ranked ? [] : known); // no page follows the first of a detail
  selection.offer(total, state.least);
  $("empty-board").hidden = all() > 0 || shown > 0;
  $("empty-filter").hidden = all() === 0 || shown > 0 || rows.known.size > 0;
  selection.check();
  wall.fit();
}

function takeCounts(counts) {
  state.counts = counts;
  showCounts($("state-filters"), counts, chip);
  showCounts($("wall-counts"), counts);
}

function takeDoubts(doubts) {
  showDoubts($("doubts"), doubts);
  showDoubts($("wall-doubts"), doubts);
}

function takeUnhandled(byState) {
  const unhandled = Object.values(byState).reduce((sum, n) => sum + n, 0);
  for (const id of ["unhandled", "wall-unhandled"]) {
    if ($(id)) showDoubts($(id), { unhandled }); // a life cycle has none
  }
  const named = boot.states.map(({ name }) => name).filter((name) => byState[name]);
  const worst = Object.keys(byState).find((name) => !named.includes(name)) ?? named[0];
  const { colour, label } = marks.spec(worst ?? boot.states[0].name);
  showBadges({ [boot.scenario]: [unhandled, colour, label] });
}

function takeAcknowledged(byState) {
  for (const chip of $("state-filters").querySelectorAll("[data-state]")) {
    chip.querySelector(".acked").replaceWith(marks.acked(byState[chip.getAttribute("data-state")] ?? 0));
  }
}

const paging = new Paging(boot);
const tbody = $("tbody");
const waiting = $("waiting");

/** `3 new, 2 moved, 1 gone`. */
function inWords({ come, move, go }) {
  const kinds = [
    [come, "new"],
    [move, "moved"],
    [go, "gone"],
  ];
  return kinds
    .filter(([n]) => n)
    .map(([n, word]) => `${number(n)} ${word}`)
    .join(", ");
}

function showWaiting(kinds) {
  const words = inWords(kinds);
  waiting.hidden = !words;
  if ($("waiting-n").textContent === words) return;
  $("waiting-n").textContent = words;
  if (!words || Date.now() - state.announcedAt < ANNOUNCED_MS) return;
  state.announcedAt = Date.now();
  announce(`${words} waiting: press u to show them`);
}

function applyWaiting() {
  if (waiting.hidden) return;
  const focused = document.activeElement === waiting;
  rows.arrange(true);
  if (focused) $("table-box").focus({ preventScroll: true });
}

const rows = new Rows(tbody, $("row-template"), boot.limit, {
  onShown: showTotals,
  onWaiting: showWaiting,
});
rows.calmFrom = boot.states.length - 1;
rows.relate(boot.causes);
for (const mark of boot.marks) rows.marks.set(mark[0], mark); // as the page was made with
const selection = new Selection(rows, tbody, $("selection"), boot.noun);
const wall = new Wall(tbody, getTotal, (on) => {
  rows.presence.unwatched = on;
  if (on) state.panel?.close();
  if (state.panel && chooses(rows.sort)) choose();
  rows.soon();
});
waiting.addEventListener("click", applyWaiting);

// ---- filter ----

const ask = () => ({
  type: "filter",
  number: state.filterNumber,
  ...filters.read(),
  ...paging.ask(),
  sort: wall.on ? "" : rows.sort,
  watch: state.panel.asset,
});

/** Have the server choose the rows anew, as the order by a detail decides which they are. */
function choose() {
  state.filterNumber += 1;
  rows.ranked = false;
  rows.requested = true;
  socket.send(ask());
}
const filters = startFilters($("filters"), (filter) => {
  state.filterNumber += 1;
  paging.top();
  if (!isJudged(filter)) rowsOf(FILTERING);
  rows.narrow(matcher(filter));
  markCurrent(boot.scenario, filter);
  showFile($("csv"), filter);
  socket.send(ask());
});
markCurrent(boot.scenario, filters.read());

/** Rows of the filter before are said to be that, until those of this one come. */
function rowsOf(words) {
  state.caption = words;
  $("table-box").classList.toggle("asking", Boolean(words));
  $("rows").setAttribute("aria-busy", String(Boolean(words)));
}
rows.matches = matcher(filters.read());
$("clear").addEventListener("click", (event) => {
  event.preventDefault();
  filters.clear();
  $("q").focus();
});

function chip(name, n) {
  const { colour, icon, label } = marks.spec(name);
  const made = document.createElement("label");
  made.className = `chip c-${colour}`;
  made.dataset.state = name;
  const box = Object.assign(document.createElement("input"), { type: "checkbox", name: "state" });
  box.value = name;
  const word = Object.assign(document.createElement("bdi"), { className: "chip-word" });
  word.textContent = label;
  const count = Object.assign(document.createElement("span"), { className: "n" });
  count.textContent = number(n);
  made.append(box, marks.icon(icon), word, count, marks.acked(0));
  return made;
}

// ---- order and columns ----

rows.sort = boot.sort;
rows.ranked = boot.ranked;
new View($("rows").tHead, boot.sort, (sort) => {
  const another = chooses(sort) || rows.ranked;
  rows.ranked = false;
  rows.order(sort);
  if (another) choose();
  showTotals();
});
keepHeads($("head"));
addEventListener("beforeprint", () => {
  const { states, q } = filters.read();
  const labels = states.map((name) => marks.spec(name).label);
  const said = [labels.join(", "), q, $("shown").textContent].filter(Boolean);
  $("printed-filter").textContent = said.join(" · ");
  $("printed-at").textContent = clock.both(clock.now());
});

// ---- panel ----

state.panel = new Panel($("panel"), $("main"), (asset) => {
  rows.choose(asset);
  socket.send(ask());
});
rows.choose(state.panel.asset);
const addressOf = (asset) => `/s/${boot.scenario}/a/${encodeURIComponent(asset)}/`;
addEventListener("popstate", () => state.panel.follow(addressOf));
const renewFacts = followFacts();
tbody.addEventListener("click", (event) => {
  if (event.target.closest(".pick") || (event.target.closest(".case") && !wall.on)) return;
  if (event.target.closest(".row-acts")) {
    const { asset } = event.target.closest("tr").dataset;
    if (event.target.closest(".jot")) noting.ask([asset]);
    else acknowledging.have(event.shiftKey ? rows.wave(asset) : [asset]);
    return;
  }
  const link = event.target.closest("tr")?.querySelector(".asset");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  if (wall.on) return; // whoever leans on the screen opens nothing
  state.panel.open(link.closest("tr").dataset.asset, link.href, link);
});

// ---- selection and acknowledgement ----

const walk = walker(tbody);
const keepSelected = (left) => {
  selection.set(
    selection.assets.filter((asset) => !left.includes(asset)),
    false,
  );
};
const acknowledging = new Acknowledge($("ack-dialog"), boot.noun, keepSelected);
const noting = new Acknowledge($("note-dialog"), boot.noun, keepSelected);
$("selection-note")?.addEventListener("click", () => noting.ask(selection.assets));
startBulk($("bulk-dialog"), selection, boot.scenario);
$("selection-every")?.addEventListener("click", () => selection.every(boot.scenario, filters.read()));

/** The asset of the row at the focus, else of the open panel, or null. */
const here = () => (walk.line() ? walk.line().dataset.asset : state.panel.asset);

/** What is selected, else the asset here. */
const chosen = () => (selection.size || here() === null ? selection.assets : [here()]);
const acknowledge = () => acknowledging.ask(chosen());
$("selection-ack")?.addEventListener("click", acknowledge);

const isUnhandled = (tr) => tr.classList.contains("is-unhandled");

/** To the next unhandled row, or the one before; past the last one from the top again. */
function seek(by) {
  if (!walk.seek(by, isUnhandled)) announce(`No unhandled ${boot.noun} is shown`);
}

/** To the incident of the row at the focus, else of the open panel's asset. */
function openIncident() {
  const asset = here();
  if (asset !== null) location.assign(`/s/${boot.scenario}/incident/${encodeURIComponent(asset)}/`);
}

function extend(by) {
  const from = walk.line();
  walk.step(by);
  selection.extend(from, walk.line());
}

// ---- keys ----

const help = $("help");
$("help-button").hidden = false;
$("help-button").addEventListener("click", () => help.showModal());
$("wall-link").addEventListener("click", (event) => {
  event.preventDefault();
  $("user-menu").open = false;
  wall.set(true);
});

/** To the scenario so many tabs on; a wall stays a wall. */
function turn(by) {
  const shown = ".tabs [data-scenario], .tabs [data-filter], .tabs [aria-current]";
  const tabs = /** @type {HTMLAnchorElement[]} */ ([...document.querySelectorAll(shown)]);
  const at = tabs.findIndex((tab) => tab.hasAttribute("aria-current"));
  const url = new URL(tabs[(at + by + tabs.length) % tabs.length].href);
  if (wall.on) url.searchParams.set("wall", "1");
  location.assign(url);
}

const follow = (...links) => links.find((link) => !link.hidden)?.click();
const SELECTING = [
  {
    keys: [" "],
    words: `select or deselect the ${boot.noun}`,
    act: () => selection.toggle(walk.line()),
    inside: true,
  },
  {
    keys: ["Shift+ArrowDown", "Shift+ArrowUp"],
    words: "extend the selection down or up",
    act: (key) => extend(key.endsWith("Down") ? 1 : -1),
    walks: ["Shift+ArrowDown", "Shift+ArrowUp"],
  },
  {
    keys: ["Ctrl+a"],
    words: "select all that are shown",
    act: () => selection.all(),
    walks: ["Ctrl+a"],
  },
  { keys: ["a"], words: "acknowledge the selection, or this one", act: acknowledge },
  {
    keys: ["A"],
    shown: ["Shift A"],
    words: "acknowledge all of its incident",
    act: () => acknowledging.ask(here() === null ? [] : rows.wave(here())),
  },
  { keys: ["c"], words: "note on the selection, or this one", act: () => noting.ask(chosen()) },
];
const SEEKING = [
  { keys: ["n"], words: `next unhandled ${boot.noun}`, act: () => seek(1) },
  { keys: ["N"], shown: ["Shift N"], words: `previous unhandled ${boot.noun}`, act: () => seek(-1) },
];
const disputed = $("doubts").querySelector("[data-doubt=disputed]"); // none in a life cycle
const DOUBTING = [
  { keys: ["d"], words: "show only what is disputed, or all again", act: () => disputed.click() },
];
const KEYS = [
  {
    keys: ["j", "ArrowDown"],
    words: `next ${boot.noun}`,
    act: () => walk.step(1),
    walks: ["ArrowDown"],
  },
  {
    keys: ["k", "ArrowUp"],
    words: `previous ${boot.noun}`,
    act: () => walk.step(-1),
    walks: ["ArrowUp"],
  },
  ...($("unhandled") ? SEEKING : []),
  { keys: ["Home"], words: `first ${boot.noun}`, act: walk.first, walks: ["Home"] },
  { keys: ["End"], words: `last ${boot.noun} of this page`, act: walk.last, walks: ["End"] },
  { keys: ["Enter"], words: "open it beside the table" },
  { keys: ["o"], words: "the same", act: walk.open },
  { keys: ["i"], words: "open its incident", act: openIncident },
  ...(boot.may_command ? SELECTING : []),
  { keys: ["Escape"], words: "end the selection, close the panel, leave the filter or the wall" },
  { keys: ["u"], words: "show the changes that wait", act: applyWaiting },
  {
    keys: ["/"],
    words: `filter: by name, or terms such as state:${boot.states[0].name}`,
    act: () => {
      $("q").focus();
      $("q").select();
    },
  },
  {
    keys: [..."123456789"],
    shown: ["1", "…", "9"],
    words: "show or hide a state, in the order of the buttons",
    act: (key) => filters.toggle(key - 1),
  },
  { keys: ["0"], words: "all states again", act: () => filters.allStates() },
  ...(disputed ? DOUBTING : []),
  { keys: ["["], words: "previous scenario", act: () => turn(-1) },
  { keys: ["]"], words: "next scenario", act: () => turn(1) },
  { keys: [">"], words: `the next ${boot.limit}`, act: () => follow($("next-page")) },
  {
    keys: ["<"],
    words: `the ${boot.limit} before, or the top`,
    act: () => follow($("previous-page"), $("top-page")),
  },
  {
    keys: ["s"],
    words: "list why the board is out of date",
    act: () => banner.toggle(),
  },
  { keys: ["w"], words: "wall mode, and back", act: () => wall.set(!wall.on) },
  {
    keys: ["t"],
    words: "the next theme: dark, light, contrast, as the system",
    act: () => $("theme").click(),
  },
  { keys: ["Ctrl+k"], words: "go to any page, or any asset by its name" },
  { keys: ["?"], words: "this help", act: () => help.showModal() },
];
startKeys(KEYS, {
  tbody,
  search: $("q"),
  help,
  onEscape(target) {
    if (target === $("q")) target.blur();
    else if (selection.size && !$("panel").contains(target)) selection.clear();
    else if (state.panel.asset !== null) state.panel.close();
    else if (wall.on) wall.set(false);
    else /** @type {HTMLElement} */ (document.activeElement)?.blur();
  },
});

// ---- what the server says ----

const take = {
  snapshot(message) {
    clock.correct(message.now);
    if (message.answers !== state.filterNumber) return; // of the filter before: the next one is on its way
    state.least = message.least ?? false;
    paging.stopped = message.stopped ? message.next : "";
    paging.follows = Boolean(message.next);
    state.beyond = message.total - message.rows.length;
    takeCounts(message.counts);
    takeDoubts(message.doubts);
    takeAcknowledged(message.acknowledged);
    takeUnhandled(message.unhandled);
    rowsOf(state.faulty ? NOT_BY_THIS : "");
    rows.ranked = message.ranked;
    rows.mark(message.marks);
    rows.relate(message.causes);
    rows.snapshot(message.rows);
    showTotals();
    if (state.panel.asset !== null) renewFacts();
  },
  problem(message) {
    filters.problem(message);
    state.faulty = Boolean(message.message);
    if (!state.faulty) return; // the snapshot follows
    rowsOf(NOT_BY_THIS);
    showTotals();
  },
  changes(message) {
    if (message.counts) takeCounts(message.counts);
    if (message.doubts) takeDoubts(message.doubts);
    if (message.acknowledged) takeAcknowledged(message.acknowledged);
    if (message.unhandled) takeUnhandled(message.unhandled);
    if (message.tabs) showBadges({}, message.tabs);
    if (message.marks) rows.mark(message.marks);
    if (message.causes) rows.relate(message.causes);
    if (message.alerts) alarm.take(message.alerts);
    rows.change(message.rows, message.gone ?? []);
    showTotals();
    if (message.watched) renewFacts();
  },
  beat(message) {
    clock.correct(message.now);
    banner.update(message.problems ?? []);
    showBadges(message.badges, message.tabs);
    showBoardProblems(message.board_problems);
  },
};

const banner = new Banner($("banner"), boot.problems);
const alarm = new Alarm(
  $("alarm"),
  boot,
  (message) => socket.send(message),
  (asset) => state.panel.open(asset, addressOf(asset), null),
);
$("alarm-open").hidden = false;
$("alarm-open").addEventListener("click", () => {
  $("user-menu").open = false;
  alarm.settings();
});
const socket = openSocket(`/ws/board/${encodeURIComponent(boot.scenario)}/`, {
  hello: ask,
  after: () => (alarm.on ? [alarm.message()] : []),
  onMessage: (message) => take[message.type]?.(message),
  onStatus: (...given) => {
    state.connection = given;
    showStatus(...given);
    banner.socket(...given);
  },
});
clock.startClock(() => {
  showStatus(...state.connection);
  wall.tick();
  rows.tick();
});
