// @ts-check
// A list's page: completes the line of its filter, and pauses.
import { startCompletion } from "../shared/completion.js";
import "./pause.js";

const form = /** @type {any} */ (document.querySelector("form[data-complete]"));

if (form) {
  const { q, scenario } = form.elements;
  /** What completes the beginning of a filter: the list itself, or what does so for a board's. */
  const address = (begun) => {
    const { complete } = form.dataset;
    if (!complete) return `${form.getAttribute("action")}?${new URLSearchParams({ complete: begun })}`;
    const board = scenario.value || scenario.options[1].value;
    return `${complete}?${new URLSearchParams({ scenario: board, q: begun })}`;
  };
  const completion = startCompletion(q, document.getElementById("offers"), { address });
  q.addEventListener("click", () => {
    if (!q.value && !completion.open) completion.ask();
  });
}
