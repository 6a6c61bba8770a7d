// @ts-check
// Before the first paint: the remembered theme and columns, and that there is JavaScript.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("js");
  let theme = null;
  try {
    theme = localStorage.getItem("theme");
    root.dataset.without = localStorage.getItem("without") ?? ""; // columns, as columns.js keeps them
  } catch {
    // No storage: the system's theme it is.
  }
  if (["dark", "light", "contrast"].includes(theme)) root.dataset.theme = theme;
  if (theme === "contrast") document.getElementById("contrast").setAttribute("media", "all");
})();
