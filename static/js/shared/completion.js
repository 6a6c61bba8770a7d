// @ts-check
// Completion in the filter's box (WAI-ARIA: a combobox with a list). Arrows choose, Tab or Enter
// takes what is chosen, Escape closes the list; nothing is taken that was not chosen.
//
// Keys may come faster than answers. While an answer is awaited, the list is of an earlier text:
// nothing is taken from it, and what the keys ask for is done once the answer is there.
const SOON_MS = 60; // keys that follow so soon are one question

/**
 * Offer in `list` what may stand in `input`. address: returns where the beginning of a filter is
 * completed; taken() after something was taken.
 *
 * @param {HTMLInputElement} input
 * @param {HTMLElement} list
 * @param {{address: (begun: string) => string, taken?: () => void}} options
 */
export function startCompletion(input, list, options) {
  return new Completion(input, list, options);
}

class Completion {
  constructor(input, list, { address, taken = () => {} }) {
    this.input = input;
    this.list = list;
    this.address = address;
    this.taken = taken;
    this.at = -1;
    this.completion = null;
    this.request = null;
    this.timer = 0;
    this.steps = 0; // how far the arrows went while an answer was awaited
    this.takes = false; // whether what they reach is taken then
    input.addEventListener("input", () => this.typed());
    input.addEventListener("keydown", (event) => this.key(event));
    input.addEventListener("blur", () => this.close());
    list.addEventListener("mousedown", (event) => {
      event.preventDefault(); // the focus stays in the box
      const option = event.target.closest("[role=option]");
      if (option && !this.asking) this.take([...list.children].indexOf(option));
    });
  }

  get open() {
    return !this.list.hidden;
  }

  /** Whether an answer is awaited. */
  get asking() {
    return this.timer !== 0 || this.request !== null;
  }

  typed() {
    this.drop();
    this.forget();
    const { value, selectionEnd } = this.input;
    const written = value.slice(0, selectionEnd);
    if (/\S$/.test(written)) this.timer = setTimeout(() => this.ask(), SOON_MS);
    else this.close();
  }

  /** Await no answer, and do nothing of what was to be done with it. */
  drop() {
    clearTimeout(this.timer);
    this.timer = 0;
    this.request?.abort();
    this.request = null;
    this.steps = 0;
    this.takes = false;
  }

  /** Choose nothing. */
  forget() {
    this.at = -1;
    for (const each of this.list.children) each.setAttribute("aria-selected", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  async ask() {
    clearTimeout(this.timer);
    this.timer = 0;
    const request = new AbortController();
    this.request = request;
    const { value, selectionEnd } = this.input;
    const address = this.address(value.slice(0, selectionEnd));
    try {
      const answer = await fetch(address, { signal: request.signal });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const completion = await answer.json();
      if (request === this.request) this.answered(completion);
    } catch {
      if (!request.signal.aborted) this.close(); // it can be typed without
    }
  }

  /** Show an answer, and do what the keys asked for meanwhile. */
  answered(completion) {
    const { steps, takes } = this;
    this.drop();
    this.show(completion);
    if (!steps || !this.open) return;
    this.choose(steps > 0 ? steps - 1 : steps);
    if (takes) this.take(this.at);
  }

  show({ start, end, items: offered }) {
    const letters = [...this.input.value]; // the server counts characters, not halves of some
    const units = (n) => letters.slice(0, n).join("").length;
    const typed = letters.slice(start, end).join("");
    const items = offered.filter(({ text }) => text !== typed);
    this.completion = { start: units(start), end: units(end), items };
    this.list.replaceChildren(...items.map(option));
    this.list.hidden = items.length === 0;
    this.input.setAttribute("aria-expanded", String(this.open));
    this.forget();
  }

  close() {
    this.drop();
    this.list.hidden = true;
    this.list.replaceChildren();
    this.input.setAttribute("aria-expanded", "false");
    this.forget();
  }

  key(event) {
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      if (this.asking) this.steps += step;
      else if (this.open) this.choose(this.at + step);
      else this.ask();
    } else if (event.key === "Escape" && this.open) {
      event.preventDefault();
      this.close();
    } else if ((event.key === "Enter" || event.key === "Tab") && this.chooses) {
      if (event.shiftKey) return;
      event.preventDefault();
      if (this.asking) this.takes = true;
      else this.take(this.at);
    } else if (event.key === "Enter") this.close();
  }

  /** Whether an option is chosen, or will be once the answer is there. */
  get chooses() {
    return this.asking ? this.steps !== 0 : this.open && this.at >= 0;
  }

  choose(at) {
    const options = [...this.list.children];
    this.at = ((at % options.length) + options.length) % options.length;
    for (const [n, each] of options.entries()) each.setAttribute("aria-selected", n === this.at);
    options[this.at].scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", options[this.at].id);
  }

  take(at) {
    const { start, end, items } = this.completion;
    const { text } = items[at];
    const { value } = this.input;
    const more = text.endsWith(":"); // a key: its values come next
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
