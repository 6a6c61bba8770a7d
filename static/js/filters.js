// The filter: in the form, in the address, and in words for the socket.
import { number } from "./number.js";

const TYPING_MS = 150;

/** Watch the form; onChange(filter) after each change, the address already following. */
export function startFilters(form, onChange) {
  let timer = 0;
  const changed = () => {
    clearTimeout(timer);
    remember(form);
    onChange(read(form));
  };
  form.addEventListener("change", changed);
  form.addEventListener("input", (event) => {
    if (event.target.type !== "search") return;
    clearTimeout(timer);
    timer = setTimeout(changed, TYPING_MS);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    changed();
  });
  return {
    read: () => read(form),
    /** Show or hide the state of the button at this place, from 0. */
    toggle(at) {
      form.querySelectorAll("[name=state]")[at]?.click();
    },
    clear() {
      for (const box of form.querySelectorAll("[name=state]")) box.checked = false;
      form.elements.q.value = "";
      changed();
    },
    allStates() {
      for (const box of form.querySelectorAll("[name=state]")) box.checked = false;
      changed();
    },
  };
}

function read(form) {
  const states = [...form.querySelectorAll("[name=state]:checked")].map((box) => box.value);
  return { states, q: form.elements.q.value };
}

/** The address of what the form asks for; another filter begins at the top. */
function remember(form) {
  const { states, q } = read(form);
  const url = new URL(location.href);
  url.searchParams.delete("after");
  url.searchParams.delete("state");
  for (const state of states) url.searchParams.append("state", state);
  if (q) url.searchParams.set("q", q);
  else url.searchParams.delete("q");
  history.replaceState(null, "", url);
}

/** Whether a row belongs to what the filter shows. */
export function matcher({ states, q }) {
  const wanted = new Set(states);
  const part = q.toLowerCase();
  return (row) =>
    (!wanted.size || wanted.has(row.state)) && row.asset.toLowerCase().includes(part);
}

/** Show the counts by state; a state outside the known ones gets a button of its own. */
export function showCounts(box, counts, make) {
  const seen = new Set();
  for (const chip of box.querySelectorAll("[data-state]")) {
    const n = number(counts[chip.dataset.state] ?? 0);
    seen.add(chip.dataset.state);
    const place = chip.querySelector(".n");
    if (place.textContent !== n) place.textContent = n;
  }
  for (const name of Object.keys(counts)) {
    if (make && !seen.has(name) && seen.size < 30) {
      seen.add(name);
      box.append(make(name, counts[name]));
    }
  }
}
