// @ts-check
// Bulk and maintenance of what is selected: the pages' own forms, in a dialog over the board.
//
// A page is asked for as a page, and its form, its review and its progress are shown. For more than
// a few assets the pages themselves are the place.
/* global htmx */
import { announce } from "../shared/announcements.js";
import { isolated } from "./badges.js";
import { accepted, unanswered } from "../shared/drafts.js";
import { localise, zone } from "../shared/clock.js";
import { renew } from "../console/refresh.js";

const MOST = 50;
const PARTS = ".console-head h1, .console-head .lead, #messages, main > .field-errors, #bulk-form, .user-form, #run";

/**
 * Send the bar's forms into the dialog while few are selected.
 *
 * @param {any} dialog
 * @param {any} selection
 * @param {string} scenario
 */
export function startBulk(dialog, selection, scenario) {
  if (!dialog) return; // who may not act has none
  const body = dialog.querySelector("#bulk-dialog-body");
  let address = "";

  /** Ask for a page, and show its parts; after(): once they are there. */
  async function load(verb, url, values, after = () => {}) {
    body.setAttribute("aria-busy", "true");
    const headers = { "HX-Boosted": "true" }; // the page, not the part that renews itself
    let came = false;
    body.addEventListener("htmx:afterSwap", () => (came = true), { once: true });
    try {
      await htmx.ajax(verb, url, { source: body, target: body, swap: "innerHTML ignoreTitle:true", select: PARTS, values, headers });
      if (came) settle(after);
      else say("The server refused it, or failed. Close this and open it again.");
    } catch {
      for (const form of body.querySelectorAll("form")) unanswered(form);
      say("The server did not answer. What you typed is still here: try again.");
    }
    body.removeAttribute("aria-busy");
  }

  function settle(after) {
    const heading = body.querySelector("h1");
    if (!heading) {
      location.reload(); // to the login
      return;
    }
    after();
    if (body.querySelector("#bulk-form")) nameSelected(heading, body.querySelector(".lead"));
    for (const name of body.querySelectorAll(".zone-name")) name.textContent = zone;
    for (const field of body.querySelectorAll("[name=zone]")) field.value = zone;
    localise();
    const run = body.querySelector("#run");
    if (run && run.dataset.every !== "20") selection.clear(); // it is no review any more
    if (run) follow(run);
    announce(heading.textContent.trim());
    const field = body.querySelector(".errorlist ~ :is(input, select), select, input:not([type=hidden]), textarea");
    (field?.getClientRects().length ? field : body.querySelector("button"))?.focus();
  }

  /** Say above the form how many are selected, and which, also after it was refused. */
  function nameSelected(heading, lead) {
    heading.textContent = `${dialog.ariaLabel}: ${selection.size}`;
    lead.textContent = selection.assets.map(isolated).join(", ");
    lead.classList.add("selected-names");
  }

  /** Renew a run while it is shown. */
  async function follow(run) {
    await new Promise((next) => setTimeout(next, 1000 * Number(run.dataset.every)));
    if (!run.isConnected) return;
    try {
      const response = await fetch(run.dataset.refresh, { headers: { "HX-Request": "true" } });
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (response.ok) renew(run, page.body.firstElementChild);
      localise();
    } catch {
      // Asked again.
    }
    follow(run);
  }

  function say(words) {
    body.querySelector(":scope > .not-sent")?.remove();
    const line = Object.assign(document.createElement("p"), { className: "field-errors not-sent" });
    line.setAttribute("role", "alert");
    line.textContent = words;
    body.append(line);
  }

  body.addEventListener("htmx:beforeSwap", (event) => {
    const { detail } = event;
    if ([422, 429].includes(detail.xhr.status)) Object.assign(detail, { shouldSwap: true, isError: false });
    address = new URL(detail.xhr.responseURL).pathname;
  });
  body.addEventListener("submit", (event) => {
    const form = /** @type {HTMLFormElement} */ (event.target);
    event.preventDefault();
    if (body.hasAttribute("aria-busy")) return;
    const values = new FormData(form, event.submitter);
    values.delete("file"); // names are there already
    load("POST", form.getAttribute("action") ?? address, values, () => accepted(form));
  });
  dialog.addEventListener("close", () => body.replaceChildren());

  selection.bar.addEventListener("submit", (event) => {
    if (selection.size > MOST) return;
    event.preventDefault();
    dialog.showModal();
    load("POST", selection.bar.getAttribute("action"), new FormData(selection.bar, event.submitter));
  });
  document.getElementById("selection-work").addEventListener("click", () => {
    const names = selection.assets;
    dialog.showModal();
    load("GET", `${dialog.dataset.window}?scenario=${encodeURIComponent(scenario)}`, {}, () => {
      const { covers, assets } = body.querySelector(".user-form").elements;
      covers.value = "assets";
      assets.value = names.join("\n");
    });
  });
}
