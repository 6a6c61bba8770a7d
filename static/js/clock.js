// The server's time, and everything on the page that ticks: one timer for all.
let offset = 0;

/** The time as the server has it, Unix ms. */
export const now = () => Date.now() + offset;

/** The server said that it is `at` (Unix ms) now. */
export function correct(at) {
  offset = at - Date.now();
}

const two = (n) => String(n).padStart(2, "0");

/** A duration in its two largest units: `42 s`, `5 m 07 s`, `3 h 12 m`, `4 d 03 h`. */
export function duration(ms) {
  const s = Math.floor(Math.max(0, ms) / 1000);
  if (s >= 86400) return `${Math.floor(s / 86400)} d ${two(Math.floor((s % 86400) / 3600))} h`;
  if (s >= 3600) return `${Math.floor(s / 3600)} h ${two(Math.floor((s % 3600) / 60))} m`;
  return s >= 60 ? `${Math.floor(s / 60)} m ${two(s % 60)} s` : `${s} s`;
}

const iso = (at) => new Date(at).toISOString();

/** The moment in UTC: `2026-01-31 14:03:59 UTC`. */
export const utc = (at) => `${iso(at).slice(0, 19).replace("T", " ")} UTC`;

/** The time of day in UTC: `14:03:59`. */
export const timeOfDay = (at) => iso(at).slice(11, 19);

/** A `<time>` that ticks; kind: `since` or `until`. */
export function ticking(kind, at) {
  const time = document.createElement("time");
  time.dataset[kind] = at;
  time.setAttribute("datetime", `${iso(at).slice(0, 19)}Z`);
  time.title = utc(at);
  time.textContent = duration(kind === "since" ? now() - at : at - now());
  return time;
}

function tick() {
  const at = now();
  for (const time of document.querySelectorAll("time[data-since], time[data-until]")) {
    const { since, until } = time.dataset;
    const text = duration(since === undefined ? until - at : at - since);
    if (time.textContent !== text) time.textContent = text;
  }
}

/** Let everything tick, once a second, and call `also` each time. */
export function startClock(also = () => {}) {
  setInterval(() => {
    if (!document.hidden) tick();
    also();
  }, 1000);
  document.addEventListener("visibilitychange", () => document.hidden || tick());
}
