// The keyboard: / filters, j k and arrows walk, ? helps, Esc closes.
const TYPES = "input:not([type=checkbox]), select, textarea, [contenteditable]";

export function startKeys({ tbody, search, help, onEscape }) {
  const step = (by) => {
    const links = [...tbody.querySelectorAll("tr:not(.leaving) .asset")];
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    const chosen = tbody.querySelector(".chosen .asset");
    const from = at < 0 && chosen ? links.indexOf(chosen) : at;
    const next = from < 0 ? 0 : Math.min(links.length - 1, Math.max(0, from + by));
    links[next].focus({ preventScroll: true });
    links[next].closest("tr").scrollIntoView({ block: "nearest" });
  };
  const acts = {
    "/": () => {
      search.focus();
      search.select();
    },
    "?": () => help.showModal(),
    j: () => step(1),
    k: () => step(-1),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (help.open) return;
    if (event.key === "Escape") {
      if (event.target === search) event.preventDefault(); // or the browser empties the field
      onEscape(event.target);
      return;
    }
    if (event.target.matches?.(TYPES)) return;
    const walking = tbody.contains(event.target) || event.target === document.body;
    const arrows = walking ? { ArrowDown: acts.j, ArrowUp: acts.k } : {};
    const act = acts[event.key] ?? arrows[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}
