// @ts-check
// The server's time, the viewer's zone, and all that ticks on the page: one timer for it.
let offset = 0;
let frozen = false;
let day = "";

/** The name of the viewer's zone: `Europe/Berlin`. */
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone || "local time";

/**
 * The time as the server has it, Unix ms.
 *
 * @type {() => number}
 */
export const now = () => Date.now() + offset;

/**
 * The server said that it is `at` (Unix ms) now.
 *
 * @param {number} at
 */
export function correct(at) {
  offset = at - Date.now();
}

const two = (n) => String(n).padStart(2, "0");

/**
 * A duration in its two largest units: `42 s`, `5 m 07 s`, `3 h 12 m`, `4 d 03 h`.
 *
 * @param {number} ms
 * @returns {string}
 */
export function duration(ms) {
  const s = Math.floor(Math.max(0, ms) / 1000);
  if (s >= 86400) return `${Math.floor(s / 86400)} d ${two(Math.floor((s % 86400) / 3600))} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} m`;
  return s >= 60 ? `${Math.floor(s / 60)} m ${two(s % 60)} s` : `${s} s`;
}

const PAST_MS = 5000;

/**
 * How long it is until something: `42 s`; `–` where its time has passed, and nothing says that it
 * came, as while the job is silent.
 *
 * @param {number} ms
 * @returns {string}
 */
export const within = (ms) => (ms < -PAST_MS ? "–" : duration(ms));

const iso = (at) => new Date(at).toISOString();

/**
 * The day in the viewer's zone: `2026-01-31`.
 *
 * @param {number} at
 * @returns {string}
 */
export function localDay(at) {
  const date = new Date(at);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
}

/**
 * The time of day in the viewer's zone: `14:03:59`.
 *
 * @param {number} at
 * @returns {string}
 */
export function timeOfDay(at) {
  const date = new Date(at);
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(":");
}

/**
 * The moment in UTC: `2026-01-31 14:03:59 UTC`.
 *
 * @type {(at: number) => string}
 */
export const utc = (at) => `${iso(at).slice(0, 19).replace("T", " ")} UTC`;

/**
 * The moment in the viewer's zone: the time of day, before it the date unless it is today.
 *
 * @param {number} at
 * @returns {string}
 */
export function local(at) {
  const then = localDay(at);
  return then === localDay(now()) ? timeOfDay(at) : `${then} ${timeOfDay(at).slice(0, 5)}`;
}

/**
 * The moment in both, for a title: `2026-01-31 15:03:59 Europe/Berlin, 14:03:59 UTC`.
 *
 * @param {number} at
 * @returns {string}
 */
export function both(at) {
  const [then, here] = [utc(at), `${localDay(at)} ${timeOfDay(at)}`];
  return then.startsWith(here) ? then : `${here} ${zone}, ${then}`;
}

/**
 * A `<time>` in the viewer's zone, with UTC as its title.
 *
 * @param {number} at
 * @returns {HTMLTimeElement}
 */
export function timeAt(at) {
  const time = document.createElement("time");
  time.dataset.at = String(at);
  time.setAttribute("datetime", `${iso(at).slice(0, 19)}Z`);
  show(time);
  return time;
}

function show(time) {
  const at = Number(time.dataset.at);
  time.title = utc(at);
  time.textContent = local(at);
  time.dataset.local = "";
}

/** @type {(selector: string) => NodeListOf<HTMLElement>} */
const select = (selector) => document.querySelectorAll(selector);

/**
 * Show every `<time data-at="ms">` of the page in the viewer's zone, and name the zone.
 *
 * @param {boolean} again
 */
export function localise(again = false) {
  const fresh = again ? "" : ":not([data-local])";
  for (const time of select(`time[data-at]${fresh}`)) show(time);
  for (const place of select(`[data-moment]${fresh}`)) {
    place.title = both(Number(place.dataset.moment));
    place.dataset.local = "";
  }
  for (const time of select(`:is([data-since], [data-until])${fresh}`)) {
    time.title = both(Number(time.dataset.since ?? time.dataset.until));
    time.dataset.local = "";
  }
  for (const mark of select(`[data-silent]${fresh}`)) {
    const words = mark.title.slice(0, mark.title.lastIndexOf(" since ")); // what follows is a time
    mark.title = `${words} since ${both(Number(mark.dataset.silent))}`;
    mark.dataset.local = "";
  }
  for (const name of select("[data-zone]")) {
    if (name.textContent !== zone) name.textContent = zone;
  }
}

/** Localise the page, and whatever htmx brings into it later. */
export function startZone() {
  localise();
  document.addEventListener("htmx:afterSwap", () => localise());
}

/**
 * A `<time>` that ticks; kind: `since` or `until`.
 *
 * @param {"since" | "until"} kind
 * @param {number} at
 * @returns {HTMLTimeElement}
 */
export function ticking(kind, at) {
  const time = document.createElement("time");
  time.dataset[kind] = String(at);
  time.dataset.local = "";
  time.setAttribute("datetime", `${iso(at).slice(0, 19)}Z`);
  time.title = both(at);
  time.textContent = kind === "since" ? duration(now() - at) : within(at - now());
  return time;
}

/**
 * Whether durations stand still: what is not heard of any more must not look alive.
 *
 * @param {boolean} on
 */
export function freeze(on) {
  frozen = on;
}

function tick() {
  const at = now();
  if (localDay(at) !== day) {
    day = localDay(at);
    localise(true); // yesterday's times need their date from here on
  }
  if (frozen) return;
  for (const time of select("time[data-since], time[data-until]")) {
    const { since, until } = time.dataset;
    const text = since === undefined ? within(Number(until) - at) : duration(at - Number(since));
    if (time.textContent !== text) time.textContent = text;
  }
}

/**
 * Let everything tick, once a second, and call `also` each time.
 *
 * @param {() => void} also
 */
export function startClock(also = () => {}) {
  day = localDay(now());
  setInterval(() => {
    if (!document.hidden) tick();
    also();
  }, 1000);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
}
