import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { built } from "./dom.mjs";

const link = (attributes, name) => [
  "a",
  attributes,
  [
    ["bdi", { class: "tab-name" }, [name]],
    ["span", { class: "tab-count", "data-count": "0" }, [["b", { class: "n" }, []], ["i", { class: "words" }, []]]],
  ],
];
const team = (filter, title) => ({
  ...{ filter, of: "attack", q: `team:${title}`, title, name: title, full: `Attacks: ${title}` },
  address: `/?scenario=attack&q=team:${title}`,
});
const EU = { "data-filter": "1", "data-of": "attack", "data-q": "team:EU", "data-title": "EU", "aria-current": "page" };

let told; // what the server says next
let poll; // has the page ask for it
let isUsed; // whether somebody is at the bar
let nav;
let group;
let markCurrent;

const named = () => group.childNodes.map((tab) => [tab.dataset.filter, tab.textContent, tab.title]);
const current = () => nav.links().filter((tab) => tab.hasAttribute("aria-current"));

beforeEach(async (context) => {
  const board = built(link({ "data-scenario": "attack" }, "Attacks"));
  group = built(["div", {}, [link(EU, "EU")]]);
  nav = built(["nav", { "data-tabs": "/tabs/", "data-live": "" }, []]);
  isUsed = false;
  Object.assign(nav, {
    links: () => [board, ...group.childNodes],
    matches: () => isUsed,
    querySelectorAll: (query) => nav.links().filter((tab) => tab.attributes.has(query.slice(1, -1))),
  });
  const template = { content: { firstElementChild: built(link({}, "")) } };
  const known = { tabs: nav, "team-tabs": group, "team-tab": template };
  Object.assign(document, { title: "EU · Attacks · Tallyboard", getElementById: (id) => known[id] ?? null });
  globalThis.setTimeout = (run) => (poll = run);
  globalThis.clearTimeout = () => {};
  globalThis.fetch = async () => ({ ok: true, json: async () => ({ incidents: 0, ...told }) });
  const tabs = await import(`../../static/js/shared/tabs.js?${context.name}`);
  markCurrent = tabs.markCurrent;
  markCurrent("attack", { states: [], q: "team:EU" });
  tabs.followTabs();
});

test("a board of a team that was renamed has its new name; withdrawn it goes, and its board is shown", async () => {
  told = { filters: [{ ...team("1", "Europe"), q: "team:EU" }], tabs: {} };
  await poll();
  assert.deepEqual(named(), [["1", "Europe", "Attacks: Europe"]]);
  assert.deepEqual(current(), group.childNodes);
  assert.match(document.title, /^Europe · Attacks/);
  told = { filters: [], tabs: {} };
  await poll();
  assert.deepEqual([named(), group.hidden], [[], true]);
  assert.deepEqual(current(), [nav.links()[0]]);
  assert.match(document.title, /^Attacks/);
});

test("one that was made comes, with what is unhandled there", async () => {
  told = { filters: [team("1", "EU"), team("2", "US")], tabs: { 2: [3, "red", "Under attack"] } };
  await poll();
  assert.deepEqual(named().at(-1), ["2", "US3unhandled, at worst Under attack", "Attacks: US"]);
  assert.equal(group.childNodes[1].href, "/?scenario=attack&q=team:US");
});

test("no tab moves while somebody is at the bar", async () => {
  told = { filters: [], tabs: {} };
  isUsed = true;
  await poll();
  assert.equal(named().length, 1);
  isUsed = false;
  await poll();
  assert.equal(named().length, 0);
});
