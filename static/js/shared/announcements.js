// @ts-check
// What a screen reader is told, once it has finished what it says.
/**
 * Let a screen reader say it, once it has finished what it says.
 *
 * @param {string} text
 */
export function announce(text) {
  const place = document.getElementById("announce");
  if (place) place.textContent = text;
}
