// Every page of the console: tables that sort, figures that renew themselves.
import { startClock } from "../clock.js";
import { startRefresh } from "./refresh.js";
import { startSorting } from "./sorting.js";

startClock();
startSorting(document);
startRefresh((region) => startSorting(region));
