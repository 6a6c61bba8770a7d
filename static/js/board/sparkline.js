// @ts-check
// How the first number that agents add to a row has gone since the page was opened: a line below
// it, and the same in words.
import { number } from "../shared/number.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST = 40; // values of an asset that are kept
const WIDTH = 44;
const HEIGHT = 14;

/** The values of each asset's first number, one of each record, the newest last. */
export class Trends {
  constructor() {
    this.kept = new Map();
  }

  /**
   * Keep the value of a row; returns those of its asset, and the place of the detail, or null.
   *
   * @param {BoardRow} row
   * @returns {{at: number, version: string, values: number[]} | null}
   */
  follow(row) {
    const at = (row.details ?? []).findIndex((cell) => typeof cell?.[1] === "number");
    if (at < 0) return null;
    const before = this.kept.get(row.asset);
    if (before?.at === at && before.version >= row.version) return before;
    const values = before?.at === at ? before.values : [];
    const trend = { at, version: row.version, values: [...values, row.details[at][1]].slice(-MOST) };
    this.kept.set(row.asset, trend);
    return trend;
  }

  /** @param {string} asset */
  forget(asset) {
    this.kept.delete(asset);
  }
}

/**
 * Values in words.
 *
 * @param {number[]} values
 * @returns {string}
 */
export function inWords(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `lowest ${number(least)}, highest ${number(most)}, now ${number(values.at(-1))}`;
}

/**
 * Values as a line, which a screen reader passes over.
 *
 * @param {number[]} values
 * @returns {SVGSVGElement}
 */
export function sparkline(values) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "spark");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS(SVG, "polyline");
  line.setAttribute("points", points(values));
  svg.append(line);
  return svg;
}

/** The least value is at the bottom, the highest at the top; values that are all the same in the middle. */
function points(values) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const height = (value) => (most === least ? 0.5 : (most - value) / (most - least));
  return values
    .map((value, at) => {
      const x = 1 + (at * (WIDTH - 2)) / (values.length - 1);
      return `${x.toFixed(1)},${(1 + height(value) * (HEIGHT - 2)).toFixed(1)}`;
    })
    .join(" ");
}
