// @ts-check
// The title of the browser's tab: how many are in the most severe state, and that it is cut off.
const words = document.title.replace(/^\([\d,]+\) /, "");
let alarms = /^\(([\d,]+)\) /.exec(document.title)?.[1] ?? "";
let cut = false;

function show() {
  const before = cut ? "(cut off) " : alarms && `(${alarms}) `;
  if (document.title !== before + words) document.title = before + words;
}

/**
 * So many assets are in the most severe state; text: the number as it is shown, or nothing.
 *
 * @param {string} text
 */
export function titleAlarms(text) {
  alarms = text;
  show();
}

/**
 * Whether the browser is cut off from the server.
 *
 * @param {boolean} on
 */
export function titleCut(on) {
  cut = on;
  show();
}
