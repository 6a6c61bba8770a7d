// Which rows come, go and move. No page here.

/** The board's order: severity, the newest first, then by name. */
export function byOrder(a, b) {
  return (
    a.severity - b.severity || b.since - a.since || (a.asset < b.asset ? -1 : a.asset > b.asset)
  );
}

/**
 * What turns the list `shown` into `wanted`: assets that come, go and move. As few as can be move:
 * those outside the longest part that is in order already.
 */
export function plan(shown, wanted) {
  const place = new Map(wanted.map((asset, at) => [asset, at]));
  const before = new Set(shown);
  const kept = shown.filter((asset) => place.has(asset));
  const rising = longestRising(kept.map((asset) => place.get(asset)));
  const still = new Set(rising.map((at) => wanted[at]));
  return {
    come: wanted.filter((asset) => !before.has(asset)),
    go: shown.filter((asset) => !place.has(asset)),
    move: kept.filter((asset) => !still.has(asset)),
  };
}

/** A longest rising subsequence of different numbers. */
export function longestRising(numbers) {
  const tails = []; // at k: index of the smallest number that ends a rising run of k + 1
  const previous = new Array(numbers.length).fill(-1);
  numbers.forEach((number, at) => {
    let low = 0;
    let high = tails.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[tails[middle]] < number) low = middle + 1;
      else high = middle;
    }
    if (low > 0) previous[at] = tails[low - 1];
    tails[low] = at;
  });
  const run = [];
  for (let at = tails.at(-1) ?? -1; at >= 0; at = previous[at]) run.push(numbers[at]);
  return run.reverse();
}
