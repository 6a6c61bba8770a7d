// @ts-check
// Bars of a summary, drawn by uPlot: time under attack by day and by hour. The table above each says
// the same in words.
import { resolve } from "../console/charts.js";

const HEIGHT = 150;
// Between the ticks of an axis, minutes: whole hours and days.
const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 240, 360, 720, 1440, 2880, 5760, 14_400, 28_800, 144_000, 525_600];
const drawn = [];

/**
 * Draw the charts of the page; anew with each change of its colours.
 *
 * @param {Record<string, {labels: string[], minutes: number[]}>} plotted
 */
export function bars(plotted) {
  const draw = () => {
    for (const chart of drawn.splice(0)) chart.destroy();
    for (const box of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-chart]"))) {
      const figures = plotted[box.dataset.chart ?? ""];
      if (figures && figures.minutes.some((each) => each > 0)) plot(box, figures);
    }
  };
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  new MutationObserver(draw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
  new ResizeObserver(fit).observe(document.body);
}

function plot(box, figures) {
  box.hidden = false;
  const at = figures.minutes.map((_, n) => n);
  const chart = new globalThis.uPlot(options(box, figures), [at, figures.minutes], box);
  chart.root.querySelector("canvas").ariaHidden = "true";
  drawn.push(chart);
}

function fit() {
  for (const chart of drawn) chart.setSize({ width: room(chart.root.parentElement), height: HEIGHT });
}

const room = (box) => Math.max(220, box.clientWidth - 2);

function options(box, { labels }) {
  const colour = (name) => resolve(getComputedStyle(document.documentElement).getPropertyValue(`--${name}`));
  const axis = { stroke: colour("muted"), grid: { show: false }, ticks: { show: false } };
  return {
    width: room(box),
    height: HEIGHT,
    cursor: { y: false },
    scales: {
      x: { time: false, range: () => [-0.6, labels.length - 0.4] },
      y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] },
    },
    series: [
      { label: "When", value: (_, n) => labels[n] ?? "–" },
      {
        label: box.dataset.label,
        stroke: colour("accent"),
        fill: colour("accent"),
        width: 0,
        paths: globalThis.uPlot.paths.bars({ size: [0.7, 40] }),
        points: { show: false },
        value: (_, n) => (n === null || n === undefined ? "–" : words(n)),
      },
    ],
    axes: [
      { ...axis, size: 28, space: 50, incrs: [1, 2, 3, 4, 6, 7, 14, 28, 30, 60, 90], values: (_, ticks) => ticks.map((n) => labels[n] ?? "") },
      { ...axis, size: 64, space: 30, incrs: STEPS, grid: { stroke: colour("line"), width: 1 }, values: (_, ticks) => ticks.map(words) },
    ],
  };
}

/** Minutes in words. */
function words(n) {
  if (n >= 2880) return `${+(n / 1440).toFixed(1)} d`;
  return n >= 120 ? `${+(n / 60).toFixed(1)} h` : `${+n.toFixed(1)} min`;
}
