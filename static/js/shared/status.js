// @ts-check
// The pill in the header: how the socket stands, and whether what it brings is live.
import { now, timeOfDay } from "./clock.js";

const ICONS = { live: "live", offline: "off", ended: "off", still: "off" };
const STILL = {
  kafka: "server cut off",
  web: "server late",
  job: "job silent",
  stopped: "job stopped",
  behind: "job behind",
};
let socket = /** @type {[string?, number?, string?]} */ ([]);
let still = /** @type {{ kind: string, since?: number | null } | null} */ (null);

/**
 * Show how the socket stands. since: Unix ms of this machine.
 *
 * @param {string} [state]
 * @param {number} [since]
 * @param {string} [reason]
 */
export function showStatus(state, since, reason = "") {
  socket = [state, since, reason];
  show();
}

/**
 * Show that nothing is live, whatever the socket says, by the problem that is why; null: it is.
 *
 * @param {{ kind: string, since?: number | null } | null} problem
 */
export function showStandstill(problem) {
  still = problem;
  if (socket[0]) show();
}

/** The first problem by which nothing is live, null where something is. */
export const standstill = (problems) => problems.find(({ kind }) => kind in STILL) ?? null;

function show() {
  const [state, since, reason] = socket;
  const stands = state === "live" && still ? "still" : state;
  const pill = document.getElementById("live");
  pill.dataset.state = stands;
  pill.querySelector("use").setAttribute("href", `#i-${ICONS[stands] ?? "retry"}`);
  const at = timeOfDay(since + now() - Date.now());
  const words = {
    still: still && STILL[still.kind] + (still.since ? ` since ${timeOfDay(still.since)}` : ""),
    late: `no answer since ${at}`,
    reconnecting: reason || `reconnecting since ${at}`,
    offline: `offline since ${at}`,
  };
  const word = document.getElementById("live-word");
  const text = words[stands] ?? (reason || stands);
  if (word.textContent !== text) word.textContent = text;
}
