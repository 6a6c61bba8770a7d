// Rows of the board as the browser makes them: from the JSON on standard input to standard output.
import { readFileSync } from "node:fs";

import { built, plain } from "./dom.mjs";

import { knowStates } from "../../static/js/board/badges.js";
import { Rows } from "../../static/js/board/rows.js";
import { correct } from "../../static/js/shared/clock.js";

const { rows, marks, states, causes, template, now, calm } = JSON.parse(readFileSync(0, "utf8"));
correct(now);
knowStates(states);
const tbody = Object.assign(built(["tbody", {}, []]), { rows: [] });
const handlers = { onShown() {}, onWaiting() {} };
const table = new Rows(tbody, { content: { firstElementChild: built(template) } }, 100, handlers);
table.calmFrom = calm;
table.relate(causes);
for (const mark of marks) table.marks.set(mark[0], mark);
process.stdout.write(JSON.stringify(rows.map((row) => plain(table.add(row)))));
