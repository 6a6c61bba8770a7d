// @ts-check
// The title of the browser's tab: how many are unhandled, and that it is cut off.
let words = document.title.replace(/^\([\d,]+\) /, "");
let count = /^\(([\d,]+)\) /.exec(document.title)?.[1] ?? "";
let cut = false;

function show() {
  const before = cut ? "(cut off) " : count && `(${count}) `;
  if (document.title !== before + words) document.title = before + words;
}

/**
 * So many assets are unhandled; text: the number as it is shown, or nothing.
 *
 * @param {string} text
 */
export function titleCount(text) {
  count = text;
  show();
}

/**
 * The board shows another filter that is a tab, whose name the title begins with; "": none.
 *
 * @param {string} before
 * @param {string} name
 */
export function titleFilter(before, name) {
  const board = before && words.startsWith(`${before} · `) ? words.slice(before.length + 3) : words;
  words = name ? `${name} · ${board}` : board;
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
