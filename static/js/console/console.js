// @ts-check
// Every page of the console: tables that sort, figures that renew themselves.
import { startClock } from "../shared/clock.js";
import { startRefresh } from "./refresh.js";
import { makeSortable } from "./table-sort.js";

startClock();
makeSortable(document);
// A page that stands as it was asked for has no connection to tell of.
const live = document.getElementById("live"); // which a page may do without
if (live) live.hidden = !document.querySelector("[data-refresh]");
startRefresh((region) => makeSortable(region));
