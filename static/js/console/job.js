// @ts-check
// The charts of the job's page, one set for each query.
import { startCharts } from "./charts.js";

for (const element of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-charts]"))) {
  startCharts(element);
}
