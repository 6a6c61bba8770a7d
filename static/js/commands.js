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
        const field = event.target.elements && event.target.elements.namedItem("zone");
        if (field) field.value = zone;
      },
      true,
    );
    document.addEventListener("click", (event) => {
      const summary = event.target.closest && event.target.closest(".command > summary");
      if (summary && !summary.parentElement.open) look(summary.parentElement);
      const leave = event.target.closest && event.target.closest(".command .leave");
      if (leave) close(event, leave.closest(".command"));
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

  // Where the asset is on the page, leaving a form is closing it.
  function close(event, form) {
    if (!document.getElementById("facts")) return;
    event.preventDefault();
    form.open = false;
    form.querySelector("summary").focus();
  }
})();
