// @ts-check
// Bars of a summary, drawn by uPlot: time in bad states by day and by hour, hatched where nothing was
// observed. The table above each says the same in words.
import { resolve } from "../console/charts.js";

const HEIGHT = 150;
// Between the ticks of an axis, minutes: whole hours and days.
const STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 240, 360, 720, 1440, 2880, 5760, 14_400, 28_800, 144_000, 525_600];
const drawn = [];

/**
 * Draw the charts of the page; anew with each change of its colours.
 *
 * @param {Record<string, {labels: string[], minutes: (number | null)[]}>} plotted null: not observed
 */
export function bars(plotted) {
  const draw = () => {
    for (const chart of drawn.splice(0)) chart.destroy();
    for (const box of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-chart]"))) {
      const figures = plotted[box.dataset.chart ?? ""];
      if (figures && figures.minutes.some((each) => each)) plot(box, figures);
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

/**
 * Hatch the columns of what was not observed.
 *
 * @param {any} chart
 * @param {(number | null)[]} minutes
 * @param {string} colour
 */
function hatch(chart, minutes, colour) {
  const { ctx, bbox } = chart;
  ctx.save();
  ctx.strokeStyle = colour;
  ctx.lineWidth = devicePixelRatio;
  for (const [n, each] of minutes.entries()) {
    if (each !== null) continue;
    const [left, right] = [n - 0.45, n + 0.45].map((at) => chart.valToPos(at, "x", true));
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, bbox.top, right - left, bbox.height);
    ctx.clip();
    ctx.beginPath();
    for (let x = left - bbox.height; x < right; x += 7 * devicePixelRatio) {
      ctx.moveTo(x, bbox.top + bbox.height);
      ctx.lineTo(x + bbox.height, bbox.top);
    }
    ctx.stroke();
    ctx.restore();
  }
  ctx.restore();
}

function options(box, { labels, minutes }) {
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
    hooks: { draw: [(chart) => hatch(chart, minutes, colour("line-strong"))] },
    series: [
      { label: "When", value: (_, n) => labels[n] ?? "–" },
      {
        label: box.dataset.label,
        stroke: colour("accent"),
        fill: colour("accent"),
        width: 0,
        paths: globalThis.uPlot.paths.bars({ size: [0.7, 40] }),
        points: { show: false },
        value: (_, n, __, at) => (n !== null && n !== undefined ? words(n) : at === null ? "–" : "not observed"),
      },
    ],
    axes: [
      { ...axis, size: 28, space: 90, incrs: [1, 2, 3, 4, 6, 7, 14, 28, 30, 60, 90], values: (_, ticks) => ticks.map((n) => labels[n] ?? "") },
      { ...axis, size: 64, space: 30, incrs: STEPS, grid: { stroke: colour("line"), width: 1 }, values: (_, ticks) => ticks.map(words) },
    ],
  };
}

/** Minutes in words. */
function words(n) {
  if (n >= 2880) return `${+(n / 1440).toFixed(1)} d`;
  return n >= 120 ? `${+(n / 60).toFixed(1)} h` : `${+n.toFixed(1)} min`;
}
