// @ts-check
// The links below the rows: the next rows, those before, and the top. Each is a page with an address.
import { number } from "../shared/number.js";
import { byOrder } from "./order.js";

const TRAIL = "pages"; // in this tab's storage: the pages of one board that led to another

export class Paging {
  /**
   * after: the token that this page begins after, or ""; next: the one of the next page.
   *
   * @param {{after: string, next: string, limit: number, stopped: string}} page
   */
  constructor({ after, next, limit, stopped }) {
    this.after = after;
    this.next = next;
    this.limit = limit;
    this.follows = Boolean(next); // whether the server has more than this browser knows
    this.stopped = stopped ? next : ""; // the next page's token where the server looked no further for this one
    this.box = document.getElementById("more");
    this.nextLink = /** @type {HTMLAnchorElement} */ (document.getElementById("next-page"));
    this.previousLink = /** @type {HTMLAnchorElement} */ (document.getElementById("previous-page"));
    this.topLink = /** @type {HTMLAnchorElement} */ (document.getElementById("top-page"));
    this.nextLink.addEventListener("click", () => this.leaveTrail());
  }

  /** Another filter begins at the top. */
  top() {
    this.after = "";
  }

  /** What the socket's filter says of it. */
  ask() {
    return this.after ? { after: this.after } : {};
  }

  /**
   * shown: rows on the page; total: how many match, at least; known: all that match which the
   * browser has, be they shown or not.
   */
  show(shown, total, known) {
    this.next = this.tokenAfter(known);
    const left = this.after ? 0 : total - shown;
    document.getElementById("more-n").textContent = left > 0 ? `and ${number(left)} more` : "";
    document.getElementById("continued").hidden = !this.after;
    this.box.hidden = left <= 0 && !this.next && !this.after;
    document.getElementById("looked").hidden = !this.stopped;
    this.nextLink.hidden = !this.next;
    this.topLink.hidden = !this.after;
    this.nextLink.href = address(this.next);
    this.topLink.href = address("");
    this.showPrevious();
  }

  /** The next page begins after the last row that belongs to this one, as rows stand now. */
  tokenAfter(known) {
    if (this.stopped && known.length <= this.limit) return this.stopped;
    if (!this.follows && known.length <= this.limit) return "";
    const last = known.sort(byOrder)[Math.min(known.length, this.limit) - 1];
    return last ? `r${last.place}.${last.since}.${last.asset}` : this.next;
  }

  showPrevious() {
    const trail = readTrail();
    const at = trail.indexOf(this.after);
    this.previousLink.hidden = at < 1;
    this.previousLink.href = address(trail[at - 1] ?? "");
  }

  /** Remember how the next page was come to. */
  leaveTrail() {
    const trail = readTrail();
    const at = trail.indexOf(this.after);
    const tokens = [...(at < 0 ? [this.after] : trail.slice(0, at + 1)), this.next];
    try {
      sessionStorage.setItem(TRAIL, JSON.stringify({ board: address(""), tokens }));
    } catch {
      // No storage: the way back is the one to the top.
    }
  }
}

/** The tokens of the pages of this board, with this filter, that were come through in this tab. */
function readTrail() {
  try {
    const { board, tokens } = JSON.parse(sessionStorage.getItem(TRAIL)) ?? {};
    return board === address("") ? tokens : [];
  } catch {
    return [];
  }
}

function address(after) {
  const url = new URL(location.href);
  url.searchParams.delete("asset");
  if (after) url.searchParams.set("after", after);
  else url.searchParams.delete("after");
  return url.pathname + url.search;
}
