// @ts-check
// The marks of a row, as the server's templates make them (dashboard/core/states/templatetags/board.py).
import { both, ticking } from "../shared/clock.js";
import { number } from "../shared/number.js";
import { inWords, sparkline } from "./sparkline.js";

const SVG = "http://www.w3.org/2000/svg";

const words = new Map();

/**
 * The states of the scenario: name, label, colour, icon.
 *
 * @param {StateSpec[]} states
 */
export function knowStates(states) {
  for (const spec of states) words.set(spec.name, spec);
}

/**
 * How to show a state; one outside the vocabulary is grey, under its own name.
 *
 * @type {(name: string) => StateSpec}
 */
export const spec = (name) =>
  words.get(name) ?? { name, label: name, colour: "grey", icon: "ring" };

const CONTROLS = "\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069";
const LEFTWARDS =
  "\\u0590-\\u08ff\\ufb1d-\\ufdff\\ufe70-\\ufefc\\u{10800}-\\u{10fff}\\u{1e800}-\\u{1efff}";
const STEERS = new RegExp(`[${CONTROLS}]`, "gu");
const TURNS = new RegExp(`[${CONTROLS}${LEFTWARDS}]`, "u");

/**
 * A name for a text without markup, whatever its direction; as dashboard/core/common/text.py has it.
 *
 * @type {(name: string) => string}
 */
export const isolated = (name) =>
  TURNS.test(name) ? `\u2068${name.replace(STEERS, "\ufffd")}\u2069` : name;

function element(tag, classes, ...children) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  made.append(...children);
  return made;
}

const icons = new Map(); // copies are made of them: a page of rows has thousands

/**
 * An icon of the sprite.
 *
 * @param {string} name
 * @returns {SVGSVGElement}
 */
export function icon(name) {
  if (!icons.has(name)) icons.set(name, drawn(name));
  return icons.get(name).cloneNode(true);
}

function drawn(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/**
 * The badge of a state.
 *
 * @param {string} name
 * @returns {HTMLElement}
 */
export function state(name) {
  const { colour, icon: shape, label } = spec(name);
  return element("span", `state c-${colour}`, icon(shape), element("bdi", "word", label));
}

const UNKNOWN = "unknown"; // what an asset shows that nothing has tallied yet

/**
 * The state of a row; one that nothing has reported says so.
 *
 * @param {BoardRow} row
 * @returns {HTMLElement}
 */
export function rowState(row) {
  const made = state(row.state);
  const reported = words.has(UNKNOWN) || row.votes.length || row.doubt;
  const unreported = row.state === UNKNOWN && !reported;
  if (unreported) made.title = "no report yet";
  return made;
}

/**
 * The classes of a row: its edge has the colour of the worst that anybody says of it.
 *
 * @param {BoardRow} row
 * @returns {string}
 */
export function rowClass(row) {
  const worst = row.beneath ?? row.disputed;
  if (worst === null) return `s${row.severity} c-${row.colour}`;
  return `s${row.severity} c-${spec(worst).colour} is-disputed`;
}

function votesText(row) {
  const tally = new Map();
  const silent = new Map(row.silent);
  for (const [agent, name] of row.votes) {
    const label = `${silent.has(agent) ? "silent " : ""}${isolated(spec(name).label)}`;
    tally.set(label, (tally.get(label) ?? 0) + 1);
  }
  const whole = row.votes.length + row.more_votes;
  const parts = [...tally].map(([label, n]) => `${n} ${label}`).join(", ");
  const more = row.more_votes ? `, ${row.more_votes} more` : "";
  const muted = row.muted.length ? `; ${row.muted.length} of them muted` : "";
  const counted = `${whole} ${whole === 1 ? "vote" : "votes"}${parts ? ": " : ""}`;
  return `${counted}${parts}${more}${muted}${doubtsText(row.doubt)}`;
}

function doubtsText(doubt) {
  if (!doubt) return "";
  const voting = doubt.of.length - doubt.voteless.length;
  const apart = doubt.voteless.length + doubt.more;
  const ofThem = voting ? `; ${voting} of them in doubt` : "";
  return ofThem + (apart ? `; ${apart} in doubt without a vote` : "");
}

/**
 * One mark per vote, then per agent in doubt without one.
 *
 * @param {BoardRow} row
 */
export function votes(row) {
  const voteless = row.doubt?.voteless ?? [];
  if (!row.votes.length && !voteless.length) return element("span", "none", "none");
  const silent = new Map(row.silent);
  const why = new Map(row.doubt?.of);
  const marks = row.votes.map(([agent, name]) =>
    vote(agent, name, row.muted.includes(agent), why.get(agent), silent.get(agent)),
  );
  for (const [agent, said] of voteless) marks.push(votelessMark(agent, said, why.get(agent)));
  const more = row.more_votes + (row.doubt?.more ?? 0);
  if (more) marks.push(element("span", "more", `+${more}`));
  const all = element("span", "votes", ...marks);
  all.setAttribute("role", "img");
  all.setAttribute("aria-label", votesText(row));
  return all;
}

function vote(agent, name, muted, why, since) {
  const { colour, icon: shape, label } = spec(name);
  const kinds = `vote${muted ? " silenced" : ""}${why ? " is-doubted" : ""}${since ? " is-silent" : ""}`;
  const mark = element("span", `${kinds} c-${colour}`, icon(shape));
  if (since) mark.dataset.silent = since;
  mark.title = `${isolated(agent)}: ${isolated(label)}${muted ? ", muted: does not count" : ""}`;
  if (why) mark.title += `, in doubt: ${why}`;
  if (!since) return mark;
  mark.title += `, silent since ${both(since)}`;
  mark.dataset.local = "";
  return mark;
}

/** The mark of an agent in doubt that has no vote: it is what the agent said. */
function votelessMark(agent, said, why) {
  const { colour, icon: shape } = spec(said);
  const mark = element("span", `vote is-voteless is-doubted c-${colour}`, icon(shape));
  mark.title = `${isolated(agent)}: no vote, in doubt: ${why}`;
  return mark;
}

/** What is said worst, or lies beneath a pin, by its own sign, colour and word. */
function worse(name, words, title) {
  const { colour, icon: shape, label } = spec(name);
  const says = element("span", "says", words);
  const made = element("span", `badge disputed c-${colour}`, icon(shape), says, " ");
  made.append(element("bdi", "said", label));
  made.title = `${title} ${isolated(label)}`;
  return made;
}

function badge(kind, shape, title, word, rest = undefined) {
  const made = element("span", `badge ${kind}`, icon(shape), element("span", "word", word));
  if (rest) made.append(" ", rest);
  made.title = title;
  return made;
}

/**
 * What to know before trusting the row's state.
 *
 * @param {BoardRow} row
 * @returns {HTMLElement[]}
 */
export function badges(row) {
  const shown = [];
  if (row.beneath) shown.push(worse(row.beneath, "without the pin:", "without the pin"));
  else if (row.disputed) shown.push(worse(row.disputed, "disputed:", "disputed: somebody says, or said,"));
  if (row.override) {
    const [user, until] = row.override;
    const rest = until && ticking("until", until);
    shown.push(badge("override", "pin", `pinned by ${isolated(user)}`, "pinned", rest));
  }
  if (row.doubt?.why) shown.push(badge("doubted", "doubt", `in doubt: ${row.doubt.why}`, "in doubt", ""));
  if (row.unconfirmed) {
    const reason = row.unconfirmed_reason;
    const title = reason ? `unconfirmed: ${reason}` : "unconfirmed";
    const rest = reason && element("span", "reason", reason);
    shown.push(badge("unconfirmed", "question", title, "unconfirmed", rest));
  }
  return shown;
}

/**
 * What a row lies behind, where that is not well. state: in words; nothing where it is.
 *
 * @param {string} name
 * @param {string} [state]
 * @returns {HTMLElement[]}
 */
export function behind(name, state) {
  if (!state) return [];
  const made = badge("behind", "behind", `lies behind ${isolated(name)}, which is ${isolated(state)}`, "behind ");
  made.append(element("bdi", "said", name));
  return [made];
}

/**
 * Who has it in hand, its maintenance, the number of its notes, and its incident. ack, work: null
 * unless they are in force; incident: its number, null unless the asset is in one.
 *
 * @param {any} ack
 * @param {number} notes
 * @param {any} work
 * @param {number | null} incident
 * @returns {HTMLElement[]}
 */
export function annotations(ack, notes, work, incident) {
  const shown = [];
  if (ack) {
    const [by, , , , reason] = ack;
    const made = element("span", "badge ack", icon("hand"));
    made.append(element("span", "visually-hidden", "acknowledged by "));
    made.append(element("bdi", "who-has", by));
    made.title = `acknowledged by ${isolated(by)}${reason ? `: ${isolated(reason)}` : ""}`;
    shown.push(made);
  }
  if (work) {
    const [name, until] = work;
    const title = `in maintenance: ${isolated(name)}`;
    shown.push(badge("work", "wrench", title, "maintenance", ticking("until", until)));
  }
  if (notes) {
    const word = notes === 1 ? "note" : "notes";
    const made = element("span", "badge notes", icon("note"), element("span", "n", String(notes)));
    made.append(element("span", "visually-hidden", ` ${word}`));
    made.title = `${notes} ${word}`;
    shown.push(made);
  }
  if (incident) {
    const link = element("a", "case", `INC-${incident}`);
    link.setAttribute("tabindex", "-1"); // `i` follows it
    link.setAttribute("href", `/incidents/INC-${incident}/`);
    shown.push(link);
  }
  return shown;
}

/**
 * Beside a count of assets: how many of them are acknowledged.
 *
 * @param {number} n
 * @returns {HTMLElement}
 */
export function acked(n) {
  const made = element("span", "acked");
  made.title = "acknowledged";
  made.hidden = n === 0;
  const words = element("span", "visually-hidden", " acknowledged");
  if (n) made.append(icon("hand"), number(n), words);
  return made;
}

/**
 * The state that waits out its hold, and for how long yet.
 *
 * @param {BoardRow} row
 */
export function pending(row) {
  if (!row.pending) return [];
  const [name, due] = row.pending;
  const within = element("span", "in", "in");
  return [element("span", "pending", state(name), " ", within, " ", ticking("until", due))];
}

/**
 * What agents add: a text or a number. values: how the number has gone.
 *
 * @param {[string, number | null] | null} cell
 * @param {number[]} values
 * @returns {Element[]}
 */
export function detail(cell, values = []) {
  if (!cell) return [];
  const [text, value] = cell;
  const made = element("bdi", value === null ? "text" : "amount", text);
  made.title = isolated(text);
  if (values.length < 2) return [made];
  made.title = `${isolated(text)}: ${inWords(values)}`;
  return [sparkline(values), made, element("span", "visually-hidden", ` ${inWords(values)}`)];
}

/**
 * What brought the state about.
 *
 * @param {BoardRow} row
 */
export function cause(row) {
  const made = element("span", "", row.cause);
  made.title = both(row.caused_at);
  return made;
}

const pairsOf = (row) => row.labels ?? [];

/**
 * Whether a line shows the labels that its row has.
 *
 * @param {HTMLTableRowElement} tr
 * @param {BoardRow} row
 * @returns {boolean}
 */
export function sameLabels(tr, row) {
  const shown = Array.from(tr.querySelectorAll(".label-chip"), ({ firstChild, lastChild }) =>
    [firstChild.textContent, lastChild.textContent],
  );
  return JSON.stringify(shown) === JSON.stringify(pairsOf(row));
}

/**
 * Show a row's labels behind its name.
 *
 * @param {HTMLTableRowElement} tr
 * @param {BoardRow} row
 */
export function label(tr, row) {
  tr.querySelector(".labels")?.remove();
  const chips = pairsOf(row).map(([key, value]) => {
    const chip = element("span", "label-chip", element("span", "key", key), element("bdi", "", value));
    chip.title = `${key}: ${isolated(value)}`;
    return chip;
  });
  if (chips.length) tr.querySelector(".asset").after(element("span", "labels", ...chips));
}
