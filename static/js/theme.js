// The theme: as the system has it, or the one chosen here and remembered.
const NEXT = { auto: "dark", dark: "light", light: "auto" };

export function startTheme(button, word) {
  const root = document.documentElement;
  const current = () => root.dataset.theme ?? "auto";
  const show = () => {
    word.textContent = current();
    button.title = `Theme: ${current()}`;
  };
  button.addEventListener("click", () => {
    const next = NEXT[current()];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      if (next === "auto") localStorage.removeItem("theme");
      else localStorage.setItem("theme", next);
    } catch {
      // No storage: it holds for this page.
    }
    show();
  });
  button.hidden = false;
  show();
}
