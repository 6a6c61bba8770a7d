// @ts-check
// Which rows come, go and move. No page here.

const LATER = 1_000_000; // as dashboard/core/states/caveats.py has it

/**
 * A row's place: what is unhandled first, each part by its rank.
 *
 * @param {BoardRow} row
 * @param {boolean} handled
 * @returns {number}
 */
export const placeOf = (row, handled) => (row.alarming && !handled ? row.rank : row.rank + LATER);

/**
 * The board's order: unhandled ones first, severity, disputed ones first, the newest first, then by
 * name. place: of `placeOf`.
 *
 * @param {BoardRow} a
 * @param {BoardRow} b
 * @returns {number}
 */
export function byOrder(a, b) {
  return a.place - b.place || b.since - a.since || byName(a.asset, b.asset);
}

const many = (row) => row.votes.length + row.more_votes;
const pendingEnd = (row) => row.pending?.[1] ?? Infinity;
const SORTS = {
  asset: (a, b) => byName(a.asset, b.asset),
  since: (a, b) => b.since - a.since,
  votes: (a, b) => many(b) - many(a),
  pending: (a, b) => (pendingEnd(a) === pendingEnd(b) ? 0 : pendingEnd(a) - pendingEnd(b)),
};

let details = [];

/**
 * The keys of the scenario's details, whose values rows have in this order.
 *
 * @param {string[]} keys
 */
export function knowDetails(keys) {
  details = keys;
}

/**
 * Whether the server chooses the rows of a page that is sorted so: by a detail.
 *
 * @param {string} sort
 */
export const chooses = (sort) => details.includes(sort.replace(/^-/, ""));

/** By a detail: numbers above texts, rows without it last whichever way round. */
function byDetail(at, turn) {
  return (a, b) => {
    const [one, other] = [a.details[at], b.details[at]];
    if (!one || !other) return Number(!one) - Number(!other);
    const [numbers, others] = [one[1] !== null, other[1] !== null];
    if (numbers !== others) return turn * (Number(others) - Number(numbers));
    return turn * (numbers ? other[1] - one[1] : byName(other[0], one[0]));
  };
}

/**
 * How a page stands that is sorted so, as dashboard/core/states/queries.py has it; equals by the board.
 *
 * @param {string} sort
 * @returns {(a: BoardRow, b: BoardRow) => number}
 */
export function comparator(sort) {
  const name = sort.replace(/^-/, "");
  const turn = sort.startsWith("-") ? -1 : 1;
  if (name === "state") return (a, b) => -byOrder(a, b);
  if (details.includes(name)) {
    const compareDetails = byDetail(details.indexOf(name), turn);
    return (a, b) => compareDetails(a, b) || byOrder(a, b);
  }
  const compare = SORTS[name];
  return compare ? (a, b) => turn * compare(a, b) || byOrder(a, b) : byOrder;
}

/** Names in the server's order, by code points: where pages end must be the same on both sides. */
function byName(a, b) {
  const most = Math.min(a.length, b.length);
  for (let at = 0; at < most; at++) {
    const [one, other] = [a.charCodeAt(at), b.charCodeAt(at)];
    if (one !== other) return place(one) - place(other);
  }
  return a.length - b.length;
}

/** Halves of pairs stand for what comes after all that one unit can say. */
function place(unit) {
  if (unit >= 0xe000) return unit - 0x800;
  return unit >= 0xd800 ? unit + 0x2000 : unit;
}

/**
 * What turns the list `shown` into `target`: assets that come, go and move. As few as can be move:
 * those outside the longest part that is in order already.
 *
 * @param {string[]} shown
 * @param {string[]} target
 * @returns {{come: string[], go: string[], move: string[]}}
 */
export function plan(shown, target) {
  const place = new Map(target.map((asset, at) => [asset, at]));
  const before = new Set(shown);
  const kept = shown.filter((asset) => place.has(asset));
  const rising = longestRising(kept.map((asset) => place.get(asset)));
  const still = new Set(rising.map((at) => target[at]));
  return {
    come: target.filter((asset) => !before.has(asset)),
    go: shown.filter((asset) => !place.has(asset)),
    move: kept.filter((asset) => !still.has(asset)),
  };
}

/**
 * A longest rising subsequence of different numbers.
 *
 * @param {number[]} numbers
 * @returns {number[]}
 */
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
