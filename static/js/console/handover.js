// @ts-check
// The handover: copied as text, printed; the zone of a time that is typed.
import { announce } from "../shared/announcements.js";
import { zone } from "../shared/clock.js";

const copy = document.getElementById("copy");
const print = document.getElementById("print");

for (const field of document.querySelectorAll("input[name=zone]")) {
  /** @type {HTMLInputElement} */ (field).value = zone;
}

if (print) {
  print.hidden = false;
  print.addEventListener("click", () => window.print());
  // What is folded is printed too.
  addEventListener("beforeprint", () => {
    for (const part of document.querySelectorAll("details.part")) part.setAttribute("open", "");
  });
}

if (copy && navigator.clipboard) {
  // Without HTTPS a browser has no clipboard: the link beside it has the same text.
  copy.hidden = false;
  copy.addEventListener("click", async () => {
    const before = copy.textContent;
    try {
      const response = await fetch(copy.dataset.url);
      if (!response.ok) throw new Error(`status ${response.status}`);
      await navigator.clipboard.writeText(await response.text());
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Not copied";
    }
    announce(copy.textContent);
    setTimeout(() => {
      copy.textContent = before;
    }, 3000);
  });
}

// What is being written for the next shift outlives another page, a reload, "Start my shift": in this
// tab, for this user, until it is kept.
const writing = /** @type {HTMLFormElement | null} */ (document.querySelector(".handover-write form"));
if (writing) {
  const text = /** @type {HTMLTextAreaElement} */ (writing.elements.namedItem("text"));
  const draft = `handover:${document.querySelector(".who bdi").textContent}`;
  const kept = document.querySelector(".message.success") && read(`${draft}:sent`);
  if (kept) write(draft, "");
  else if (!text.value) text.value = read(draft) ?? "";
  write(`${draft}:sent`, "");
  text.addEventListener("input", () => write(draft, text.value));
  writing.addEventListener("submit", () => write(`${draft}:sent`, "yes"));
}

function read(name) {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null; // no storage: it holds for this page
  }
}

function write(name, value) {
  try {
    if (value) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
  } catch {
    // No storage: it holds for this page.
  }
}
