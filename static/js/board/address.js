// @ts-check
// The page's address, and the browser's way back. Whatever changes the address does it here, so that
// going back closes the panel and undoes nothing else.
let current = location.href;
let leaving = null; // resolved once a step back that was asked for is done

/**
 * Change the parameters of the address in its place.
 *
 * @param {(query: URLSearchParams) => void} change
 */
export function rewrite(change) {
  const url = new URL(location.href);
  change(url.searchParams);
  current = url.href;
  history.replaceState(history.state, "", url);
}

/**
 * The address as a further step, from which going back leads to the one before.
 *
 * @param {(query: URLSearchParams) => void} change
 * @returns {Promise<void>}
 */
export async function advance(change) {
  await leaving;
  const url = new URL(location.href);
  change(url.searchParams);
  current = url.href;
  history.pushState({ step: true }, "", url);
}

/**
 * Undo the step, if it was one; then, or else, change the address in its place.
 *
 * @param {(query: URLSearchParams) => void} change
 */
export function retreat(change) {
  if (!history.state?.step) {
    rewrite(change);
    return;
  }
  leaving = new Promise((done) => {
    const arrive = (event) => {
      event.stopImmediatePropagation(); // nobody else need follow
      done(rewriteAs(change));
    };
    addEventListener("popstate", arrive, { once: true, capture: true });
  });
  leaving.then(() => {
    leaving = null;
  });
  history.back();
}

/**
 * What the page shows stays so on the way back and forth: its address with a change.
 *
 * @param {(query: URLSearchParams) => void} change
 */
export function rewriteAs(change) {
  const url = new URL(current);
  change(url.searchParams);
  current = url.href;
  history.replaceState(history.state, "", url);
}
