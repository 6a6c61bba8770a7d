// @ts-check
// The page of events: completes its filter, and pauses.
import { startCompletion } from "../shared/completion.js";
import "./pause.js";

const form = /** @type {any} */ (document.getElementById("event-filter"));
const { scenario, q } = form.elements;
const completion = startCompletion(q, document.getElementById("offers"), {
  url: form.dataset.complete,
  scenario: scenario.value || scenario.options[1].value,
  taken() {},
});
scenario.addEventListener("change", () => {
  completion.scenario = scenario.value || scenario.options[1].value;
});
