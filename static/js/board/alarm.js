// @ts-check
// Notifications of the desktop and a sound, for who has chosen them: off at first.
//
// The server says which assets have just come to the chosen states; a snapshot says nothing of
// that. Of all tabs one announces it (deduplication.js). What comes together is announced together,
// at most once in ten seconds.
import { now } from "../shared/clock.js";
import { isolated, spec } from "./badges.js";
import { number } from "../shared/number.js";
import { chime, ready, whenReady } from "./sound.js";
import { claim } from "./deduplication.js";

const PAUSE_MS = 10000;
const RECENT_MS = 60000; // a replay, or a job that catches up, brings what was long ago
const TOGETHER_MS = 400; // what comes in this time is announced at once
const QUIET_MS = 300; // a tab that may not make a sound lets one that may go first
const NAMED = 5;
const OFF = { states: {}, any: false, notify: false, sound: false, volume: 40 };

export class Alarm {
  /**
   * dialog: the settings; boot: of the page; ask(message): to the server; open(asset): its panel.
   *
   * @param {any} dialog
   * @param {any} boot
   * @param {(message: object) => void} ask
   * @param {(asset: string) => void} open
   */
  constructor(dialog, boot, ask, open) {
    this.dialog = dialog;
    this.scenario = boot.scenario;
    this.noun = boot.noun;
    this.store = `alarm:${boot.user}`;
    this.ask = ask;
    this.open = open;
    this.waiting = [];
    this.more = 0;
    this.timer = 0;
    this.form = dialog.querySelector("form#alarm-form");
    this.chosen = { ...OFF, ...read(this.store) };
    this.form.addEventListener("change", (event) => this.change(event.target));
    this.form.addEventListener("submit", (event) => event.preventDefault());
    dialog.querySelector("#alarm-test").addEventListener("click", () => this.test());
    addEventListener("storage", ({ key }) => key === this.store && this.reload());
    whenReady(() => this.show());
    this.show();
  }

  get states() {
    return this.chosen.states[this.scenario] ?? [];
  }

  get on() {
    return this.states.length > 0 && (this.chosen.notify || this.chosen.sound);
  }

  /** The alerts that the server is to send. */
  message() {
    return { type: "alarm", states: this.on ? this.states : [], any: this.chosen.any };
  }

  settings() {
    this.show();
    this.dialog.showModal();
  }

  // ---- what is chosen ----

  reload() {
    this.chosen = { ...OFF, ...read(this.store) };
    this.show();
    this.ask(this.message());
  }

  async change(field) {
    // The browser may be asked for its permission on the person's own click alone.
    if (field.name === "alarm-notify" && field.checked) await permission();
    const { form } = this;
    const states = [...form.querySelectorAll("[name=alarm-state]:checked")].map((box) => box.value);
    this.chosen = {
      states: { ...this.chosen.states, [this.scenario]: states },
      any: form.elements["alarm-which"].value === "any",
      notify: form.elements["alarm-notify"].checked && allowed() === "granted",
      sound: form.elements["alarm-sound"].checked,
      volume: Number(form.elements["alarm-volume"].value),
    };
    try {
      localStorage.setItem(this.store, JSON.stringify(this.chosen));
    } catch {
      // No storage: it holds for this page.
    }
    this.show();
    this.ask(this.message());
    if (field.name === "alarm-volume" || (field.name === "alarm-sound" && field.checked)) {
      chime(this.chosen.volume / 100);
    }
  }

  show() {
    const { form, chosen } = this;
    for (const box of form.querySelectorAll("[name=alarm-state]")) {
      box.checked = this.states.includes(box.value);
    }
    form.elements["alarm-which"].value = chosen.any ? "any" : "filter";
    form.elements["alarm-notify"].checked = chosen.notify && allowed() === "granted";
    form.elements["alarm-sound"].checked = chosen.sound;
    form.elements["alarm-volume"].value = chosen.volume;
    const words = {
      denied: "The browser blocks them: allow notifications from this site in its settings.",
      missing: "Not available here: they need a page that is served over HTTPS.",
    };
    this.dialog.querySelector("#alarm-denied").textContent = words[allowed()] ?? "";
    const silent = chosen.sound && !ready();
    this.dialog.querySelector("#alarm-silent").textContent = silent
      ? "The browser plays no sound in this tab until you click or press a key in it."
      : "";
  }

  test() {
    const named = [{ asset: `a ${this.noun} to try it`, state: this.states[0] ?? "" }];
    if (this.chosen.notify) this.notify(named, 1);
    chime(this.chosen.volume / 100);
  }

  // ---- what is announced ----

  /** The server's `alerts`: how many, and [asset, state, since] of some. */
  take([n, named]) {
    if (!this.on) return;
    const since = now() - RECENT_MS;
    const recent = named.filter((each) => each[2] >= since);
    if (!recent.length) return;
    this.waiting.push(...recent.map(([asset, state, at]) => ({ asset, state, at })));
    this.more += n - named.length;
    this.soon(TOGETHER_MS);
  }

  soon(ms) {
    if (this.timer) return;
    const turn = this.chosen.sound && !ready() ? QUIET_MS : 0;
    this.timer = setTimeout(() => this.announce(), ms + turn);
  }

  /** Announce what no tab has announced yet, unless one has announced something a moment ago. */
  async announce() {
    const { waiting, more } = this;
    this.forget();
    const byKey = new Map(waiting.map((each) => [this.key(each), each]));
    const { mine, early } = await claim([...byKey.keys()], PAUSE_MS);
    this.timer = 0;
    if (early) {
      this.waiting.unshift(...waiting);
      this.more += more;
    }
    if (this.waiting.length) this.soon(early || TOGETHER_MS);
    if (!mine.length) return;
    const fresh = mine.map((key) => byKey.get(key));
    if (this.chosen.notify) this.notify(fresh, fresh.length + more);
    if (this.chosen.sound) chime(this.chosen.volume / 100);
  }

  forget() {
    this.waiting = [];
    this.more = 0;
  }

  key({ asset, at }) {
    return `${this.scenario}/${at}/${asset}`;
  }

  notify(named, n) {
    if (allowed() !== "granted") return;
    const [first] = named;
    const label = first.state ? isolated(spec(first.state).label) : "Try";
    const title = n === 1 ? `${label}: ${isolated(first.asset)}` : `${number(n)} ${this.noun}s`;
    const lines = named
      .slice(0, NAMED)
      .map(({ asset, state }) => `${isolated(asset)}: ${isolated(spec(state).label)}`);
    if (n > NAMED) lines.push(`and ${number(n - NAMED)} more`);
    const shown = new Notification(title, {
      body: n === 1 ? "" : lines.join("\n"),
      tag: `tallyboard-${this.scenario}`, // the newest takes the place of the one before
      renotify: true,
    });
    shown.addEventListener("click", () => {
      window.focus();
      shown.close();
      if (n === 1 && first.state) this.open(first.asset);
    });
  }
}

/** How the browser stands to notifications: granted, denied, default, or missing. */
function allowed() {
  return "Notification" in window && isSecureContext ? Notification.permission : "missing";
}

async function permission() {
  if (allowed() === "default") await Notification.requestPermission();
}

function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null;
  }
}
