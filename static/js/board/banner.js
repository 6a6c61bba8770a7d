// @ts-check
// The banner: what keeps this board from being fresh. The most severe first, all in a list.
//
// The server tells of job, database and agents (dashboard/core/job/freshness.py); that this browser is
// cut off only the browser knows.
import { announce } from "../shared/announcements.js";
import { freeze, now, timeAt } from "../shared/clock.js";
import { icon } from "./badges.js";
import { showStandstill, standstill } from "../shared/status.js";
import { markStale } from "../shared/tabs.js";
import { titleCut } from "../shared/title.js";

const CUT_OFF = {
  late: ["The server does not answer", "Retrying."],
  reconnecting: [
    "Cut off from the server",
    "States are as of then; retrying.",
  ],
  offline: ["This computer is offline", "States are as of then; check its network."],
  ended: ["The server has closed the connection", "States are as of then; load the page again."],
};

export class Banner {
  /**
   * box: the banner of board/_banner.html; problems: as the page was made with.
   *
   * @param {HTMLElement} box
   * @param {Problem[]} problems
   */
  constructor(box, problems) {
    this.box = box;
    this.reported = problems;
    this.cut = [];
    this.shown = JSON.stringify(problems);
    this.apply(problems);
  }

  /** What the server says keeps the board from being fresh. */
  update(problems) {
    this.reported = problems;
    this.show();
  }

  /** How the socket stands; since: Unix ms of this machine. */
  socket(state, since) {
    const words = CUT_OFF[state];
    const at = since + now() - Date.now();
    this.cut = [];
    if (words) {
      const [what, todo] = words;
      this.cut = [{ kind: "cut-off", what, when: "since", since: at, todo, stale: true }];
    }
    this.show();
  }

  show() {
    const problems = [...this.cut, ...this.reported];
    const key = JSON.stringify(problems);
    if (key === this.shown) return;
    const before = this.box.dataset.kind;
    this.shown = key;
    this.apply(problems);
    this.draw(problems);
    const kind = problems[0]?.kind ?? "";
    // The pill, which is announced by itself, says that the browser is cut off.
    if (kind !== before && kind !== "cut-off") announce(problems[0]?.what ?? "All is well again");
  }

  /** What the whole page shows of it. */
  apply(problems) {
    const kind = problems[0]?.kind ?? "";
    const stale = problems.some((problem) => problem.stale);
    const cut = kind === "cut-off";
    freeze(cut);
    markStale(cut ? problems[0].since : null);
    showStandstill(standstill(problems));
    document.body.classList.toggle("stale", stale);
    document.body.classList.toggle(
      "job-silent",
      problems.some((problem) => problem.kind === "job"),
    );
    titleCut(cut);
  }

  draw(problems) {
    const { box } = this;
    const [first] = problems;
    const open = box.querySelector("details")?.open;
    box.hidden = !first;
    box.dataset.kind = first?.kind ?? "";
    box.dataset.stale = String(Boolean(first?.stale));
    if (!first) {
      box.replaceChildren();
      return;
    }
    const { role } = box.dataset;
    const line = element("p", "banner-line", icon("warning"), ...words(first, role));
    line.title = `${first.what}. ${first.todo}`;
    box.replaceChildren(line, listed(problems, open, role));
  }

  /** Open or close the list of all, in full. */
  toggle() {
    const others = this.box.querySelector("details");
    if (others) others.open = !others.open;
  }
}

function listed(problems, open, role) {
  const items = problems.map((each) => element("li", "", ...words(each, role)));
  const list = element("ul", "banner-list", ...items);
  const others = problems.length - 1;
  const summary = element("summary", "", others ? `${others} more` : "in full");
  const made = element("details", "banner-others", summary, list);
  made.classList.toggle("single", !others);
  made.open = Boolean(open);
  return made;
}

function words({ what, when, since, quote, todo, call, links = [] }, role) {
  const made = [element("strong", "", what)];
  if (since) made.push(` ${when} `, timeAt(since));
  if (quote) made.push(' ("', element("bdi", "", quote), '")');
  made.push(". ", element("span", "todo", call && role !== "admin" ? `${todo} ${call}` : todo));
  const link = links.find(([, , roles]) => roles.includes(role));
  if (link) {
    const [href, text] = link;
    made.push(" ", Object.assign(element("a", "", text), { href }));
  }
  return made;
}

function element(tag, classes, ...children) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  made.append(...children);
  return made;
}
