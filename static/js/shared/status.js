// @ts-check
// The pill in the header: how the socket stands.
import { now, timeOfDay } from "./clock.js";

const ICONS = { live: "live", offline: "off", ended: "off" };

/**
 * Show how the socket stands. since: Unix ms of this machine.
 *
 * @param {string} [state]
 * @param {number} [since]
 * @param {string} [reason]
 */
export function showStatus(state, since, reason = "") {
  const pill = document.getElementById("live");
  pill.dataset.state = state;
  pill.querySelector("use").setAttribute("href", `#i-${ICONS[state] ?? "retry"}`);
  const at = timeOfDay(since + now() - Date.now());
  const words = {
    late: `no word since ${at}`,
    reconnecting: reason || `reconnecting since ${at}`,
    offline: `offline since ${at}`,
  };
  const word = document.getElementById("live-word");
  const text = words[state] ?? (reason || state);
  if (word.textContent !== text) word.textContent = text;
}
