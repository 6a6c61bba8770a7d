// @ts-check
// What takes turns on the wall of all boards. No page here.

/**
 * Which tiles are shown in turn, and whether beside the line of what is good.
 *
 * Unhandled tiles stay while others take turns. Where they do not fit themselves they take turns first, and what is
 * good has no place. fits(tiles, rest): whether these fit, rest: with that line.
 *
 * @template T
 * @param {T[]} unhandled
 * @param {T[]} others
 * @param {(tiles: T[], rest: boolean) => boolean} fits
 * @returns {{rest: boolean, pages: T[][]}}
 */
export function turnsOf(unhandled, others, fits) {
  const all = [...unhandled, ...others];
  if (fits(all, true)) return { rest: true, pages: [all] };
  const rest = fits([...unhandled, ...others.slice(0, 1)], true);
  const [staying, turning] = rest ? [unhandled, others] : [[], all];
  const pages = [];
  for (let at = 0, many = 0; at < turning.length; at += many) {
    const page = (n) => [...staying, ...turning.slice(at, at + n)];
    many = most(turning.length - at, (n) => fits(page(n), rest));
    pages.push(page(many));
  }
  return { rest, pages };
}

/** The most of so many that fit, one at least. */
function most(many, fits) {
  let least = 1;
  while (least < many) {
    const middle = (least + many + 1) >> 1;
    if (fits(middle)) least = middle;
    else many = middle - 1;
  }
  return least;
}
