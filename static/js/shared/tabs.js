// @ts-check
// The scenarios' tabs: of each how many are in its most severe state, on every page.
//
// A board is told by its socket. Other pages ask `data-tabs` every few seconds; while the server
// does not answer, the counts are marked as old.
import { now, timeOfDay } from "./clock.js";
import { number } from "./number.js";
import { titleAlarms } from "./title.js";

const EVERY_MS = 5000;
const PATIENCE_MS = 10_000;
const nav = document.getElementById("tabs");
const tabs = /** @type {HTMLElement[]} */ ([...(nav?.querySelectorAll("[data-scenario]") ?? [])]);

/**
 * Show how many are in each scenario's most severe state; of what is not named, what was known.
 *
 * @param {Record<string, number>} worst
 */
export function showWorst(worst) {
  for (const tab of tabs) {
    const n = worst[tab.dataset.scenario];
    /** @type {HTMLElement} */
    const badge = tab.querySelector(".tab-count");
    if (n === undefined || badge.dataset.count === String(n)) continue;
    badge.dataset.count = String(n);
    badge.hidden = n === 0;
    badge.querySelector(".n").textContent = number(n);
  }
  titleAlarms(alarms());
}

/** Of the board that is shown, or of all together; a life cycle has no worst state. */
function alarms() {
  const current = tabs.filter((tab) => tab.hasAttribute("aria-current"));
  const counted = (current.length ? current : tabs).filter((tab) => !("lifeCycle" in tab.dataset));
  const n = counted.reduce((sum, tab) => sum + count(tab), 0);
  return n ? number(n) : "";
}

/** @param {HTMLElement} tab */
function count(tab) {
  return Number(tab.querySelector(".tab-count").getAttribute("data-count"));
}

/** Keep the tabs of a page without a socket live. */
export function followTabs() {
  if (!nav?.dataset.tabs) return;
  let timer = 0;
  const ask = async () => {
    clearTimeout(timer);
    if (document.hidden) return; // asked again once it is seen
    try {
      const answer = await fetch(nav.dataset.tabs, { signal: AbortSignal.timeout(PATIENCE_MS) });
      if (!answer.ok || answer.redirected) throw new Error(`status ${answer.status}`);
      showWorst((await answer.json()).worst);
      delete nav.dataset.stale;
      nav.removeAttribute("title");
    } catch {
      if (!nav.dataset.stale) nav.title = `Counts as they were at ${timeOfDay(now())}: the server does not answer`;
      nav.dataset.stale = "true";
    }
    timer = setTimeout(ask, EVERY_MS);
  };
  document.addEventListener("visibilitychange", () => document.hidden || ask());
  timer = setTimeout(ask, EVERY_MS);
}
