// What a screen reader is told, once it has finished what it says.
export function announce(text) {
  const place = document.getElementById("announce");
  if (place) place.textContent = text;
}
