// @ts-check
// What becomes of a form that is sent: once only, under way where it takes long, not answered.
//
// A form that htmx sends stays on its page, so it says itself that no answer came, and keeps what
// was typed. A plain form leaves its page: until the next one is there it is not sent once more.
import { announce } from "./announcements.js";

const SLOW_MS = 1000; // what takes longer is said to be under way
const PATIENCE_MS = 20_000; // after this a plain form may be sent again
const KEPT = "What you typed is still here";
const FAULTS = {
  unreached: `The server cannot be reached. ${KEPT}: send it again when the page is live.`,
  unanswered: `The server has not answered in time; it may have been done all the same. ${KEPT}.`,
  offline: `This computer is offline: nothing was sent. ${KEPT}.`,
  403: `Not allowed (403): your login or your role may have changed. ${KEPT}; load the page again.`,
  404: "It is not there any more (404): load the page again.",
  413: `Too much was sent (413). ${KEPT}: make it shorter.`,
  429: `Too often in a short time (429). ${KEPT}: send it again in a minute.`,
};

const under = new Map(); // the form, and what ends that it is under way

/** Watch every form of the page, and what htmx brings into it later. */
export function watchForms() {
  document.addEventListener("submit", leaving);
  addEventListener("pageshow", () => [...under.keys()].forEach(end));
  /** @type {(kind: string, act: (detail: any) => void) => void} */
  const on = (kind, act) =>
    document.addEventListener(`htmx:${kind}`, (/** @type {CustomEvent} */ event) => act(event.detail));
  on("beforeRequest", ({ elt, requestConfig }) => {
    blame(elt, "");
    if (elt.matches("form")) begin(elt, requestConfig.triggeringEvent?.submitter);
  });
  on("afterRequest", ({ elt }) => end(elt)); // also of a form that its answer has replaced
  on("sendError", ({ elt }) => blame(elt, FAULTS.unreached));
  on("timeout", ({ elt }) => blame(elt, FAULTS.unanswered));
  on("responseError", ({ elt, xhr: { status } }) =>
    blame(elt, FAULTS[status] ?? `The server failed (${status}). ${KEPT}: send it again.`),
  );
}

/** A plain form, on its way to the next page. */
function leaving(event) {
  const form = event.target;
  if (event.defaultPrevented || form.getAttribute("method")?.toLowerCase() !== "post") return;
  if (under.has(form)) event.preventDefault();
  else if (!navigator.onLine) {
    event.preventDefault();
    blame(form, FAULTS.offline);
  } else {
    blame(form, "");
    begin(form, event.submitter);
    setTimeout(end, PATIENCE_MS, form);
  }
}

function begin(form, button) {
  const word = Object.assign(document.createElement("span"), { className: "under-way" });
  word.textContent = "under way …";
  const soon = setTimeout(() => {
    (button ?? form.lastElementChild)?.after(word);
    announce("Under way");
  }, SLOW_MS);
  form.setAttribute("aria-busy", "true");
  under.set(form, () => {
    clearTimeout(soon);
    word.remove();
    form.removeAttribute("aria-busy");
  });
}

function end(form) {
  under.get(form)?.();
  under.delete(form);
}

/** Say in the form what went wrong, or nothing any more. What renews itself says it elsewhere. */
function blame(form, words) {
  if (!form.matches?.("form")) return;
  form.querySelector(":scope > .not-sent")?.remove();
  if (!words) return;
  const line = Object.assign(document.createElement("p"), { className: "field-errors not-sent" });
  line.setAttribute("role", "alert");
  line.textContent = words;
  form.append(line);
  line.scrollIntoView({ block: "nearest" });
  // The button was disabled meanwhile, and so lost the focus.
  queueMicrotask(() => {
    if (document.activeElement === document.body) form.querySelector("[type=submit]")?.focus();
  });
}
