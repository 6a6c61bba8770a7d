// @ts-check
// The wall of all boards: it renews itself, what does not fit takes turns, the screen is kept awake.
// Nothing moves but the change of a page.
import { keepAwake } from "./wall.js";
import { turnsOf } from "./turns.js";
import { now, startClock, timeOfDay } from "../shared/clock.js";
import { startRefresh } from "../console/refresh.js";

const TURN_MS = 10_000;
const body = document.getElementById("walls-body");
const rest = document.getElementById("walls-rest");
const line = document.getElementById("walls-page");
const clock = document.getElementById("wall-clock");
let turn = 0;

/** @returns {HTMLElement[]} */
const tiles = (kind) => [...body.querySelectorAll(`[data-turns="${kind}"]`)];

/** Show these tiles alone, with the line of what is good or without. */
function show(all, shown, withRest) {
  const seen = new Set(shown);
  for (const tile of all) tile.hidden = !seen.has(tile);
  rest.hidden = !withRest;
}

/** Lay out what the server has sent, and show the page whose turn it is. */
function layOut() {
  const [unhandled, others] = [tiles("unhandled"), tiles("other")];
  const all = [...unhandled, ...others];
  const turns = turnsOf(unhandled, others, (some, withRest) => {
    show(all, some, withRest);
    return body.scrollHeight <= body.clientHeight;
  });
  const { length } = turns.pages;
  show(all, turns.pages[turn % length], turns.rest);
  line.hidden = length < 2;
  const words = `page ${(turn % length) + 1} of ${length}`;
  if (line.textContent !== words) line.textContent = words;
}

setInterval(() => {
  turn += 1;
  layOut();
}, TURN_MS);
addEventListener("resize", layOut);
document.addEventListener("visibilitychange", () => keepAwake(true));
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") document.getElementById("wall-leave").click();
});
keepAwake(true);
startClock(() => {
  const text = timeOfDay(now());
  if (clock.textContent !== text) clock.textContent = text;
});
startRefresh(layOut);
layOut();
