// @ts-check
// Command forms: whose zone a typed time is in, and which state of the asset they were opened on.
"use strict";
(() => {
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const name = () => {
    for (const label of document.querySelectorAll(".zone-name")) label.textContent = zone;
  };
  if (!window.tallyboardZone) {
    window.tallyboardZone = zone;
    document.addEventListener(
      "submit",
      (event) => {
        const field = /** @type {HTMLFormElement} */ (event.target).elements.namedItem("zone");
        if (field instanceof HTMLInputElement) field.value = zone;
      },
      true,
    );
    document.addEventListener("click", (event) => {
      const target = /** @type {Element} */ (event.target);
      const summary = target.closest(".command > summary");
      if (summary && !summary.parentElement.hasAttribute("open")) look(summary.parentElement);
      const leave = target.closest(".command .leave");
      if (leave) close(event, leave.closest(".command"));
    });
    const opened = ({ target }) => target.open && bringIn(target);
    document.addEventListener("toggle", opened, true);
    document.addEventListener("htmx:afterSettle", ({ target }) => {
      const { id } = /** @type {Element} */ (target);
      if (id !== "command-forms" && id !== "annotation-forms") return;
      bringIn(document.querySelector(`#${id} .command[open]`));
    });
  }
  name();

  // The facts beside a form go on while it is closed: it is about what they show as it is opened.
  function look(form) {
    const facts = document.getElementById("facts");
    if (!facts) return;
    for (const field of ["seen", "sight"]) {
      const input = form.querySelector(`[name=${field}]`);
      if (input) input.value = facts.dataset[field] || "";
    }
  }

  // The whole of an open form, its buttons last, by scrolling the panel and nothing else.
  function bringIn(form) {
    const body = form && form.matches(".command") && form.closest(".board .panel-body");
    if (!body) return;
    const room = body.getBoundingClientRect();
    const box = form.getBoundingClientRect();
    const down = Math.min(box.bottom - room.bottom + 8, box.top - room.top - 4);
    if (down > 0 || box.top < room.top) body.scrollTop += down;
  }

  // Where the asset is on the page, leaving a form is closing it.
  function close(event, form) {
    if (!document.getElementById("facts")) return;
    event.preventDefault();
    form.open = false;
    form.querySelector("summary").focus();
  }
})();
