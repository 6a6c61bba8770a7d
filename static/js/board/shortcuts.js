// @ts-check
// The keyboard: one table of keys, which the help shows and the page obeys.
const TYPES = "input:not([type=checkbox]), select, textarea, [contenteditable]";
const NAMES = {
  ArrowDown: "↓",
  ArrowUp: "↑",
  Escape: "Esc",
  " ": "Space",
  "Shift+ArrowDown": "Shift ↓",
  "Shift+ArrowUp": "Shift ↑",
  "Ctrl+a": "Ctrl A",
  "Ctrl+k": "Ctrl K",
};
const STORED = "keys";

/**
 * Steps through the rows' links; what is focused is brought into sight.
 *
 * @param {HTMLTableSectionElement} tbody
 */
export function walker(tbody) {
  const links = () => [...tbody.querySelectorAll("tr:not(.leaving) .asset")];
  const go = (all, at) => {
    const link = all[Math.min(all.length - 1, Math.max(0, at))];
    link?.focus({ preventScroll: true });
    link?.closest("tr").scrollIntoView({ block: "nearest" });
  };
  return {
    step(by) {
      const all = links();
      const at = all.indexOf(document.activeElement);
      const chosen = tbody.querySelector(".chosen .asset");
      const from = at < 0 && chosen ? all.indexOf(chosen) : at;
      go(all, from < 0 ? 0 : from + by);
    },
    /** Goes to the next row on that side that fits, round and round; whether there is one. */
    seek(by, fits) {
      const all = links();
      const here = all.findIndex((link) => link.closest("tr").contains(document.activeElement));
      const chosen = all.indexOf(tbody.querySelector(".chosen .asset"));
      const from = here < 0 ? chosen : here;
      const start = from < 0 && by < 0 ? 0 : from;
      for (let step = 1; step <= all.length; step++) {
        const at = (start + by * step + all.length * 2) % all.length;
        if (!fits(all[at].closest("tr"))) continue;
        go(all, at);
        return true;
      }
      return false;
    },
    /** The row that has the focus. */
    line: () => tbody.contains(document.activeElement) && document.activeElement.closest("tr"),
    first: () => go(links(), 0),
    last: () => go(links(), Infinity),
    open: () => tbody.contains(document.activeElement) && /** @type {HTMLElement} */ (document.activeElement).click(),
  };
}

/**
 * Obey `table`, a list of { keys, words, act, walks }, and list it in the help.
 *
 * walks: only while the focus is in the rows or nowhere, as these keys scroll the page elsewhere;
 * inside: only while it is in the rows.
 * An entry without `act` is done by the browser, or is Escape, which onEscape(target) does.
 *
 * @param {any[]} table
 * @param {{tbody: HTMLElement, search: HTMLElement, help: HTMLDialogElement, onEscape: (target: any) => void}} page
 */
export function startKeys(table, { tbody, search, help, onEscape }) {
  const acts = new Map();
  for (const entry of table) {
    for (const key of entry.keys) if (entry.act) acts.set(key, entry);
  }
  list(table, help.querySelector(".keys"));
  const on = startSwitch(help.querySelector("[name=keys]"));

  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]")) return;
    const control = event.ctrlKey || event.metaKey;
    if (event.key === "Escape" && !control) {
      if (event.target === search) event.preventDefault(); // or the browser empties the field
      onEscape(event.target);
      return;
    }
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.matches?.(TYPES)) return;
    const key = combination(event, acts);
    const entry = acts.get(key);
    if (!entry || (key.length === 1 && key !== " " && !on())) return;
    const nowhere = target === document.body || target.tabIndex === -1;
    if (entry.walks?.includes(key) && !nowhere && !tbody.contains(target)) return;
    if (entry.inside && !tbody.contains(target)) return;
    event.preventDefault();
    entry.act(key);
  });
}

/** `Ctrl+a`, `Shift+ArrowDown` where the table has that, else the key alone. */
function combination({ key, ctrlKey, metaKey, shiftKey }, acts) {
  if (ctrlKey || metaKey) return `Ctrl+${key.toLowerCase()}`;
  const shifted = `Shift+${key}`;
  return shiftKey && acts.has(shifted) ? shifted : key;
}

function list(table, place) {
  for (const { keys, words, shown } of table) {
    const line = document.createElement("div");
    const names = document.createElement("dt");
    const meaning = document.createElement("dd");
    for (const key of shown ?? keys) {
      const made = document.createElement("kbd");
      made.textContent = NAMES[key] ?? key;
      names.append(made, " ");
    }
    meaning.textContent = words;
    line.append(names, meaning);
    place.append(line);
  }
}

/** Single-key shortcuts can be switched off, for who speaks to the computer. */
function startSwitch(box) {
  try {
    box.checked = localStorage.getItem(STORED) !== "off";
    box.addEventListener("change", () => localStorage.setItem(STORED, box.checked ? "on" : "off"));
  } catch {
    // No storage: it holds for this page.
  }
  return () => box.checked;
}
