// @ts-check
// Completion in the filter's box (WAI-ARIA: a combobox with a list). Arrows choose, Tab or Enter
// takes what is chosen, Escape closes the list; nothing is taken that was not chosen.
const SOON_MS = 60; // keys that follow so soon are one question

/**
 * Offer in `list` what may stand in `input`; taken() after something was taken.
 *
 * @param {HTMLInputElement} input
 * @param {HTMLElement} list
 * @param {{url: string, scenario: string, taken: () => void}} options
 */
export function startCompletion(input, list, options) {
  return new Completion(input, list, options);
}

class Completion {
  constructor(input, list, { url, scenario, taken }) {
    this.input = input;
    this.list = list;
    this.url = url;
    this.scenario = scenario;
    this.taken = taken;
    this.at = -1;
    this.found = null;
    this.asked = null;
    this.timer = 0;
    input.addEventListener("input", () => this.typed());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => this.close());
    list.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the focus stays in the box
      const option = event.target.closest("[role=option]");
      if (option) this.take([...list.children].indexOf(option));
    });
  }

  get open() {
    return !this.list.hidden;
  }

  typed() {
    this.drop();
    const { value, selectionEnd } = this.input;
    const written = value.slice(0, selectionEnd);
    if (/\S$/.test(written)) this.timer = setTimeout(() => this.ask(), SOON_MS);
    else this.close();
  }

  drop() {
    clearTimeout(this.timer);
    this.asked?.abort();
    this.asked = null;
  }

  async ask() {
    this.drop();
    const asked = new AbortController();
    this.asked = asked;
    const { value, selectionEnd } = this.input;
    const query = { scenario: this.scenario, q: value.slice(0, selectionEnd) };
    try {
      const address = `${this.url}?${new URLSearchParams(query)}`;
      const answer = await fetch(address, { signal: asked.signal });
      if (!answer.ok) throw new Error(`${answer.status}`);
      this.show(await answer.json());
    } catch {
      if (!asked.signal.aborted) this.close(); // it can be typed without
    }
  }

  show({ start, end, items: offered }) {
    const letters = [...this.input.value]; // the server counts characters, not halves of some
    const units = (n) => letters.slice(0, n).join("").length;
    const typed = letters.slice(start, end).join("");
    const items = offered.filter(({ text }) => text !== typed);
    this.found = { start: units(start), end: units(end), items };
    this.at = -1;
    this.list.replaceChildren(...items.map(option));
    this.list.hidden = items.length === 0;
    this.input.setAttribute("aria-expanded", String(this.open));
    this.input.removeAttribute("aria-activedescendant");
  }

  close() {
    this.drop();
    this.list.hidden = true;
    this.list.replaceChildren();
    this.at = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      if (this.open) this.choose(this.at + step);
      else this.ask();
    } else if (event.key === "Escape" && this.open) {
      event.preventDefault();
      this.close();
    } else if ((event.key === "Enter" || event.key === "Tab") && this.open && this.at >= 0) {
      if (event.shiftKey) return;
      event.preventDefault();
      this.take(this.at);
    } else if (event.key === "Enter") this.close();
  }

  choose(at) {
    const options = [...this.list.children];
    this.at = (at + options.length) % options.length;
    for (const [n, each] of options.entries()) each.setAttribute("aria-selected", n === this.at);
    options[this.at].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[this.at].id);
  }

  take(at) {
    const { start, end, items } = this.found;
    const { text } = items[at];
    const { value } = this.input;
    const more = text.endsWith(":"); // a key: its values are asked for next
    const rest = value.slice(end);
    const put = more || /^[\s,]/.test(rest) ? text : `${text} `;
    this.input.value = value.slice(0, start) + put + rest;
    const caret = start + put.length;
    this.input.setSelectionRange(caret, caret);
    this.close();
    if (more) this.ask();
    else this.taken();
  }
}

function option({ label, note }, at) {
  const made = document.createElement("li");
  made.id = `offer-${at}`;
  made.setAttribute("role", "option");
  made.setAttribute("aria-selected", "false");
  const word = Object.assign(document.createElement("bdi"), { className: "offer" });
  word.textContent = label;
  made.append(word);
  if (note) {
    const more = document.createElement("small");
    more.textContent = note;
    made.append(" ", more);
  }
  return made;
}
