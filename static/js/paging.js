// The links below the rows: the next rows, and back to the top. Each is a page with an address.
import { number } from "./number.js";

export class Paging {
  /** after: the token that this page begins after, or ""; next: the one of the next page. */
  constructor({ after, next }) {
    this.after = after;
    this.next = next;
    this.box = document.getElementById("more");
    this.nextLink = document.getElementById("next-page");
    this.topLink = document.getElementById("top-page");
  }

  /** Another filter begins at the top. */
  top() {
    this.after = "";
  }

  /** What the socket's filter says of it. */
  ask() {
    return this.after ? { after: this.after } : {};
  }

  /** shown: rows on the page; total: how many match, at least. */
  show(shown, total) {
    const left = this.after ? 0 : total - shown;
    document.getElementById("more-n").textContent = left > 0 ? `and ${number(left)} more` : "";
    document.getElementById("continued").hidden = !this.after;
    this.nextLink.hidden = !this.next;
    this.topLink.hidden = !this.after;
    this.box.hidden = left <= 0 && !this.next && !this.after;
    this.nextLink.href = address(this.next);
    this.topLink.href = address("");
  }
}

function address(after) {
  const url = new URL(location.href);
  url.searchParams.delete("asset");
  if (after) url.searchParams.set("after", after);
  else url.searchParams.delete("after");
  return url.pathname + url.search;
}
