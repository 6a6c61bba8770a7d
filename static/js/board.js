// The board's page: socket, rows, filters, panel and keys put together.
import * as clock from "./clock.js";
import { matcher, showCounts, startFilters } from "./filters.js";
import { startKeys } from "./keys.js";
import * as marks from "./marks.js";
import { followFacts, Panel } from "./panel.js";
import { Rows } from "./rows.js";
import { openSocket } from "./socket.js";
import { showJob, showStatus } from "./status.js";

const $ = (id) => document.getElementById(id);
const boot = JSON.parse($("boot").textContent);
clock.correct(boot.now);
marks.knowStates(boot.states);

let { counts, total, heard } = boot;
let beyond = 0; // how many match that the server did not send

const all = () => Object.values(counts).reduce((sum, n) => sum + n, 0);
const plural = (n) => (n === 1 ? boot.noun : `${boot.noun}s`);

function matching() {
  const { states, q } = filters.read();
  if (q) return rows.wanted().length + beyond;
  return states.length ? states.reduce((sum, name) => sum + (counts[name] ?? 0), 0) : all();
}

function showTotals() {
  const shown = tbody.rows.length;
  total = Math.max(matching(), shown);
  $("shown").textContent = `${total} of ${all()} ${plural(all())}`;
  $("rows").hidden = shown === 0;
  $("more").hidden = total <= shown;
  $("more-n").textContent = total - shown;
  $("empty-board").hidden = all() > 0 || shown > 0;
  $("empty-filter").hidden = all() === 0 || shown > 0 || rows.known.size > 0;
}

const tbody = $("tbody");
const waiting = $("waiting");
const rows = new Rows(tbody, $("row-template"), boot.limit, {
  onShown: showTotals,
  onWaiting(n) {
    waiting.hidden = n === 0;
    $("waiting-n").textContent = n === 1 ? "1 change" : `${n} changes`;
  },
});
waiting.addEventListener("click", () => {
  rows.arrange();
  $("table-box").focus({ preventScroll: true });
});

const ask = () => ({ type: "filter", ...filters.read(), watch: panel.asset });
const filters = startFilters($("filters"), (filter) => {
  rows.narrow(matcher(filter));
  socket.send(ask());
});
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
  const word = Object.assign(document.createElement("span"), { className: "chip-word" });
  word.textContent = label;
  const count = Object.assign(document.createElement("span"), { className: "n" });
  count.textContent = n;
  made.append(box, marks.icon(icon), word, count);
  return made;
}

const panel = new Panel($("panel"), $("main"), (asset) => {
  rows.choose(asset);
  socket.send(ask());
});
rows.choose(panel.asset);
const renewFacts = followFacts();
tbody.addEventListener("click", (event) => {
  const link = event.target.closest("tr")?.querySelector(".asset");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  panel.open(link.closest("tr").dataset.asset, link.href, link);
});

const help = $("help");
$("help-button").hidden = false;
$("help-button").addEventListener("click", () => help.showModal());
startKeys({
  tbody,
  search: $("q"),
  help,
  onEscape(target) {
    if (target === $("q")) target.blur();
    else if (panel.asset !== null) panel.close();
    else document.activeElement?.blur();
  },
});

const take = {
  snapshot(message) {
    clock.correct(message.now);
    counts = message.counts;
    beyond = message.total - message.rows.length;
    showCounts($("state-filters"), counts, chip);
    rows.snapshot(message.rows);
    showTotals();
    if (panel.asset !== null) renewFacts();
  },
  changes(message) {
    if (message.counts) {
      counts = message.counts;
      showCounts($("state-filters"), counts, chip);
    }
    rows.change(message.rows, message.gone ?? []);
    showTotals();
    if (message.watched) renewFacts();
  },
  beat(message) {
    clock.correct(message.now);
    heard = message.heard ?? heard;
    showJob($("job"), heard);
    for (const tab of document.querySelectorAll(".tabs [data-scenario]")) {
      const badge = tab.querySelector(".tab-count");
      const n = message.worst[tab.dataset.scenario] ?? 0;
      badge.hidden = n === 0;
      badge.querySelector(".n").textContent = n;
    }
  },
};

let standing = [];
const socket = openSocket(`/ws/board/${encodeURIComponent(boot.scenario)}/`, {
  hello: ask,
  onMessage: (message) => take[message.type]?.(message),
  onStatus: (...status) => {
    standing = status;
    showStatus(...status);
  },
});
clock.startClock(() => {
  showStatus(...standing);
  showJob($("job"), heard);
});
showJob($("job"), heard);
