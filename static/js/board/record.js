// @ts-check
// A record of the log, shown over the page that names its place.
/* global htmx */

/** From here on links to records open in the page's dialog, where it has one. */
export function followRecords() {
  document.addEventListener("click", (event) => {
    /** @type {HTMLAnchorElement | null} */
    const link = /** @type {Element} */ (event.target).closest?.("a.record-link");
    const dialog = document.getElementById("record-dialog");
    if (!link || !dialog || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    if (dialog.contains(link)) go(link);
    else open(dialog, link);
  });
}

/** Within the dialog: to another record, with the focus where it was. */
async function go({ href, id }) {
  const place = document.getElementById("record");
  try {
    await htmx.ajax("GET", href, { source: place, target: place, swap: "innerHTML" });
  } catch {
    place.textContent = "The server did not answer: close this and try again.";
  }
  (document.getElementById(id) ?? document.getElementById("record-next"))?.focus();
}

async function open(dialog, link) {
  const { href, id } = link;
  const place = document.getElementById("record");
  place.textContent = "Reading it from Kafka …";
  // By then the page may have been renewed, and the link with it.
  const back = () => document.getElementById(id)?.focus({ preventScroll: true });
  dialog.addEventListener("close", back, { once: true });
  dialog.showModal();
  try {
    await htmx.ajax("GET", href, { source: place, target: place, swap: "innerHTML" });
  } catch {
    place.textContent = "The server did not answer: close this and try again.";
  }
}
