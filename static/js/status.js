// The pill in the header, and the line that says when the job is silent.
import { now, timeOfDay } from "./clock.js";

const ICONS = { live: "live", offline: "off", ended: "off" };
const JOB_SILENT_MS = 5000;

/** Show how the socket stands. */
export function showStatus(state, since, reason = "") {
  const pill = document.getElementById("live");
  pill.dataset.state = state;
  pill.querySelector("use").setAttribute("href", `#i-${ICONS[state] ?? "retry"}`);
  const at = timeOfDay(since + now() - Date.now());
  const words = { reconnecting: `reconnecting since ${at}`, offline: `offline since ${at}` };
  const word = document.getElementById("live-word");
  const text = words[state] ?? (reason || state);
  if (word.textContent !== text) word.textContent = text;
}

/** Show whether the job answers. heard: when it was last heard of (Unix ms), or null. */
export function showJob(line, heard) {
  const silent = heard === null || now() - heard > JOB_SILENT_MS;
  line.classList.toggle("silent", silent);
  document.body.classList.toggle("job-silent", silent);
  const text = !silent
    ? ""
    : heard === null
      ? "The job has not been heard of yet; nothing is tallied until it runs"
      : `The job has not answered since ${timeOfDay(heard)} UTC; states shown are the last known`;
  if (line.textContent !== text) line.textContent = text;
}
