// What other scripts of a page define: htmx, uPlot, and one of ours that is no module.
declare const htmx: any;
declare var uPlot: any;
interface Window {
  tallyboardZone?: string;
}
interface NotificationOptions {
  renotify?: boolean;
}

/** A row of the board as the socket sends it (docs/live.md); times are Unix ms. */
interface BoardRow {
  asset: string;
  state: string;
  severity: number;
  since: number;
  [field: string]: any;
}

/** A state of the scenario, as a page's boot data names it. */
interface StateSpec {
  name: string;
  label: string;
  colour: string;
  icon: string;
}

/** What the filter's form says: states by name, and the text. */
interface BoardFilter {
  states: string[];
  q: string;
}

/** What keeps the board from being fresh (dashboard/core/job/freshness.py). */
interface Problem {
  kind: string;
  what: string;
  when: "since" | "at";
  since?: number | null;
  quote?: string;
  todo: string;
  call?: string;
  details?: string;
  links?: [string, string, string[]][];
  stale?: boolean;
  scenario?: string;
}
