// @ts-check
// The command palette (Ctrl+K): pages by their titles, assets by a part of their name, and what can
// be done: to the form that does it, filled in.
//
// Pages are those that the server names for this role, and the links of this page's own menus, so that
// nobody is offered what is not allowed.
// Assets are asked for at each key; an answer that comes late for another text is dropped.
const SOON_MS = 40; // two keys in a row are one question
const BOARDS = 1; // their place among what is opened most

/**
 * Let `dialog` open by Ctrl+K or ⌘K, and by the click of `button`.
 *
 * @param {any} dialog
 * @param {HTMLElement} button
 */
export function startPalette(dialog, button) {
  const palette = new Palette(dialog);
  document.addEventListener("keydown", (event) => {
    const shortcut = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
    if (!shortcut || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else if (!document.querySelector("dialog[open]")) palette.open();
  });
  button.addEventListener("click", () => palette.open());
  button.hidden = false;
}

class Palette {
  constructor(dialog) {
    this.dialog = dialog;
    this.input = dialog.querySelector("input");
    this.acts = dialog.querySelector("#palette-acts");
    this.offers = dialog.querySelector("#palette-offers");
    this.verbs = dialog.querySelector("#palette-verbs");
    this.places = dialog.querySelector("#palette-places");
    this.title = dialog.querySelector("#palette-pages");
    this.titles = { pages: this.title.textContent, often: this.title.dataset.often };
    this.none = dialog.querySelector("#palette-none");
    this.links = [];
    this.at = 0;
    this.request = null;
    this.timer = 0;
    this.waits = false; // for the server's answer
    this.moved = false; // something was chosen by the arrows
    this.eager = null; // Enter was pressed before the answer: how to follow what comes first
    this.input.addEventListener("input", () => this.typed());
    dialog.addEventListener("click", (event) => {
      const fills = event.target.closest("[data-fill]");
      if (fills) this.fill(fills);
    });
    this.input.addEventListener("keydown", (event) => this.key(event));
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => this.drop());
  }

  open() {
    this.links = pages();
    this.input.value = "";
    this.empty();
    this.dialog.showModal();
    this.input.focus();
    this.typed();
  }

  typed() {
    this.listPages();
    this.listVerbs();
    this.drop();
    this.moved = false;
    this.eager = null;
    this.waits = this.text() !== "";
    if (this.waits) this.timer = setTimeout(() => this.ask(), SOON_MS);
    else this.empty();
    this.shown(0);
  }

  /** Of a text that is empty nothing is looked up. */
  empty() {
    this.acts.replaceChildren();
    this.offers.replaceChildren();
  }

  text() {
    return this.input.value.trim();
  }

  drop() {
    clearTimeout(this.timer);
    this.request?.abort();
    this.request = null;
  }

  async ask() {
    const request = new AbortController();
    this.request = request;
    const asks = new URLSearchParams({ q: this.text(), board: board() });
    const address = `${this.dialog.dataset.assets}?${asks}`;
    try {
      const answer = await fetch(address, {
        headers: { "HX-Request": "true" },
        signal: request.signal,
      });
      if (!answer.ok) throw new Error(`${answer.status}`);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      this.answered([...page.querySelectorAll("[role=option]")]);
    } catch {
      if (request.signal.aborted) return;
      this.answered([], "The server does not answer: assets cannot be looked up.");
    }
  }

  /** List these assets; what the arrows have chosen stays chosen. */
  answered(results, fault = "") {
    const chosen = this.moved ? this.options()[this.at]?.href : null;
    this.waits = false;
    this.acts.replaceChildren(...results.filter((each) => each.matches(".act")));
    this.offers.replaceChildren(...results.filter((each) => !each.matches(".act")));
    this.shown(chosen ? this.options().findIndex(({ href }) => href === chosen) : 0, fault);
    if (this.eager && !fault) this.follow(this.eager.newTab);
    this.eager = null;
  }

  /** Before anything is typed, what this role opens most; then what has each word. */
  listPages() {
    const text = this.text().toLowerCase();
    const words = text.split(/\s+/);
    const matches = text
      ? this.links.filter(({ search }) => words.every((word) => search.includes(word)))
      : this.links.filter(({ often }) => often !== null).sort((a, b) => a.often - b.often);
    this.places.replaceChildren(...matches.map(option));
    this.title.textContent = text ? this.titles.pages : this.titles.often;
  }

  /** What can be done, while its first word is being typed. */
  listVerbs() {
    const text = this.input.value.trimStart().toLowerCase();
    const all = [...this.dialog.querySelectorAll("template[data-verb]")];
    const matches = all.filter(({ dataset }) => (text ? dataset.verb.startsWith(text) : "often" in dataset));
    this.verbs.replaceChildren(...matches.map(({ dataset }) => verb(dataset)));
  }

  /** Begin a text that says what is to be done. */
  fill(chosen) {
    this.input.value = `${chosen.dataset.fill} `;
    this.input.focus();
    this.typed();
  }

  /** What is listed has changed: choose the option at `at`, and say what is missing. */
  shown(at, fault = "") {
    const groups = [this.acts, this.offers, this.places, this.verbs];
    for (const group of groups) group.previousElementSibling.hidden = !group.children.length;
    const nothing = !this.options().length && !this.waits;
    this.none.textContent = fault || (nothing ? this.waitsForMore() || "No page or asset has this in its name." : "");
    this.none.hidden = !this.none.textContent;
    this.choose(at);
  }

  /** What is missing of a text that says what is to be done. */
  waitsForMore() {
    const first = this.text().toLowerCase().split(/\s+/)[0];
    const verb = this.dialog.querySelector(`template[data-verb="${CSS.escape(first)}"]`);
    if (!verb || first === "bulk") return "";
    const whom = /mute$/.test(first) ? "an agent’s name" : "an asset’s name";
    return `Keep typing: a part of ${whom}${first === "set" || first === "vote" ? ", and a state" : ""}.`;
  }

  options() {
    return [...this.dialog.querySelectorAll("[role=option]")];
  }

  choose(at) {
    const all = this.options();
    this.at = Math.min(Math.max(at, 0), Math.max(all.length - 1, 0));
    all.forEach((each, n) => each.setAttribute("aria-selected", String(n === this.at)));
    const chosen = all[this.at];
    chosen?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", chosen?.id ?? "");
  }

  key(event) {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 8, PageUp: -8 };
    if (event.key in steps) {
      this.moved = true;
      this.choose(this.at + steps[event.key]);
    } else if (event.key === "Enter") this.enter(event.ctrlKey || event.metaKey);
    else if (event.key === "Escape") this.dialog.close(); // the first one, also from a full field
    else return;
    event.preventDefault();
  }

  /** Follow what is chosen; what is listed for another text is not, so it waits for the answer. */
  enter(newTab) {
    if (this.waits && !this.moved) this.eager = { newTab };
    else this.follow(newTab);
  }

  follow(newTab) {
    const chosen = this.options()[this.at];
    if (!chosen) return;
    if (chosen.dataset.fill) {
      this.fill(chosen);
      return;
    }
    if (newTab) window.open(chosen.href, "_blank", "noopener");
    else location.assign(chosen.href);
    this.dialog.close();
  }
}

/** The address of the board that this page shows, with its filter; nothing on other pages. */
const board = () => (document.body.matches(".board-page") ? boardAddress() : "");

function boardAddress() {
  const url = new URL(location.href);
  /** @type {HTMLInputElement | null} */
  const scenario = document.querySelector("#filters [name=scenario]");
  if (scenario) url.searchParams.set("scenario", scenario.value);
  return url.pathname + url.search;
}

function verb({ verb: name, what }) {
  const made = option({ name, hint: what, href: "" }, name);
  made.id = `palette-verb-${name}`;
  made.removeAttribute("href");
  made.dataset.fill = name;
  return made;
}

const isWords = (node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim() !== "";

/** The boards, the pages of this role, and the links of the user's menu. */
function pages() {
  return [
    ...links("#tabs > a", "board", BOARDS),
    ...links(".tabs-examples a", "board", null),
    ...named(),
    ...links("#user-menu a", "", null),
  ];
}

/** The pages that the server names. */
function named() {
  /** @type {NodeListOf<HTMLTemplateElement>} */
  const all = document.querySelectorAll("template[data-page]");
  return [...all].map(({ dataset: { page, hint, address, often } }) =>
    place(page, hint, address, often === undefined ? null : Number(often)),
  );
}

/** The links of a menu; of a board the title without its count. */
function links(selector, hint, often) {
  /** @type {NodeListOf<HTMLAnchorElement>} */
  const all = document.querySelectorAll(selector);
  return [...all].map((link) => {
    const words = [...link.childNodes].find(isWords) ?? link;
    return place(words.textContent.trim(), hint, link.href, often);
  });
}

function place(name, hint, href, often) {
  return { name, hint, href, often, search: `${name} ${hint}`.toLowerCase() };
}

function option({ name, hint, href }, n) {
  const made = document.createElement("a");
  made.className = "option";
  made.id = `palette-page-${n}`;
  made.href = href;
  made.tabIndex = -1;
  made.setAttribute("role", "option");
  const title = document.createElement("span");
  title.className = "option-name";
  title.textContent = name;
  const small = document.createElement("small");
  small.textContent = hint;
  made.append(title, small);
  return made;
}
