// @ts-check
// Figures over time, drawn by uPlot (static/vendor/uplot).
//
// `<div data-charts="<url>" hidden>`: asks the address for `span=hour`, `day` or `month`, whichever
// button `data-span` is pressed, and draws the answer; then again every few seconds for as
// long as the tab is seen; `data-set` says which charts. Without this script the page's table has the newest figures.
import { local, localDay, timeOfDay } from "../shared/clock.js";

const EVERY_MS = { hour: 5_000, day: 60_000, month: 600_000 };
const HEIGHT = 180;
// The room that a time of day takes on an axis, with seconds, px.
const LABEL = 56;

const count = (n) => (n >= 1e6 ? `${+(n / 1e6).toFixed(1)} M` : n >= 1e4 ? `${+(n / 1e3).toFixed(1)} k` : `${n}`);
const bytes = (n) => (n >= 1e9 ? `${+(n / 1e9).toFixed(2)} GB` : n >= 1e6 ? `${+(n / 1e6).toFixed(1)} MB` : `${+(n / 1e3).toFixed(1)} kB`);
const ms = (n) => (n >= 10_000 ? `${+(n / 1000).toFixed(1)} s` : `${n} ms`);

// Colours are names of the page's style; dashes tell lines apart where colours do not.
const BATCHES = [
  { title: "Phases of a batch", unit: ms, lines: [
    ["addBatch", "Processing", "accent", []],
    ["walCommit", "Write-ahead log", "amber", [6, 3]],
    ["commitOffsets", "Commit", "green", [2, 3]],
    ["latestOffset", "Querying Kafka", "pin", [10, 3, 2, 3]],
    ["queryPlanning", "Planning", "grey", [3, 6]],
  ] },
  { title: "Rows a second", unit: count, lines: [
    ["came", "Received", "accent", []],
    ["done", "Applied", "green", [6, 3]],
  ] },
  { title: "How long a batch took", unit: ms, lines: [["duration", "Batch", "accent", []]] },
  { title: "State", unit: count, lines: [["rows", "Entries written", "accent", []]] },
  { title: "Memory of the state", unit: bytes, lines: [["memory", "Memory", "pin", []]] },
];

const BOARD = [
  { title: "From report to board", unit: ms, lines: [
    ["mean", "On average", "accent", []],
    ["longest", "Longest", "amber", [6, 3]],
  ] },
  { title: "Clock behind, at most", unit: ms, lines: [["behind", "Behind", "pin", []]] },
  { title: "Dead letters", unit: count, lines: [["letters", "Dead letters", "red", []]] },
];

const INVOICES = [
  { title: "Invoices", unit: count, lines: [["invoices", "Invoices", "accent", []]] },
  { title: "Revenue, EUR", unit: count, lines: [["revenue", "Revenue", "green", []]] },
  { title: "Points", unit: count, lines: [["points", "Points", "pin", []]] },
];

const SETS = { batches: BATCHES, board: BOARD, invoices: INVOICES };

/**
 * Let one set of charts draw itself.
 *
 * @param {HTMLElement} element
 */
export function startCharts(element) {
  if (globalThis.uPlot) new Charts(element).start();
}

class Charts {
  constructor(element) {
    this.element = element;
    this.charts = SETS[element.dataset.set ?? "batches"];
    this.grid = element.querySelector(".chart-grid");
    this.note = element.querySelector(".charts-note");
    this.buttons = [...element.querySelectorAll("[data-span]")];
    this.span = this.buttons[0].dataset.span;
    this.drawn = [];
    this.timer = 0;
    this.request = 0;
  }

  start() {
    this.element.hidden = false;
    for (const button of this.buttons) button.addEventListener("click", () => this.choose(button));
    document.addEventListener("visibilitychange", () => document.hidden || this.ask());
    new ResizeObserver(() => this.fit()).observe(this.grid);
    const redraw = () => this.draw(this.figures);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
    new MutationObserver(redraw).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.ask();
  }

  choose(button) {
    this.span = button.dataset.span;
    for (const each of this.buttons) each.ariaPressed = String(each === button);
    this.ask();
  }

  async ask() {
    clearTimeout(this.timer);
    const turn = ++this.request;
    if (!document.hidden) await this.fetch(turn);
    if (turn === this.request) this.timer = setTimeout(() => this.ask(), EVERY_MS[this.span]);
  }

  async fetch(turn) {
    try {
      const address = `${this.element.dataset.charts}?span=${this.span}`;
      const response = await fetch(address, { signal: AbortSignal.timeout(10_000) });
      if (!response.ok) throw new Error(`status ${response.status}`);
      const figures = await response.json();
      if (turn === this.request) this.take(figures);
    } catch {
      this.note.textContent = "The figures could not be fetched. Retrying.";
    }
  }

  take(figures) {
    const few = figures.at.length < 2;
    this.grid.hidden = few;
    this.note.textContent = few ? "Not enough figures in this time to draw a line." : "";
    if (this.figures && this.drawn.length) this.update(figures);
    else this.draw(figures);
  }

  update(figures) {
    this.figures = figures;
    this.charts.forEach((chart, at) => this.drawn[at].setData(columns(chart, figures)));
  }

  draw(figures) {
    if (!figures) return;
    this.figures = figures;
    for (const chart of this.drawn) chart.destroy();
    this.grid.replaceChildren();
    this.drawn = this.charts.map((chart) => this.plot(chart, figures));
  }

  plot(chart, figures) {
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    figure.className = "chart";
    caption.textContent = chart.title;
    figure.append(caption);
    this.grid.append(figure);
    const drawn = new globalThis.uPlot(options(chart, width(figure)), columns(chart, figures), figure);
    drawn.root.querySelector("canvas").ariaHidden = "true"; // the table says it in words
    return drawn;
  }

  fit() {
    for (const chart of this.drawn) {
      chart.setSize({ width: width(chart.root.parentElement), height: HEIGHT });
    }
  }
}

const columns = (chart, figures) => [figures.at, ...chart.lines.map(([name]) => figures[name])];

/** The room inside a figure, px. */
function width(figure) {
  const style = getComputedStyle(figure);
  return Math.max(160, figure.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
}

function options(chart, wide) {
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
  const resolved = (name) => resolve(colour(name));
  const axis = { stroke: resolved("muted"), grid: { stroke: resolved("line"), width: 1 }, ticks: { show: false } };
  return {
    width: wide,
    height: HEIGHT,
    padding: [null, LABEL / 2, null, null], // the last time on the axis is not cut off
    cursor: { y: false },
    series: [
      { label: "Time", value: (_, at) => (at === null ? "–" : local(at * 1000)) },
      ...chart.lines.map(([, label, name, dash]) => ({
        label,
        stroke: resolved(name),
        width: 1.5,
        points: { size: 4, fill: resolved(name) },
        dash,
        value: (_, n) => (n === null || n === undefined ? "–" : chart.unit(n)),
      })),
    ],
    axes: [
      { ...axis, space: 70, values: (_, ticks) => ticks.map((at) => moment(at * 1000, ticks)) },
      { ...axis, size: 64, values: (_, ticks) => ticks.map(chart.unit) },
    ],
    scales: { y: { range: (_, least, most) => [Math.min(0, least * 1.1), most > 0 ? most * 1.1 : 1] } },
  };
}

/** The label of a tick: a day, a time of day, or one with seconds, by how far apart the ticks are, s. */
function moment(at, ticks) {
  const step = ticks.length > 1 ? ticks[1] - ticks[0] : 60;
  if (step > 43_000) return localDay(at).slice(5);
  return step < 60 ? timeOfDay(at) : timeOfDay(at).slice(0, 5);
}

/** A colour of the style as a canvas takes it: `light-dark()` is looked up by an element. */
export function resolve(value) {
  const probe = document.createElement("i");
  probe.style.color = value;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
