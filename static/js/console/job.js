// The charts of the job's page, one set for each query.
import { startCharts } from "./charts.js";

for (const element of document.querySelectorAll("[data-charts]")) startCharts(element);
