// Times typed into a form are the viewer's: tell the server which zone that is.
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
  }
  name();
})();
