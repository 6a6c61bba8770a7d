// @ts-check
// The filter: in the form, in the address, and in words for the socket.
import { rewrite } from "./address.js";
import { startCompletion } from "../shared/completion.js";
import { number } from "../shared/number.js";

const TYPING_MS = 150;
const PATIENCE_MS = 700; // who is typing need not be told that there is something to come
const PLAIN = /^[^\s",:-][^\s",:]*$/; // one part of the name, and nothing of the language

/**
 * Watch the form; onChange(filter) after each change, the address already following.
 *
 * @param {any} form
 * @param {(filter: BoardFilter) => void} onChange
 */
export function startFilters(form, onChange) {
  let timer = 0;
  let doubt = 0;
  let last = JSON.stringify(read(form));
  const changed = () => {
    clearTimeout(timer);
    const filter = JSON.stringify(read(form));
    if (filter === last) return; // the box was only left
    last = filter;
    remember(form);
    showTerms(form);
    onChange(read(form));
  };
  form.addEventListener("click", (event) => {
    const chip = event.target.closest("a[data-term]");
    if (!chip || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    form.elements.q.value = toggled(form.elements.q.value, chip.dataset.term);
    changed();
  });
  form.addEventListener("change", changed);
  form.addEventListener("input", (event) => {
    if (event.target.name !== "q") return;
    clearTimeout(timer);
    timer = setTimeout(changed, TYPING_MS);
  });
  form.addEventListener("submit", (event) => {
    if (event.submitter?.hasAttribute("formaction")) return; // the filter goes to another page
    event.preventDefault();
    changed();
  });
  const { complete, scenario } = form.dataset;
  startCompletion(form.elements.q, document.getElementById("offers"), {
    address: (q) => `${complete}?${new URLSearchParams({ scenario, q })}`,
    taken: changed,
  });
  startSaving(form);
  return {
    read: () => read(form),
    /** Say why the text is no filter, unless it is going to be one; or that it is one. */
    problem(error) {
      clearTimeout(doubt);
      doubt = setTimeout(() => showProblem(form, error, changed), error.message ? PATIENCE_MS : 0);
    },
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

/** Where a term stands by itself in a text. */
const inText = (term) => new RegExp(`(^|\\s)${term}(?=\\s|$)`);

/** The text with a term, or without it where it has it. */
function toggled(text, term) {
  if (inText(term).test(text)) return text.replace(inText(term), "").trim();
  return `${text.trim()} ${term}`.trim();
}

/** Which of the buttons' terms the text has, and what each leads to in another tab. */
function showTerms(form) {
  const text = form.elements.q.value;
  for (const chip of form.querySelectorAll("a[data-term]")) {
    const { term } = chip.dataset;
    if (inText(term).test(text)) chip.setAttribute("aria-current", "true");
    else chip.removeAttribute("aria-current");
    const url = new URL(location.href);
    url.searchParams.delete("asset");
    url.searchParams.set("q", toggled(text, term));
    chip.href = url.pathname + url.search;
  }
}

function read(form) {
  const states = [...form.querySelectorAll("[name=state]:checked")].map((box) => box.value);
  return { states, q: form.elements.q.value };
}

/** The address of what the form asks for; another filter begins at the top. */
function remember(form) {
  const { states, q } = read(form);
  rewrite((query) => {
    query.delete("after");
    query.delete("state");
    for (const state of states) query.append("state", state);
    if (q || form.dataset.begins) query.set("q", q); // "": not with one's own
    else query.delete("q");
  });
}

/** What is wrong with the text, under the box; `meant` is a button that puts it there. */
function showProblem(form, { message, start, end, meant }, changed) {
  const place = document.getElementById("problem");
  const input = form.elements.q;
  place.hidden = !message;
  if (message) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
  place.replaceChildren();
  if (!message) return;
  const letters = [...input.value]; // the server counts characters, not halves of some
  const words = document.createElement("span");
  words.textContent = message;
  place.append(words);
  if (!meant) return;
  const button = Object.assign(document.createElement("button"), { type: "button" });
  button.className = "second";
  button.textContent = `Use ${meant}`;
  button.addEventListener("click", () => {
    input.value = [...letters.slice(0, start), meant, ...letters.slice(end)].join("");
    input.focus();
    changed();
  });
  place.append(button);
}

/** The form that saves the filter is given what the board shows when it is sent. */
function startSaving(form) {
  const saving = document.getElementById("save-filter");
  saving.addEventListener("submit", () => {
    const { states, q } = read(form);
    /** @type {any} */ (saving).elements.q.value = q;
    for (const old of saving.querySelectorAll("[name=state]")) old.remove();
    for (const value of states) {
      const hidden = { type: "hidden", name: "state", value };
      saving.append(Object.assign(document.createElement("input"), hidden));
    }
  });
}

/**
 * Whether a row belongs to what the filter shows, as far as this browser can tell: the language is
 * the server's, which sends what matches.
 *
 * @param {BoardFilter} filter
 * @returns {(row: BoardRow) => boolean}
 */
export function matcher({ states, q }) {
  const chosen = new Set(states);
  const part = PLAIN.test(q) ? q.toLowerCase() : "";
  return (row) =>
    (!chosen.size || chosen.has(row.state)) && row.asset.toLowerCase().includes(part);
}

/**
 * Whether `matcher` alone says which rows belong to it, so that no other ever stand there.
 *
 * @type {(filter: {q: string}) => boolean}
 */
export const isJudged = ({ q }) => !q || PLAIN.test(q);

/**
 * Show the counts by state; a state outside the known ones gets a button of its own.
 *
 * @param {HTMLElement} box
 * @param {Record<string, number>} counts
 * @param {(name: string, n: number) => HTMLElement} [make]
 */
export function showCounts(box, counts, make) {
  const offered = new Set();
  for (const chip of /** @type {NodeListOf<HTMLElement>} */ (box.querySelectorAll("[data-state]"))) {
    const n = number(counts[chip.dataset.state] ?? 0);
    offered.add(chip.dataset.state);
    const place = chip.querySelector(".n");
    if (place.textContent !== n) place.textContent = n;
  }
  for (const name of Object.keys(counts)) {
    if (make && !offered.has(name) && offered.size < 30) {
      offered.add(name);
      box.append(make(name, counts[name]));
    }
  }
}

/**
 * Show how many rows there are of each doubt; places stay where none is.
 *
 * @param {HTMLElement} box
 * @param {Record<string, number>} doubts
 */
export function showDoubts(box, doubts) {
  for (const chip of /** @type {NodeListOf<HTMLElement>} */ (box.querySelectorAll("[data-doubt]"))) {
    const n = doubts[chip.dataset.doubt] ?? 0;
    const count = chip.querySelector(".n");
    chip.classList.toggle("no-one", n === 0);
    if (count.textContent !== number(n)) count.textContent = number(n);
  }
}
