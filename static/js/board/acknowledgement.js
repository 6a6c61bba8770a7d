// @ts-check
// The dialogs that acknowledge, or note on, what is selected, the row at the focus, or the open
// panel's asset.
import { announce } from "../shared/announcements.js";
import { zone } from "../shared/clock.js";
import { accepted, unanswered } from "../shared/drafts.js";
import { isolated } from "./badges.js";
import { number } from "../shared/number.js";

export class Acknowledge {
  /**
   * onDone(left): what was named is acknowledged, or taken back, but for these assets.
   *
   * @param {any} dialog
   * @param {string} noun
   * @param {(left: string[]) => void} onDone
   */
  constructor(dialog, noun, onDone) {
    this.dialog = dialog;
    this.noun = noun;
    this.onDone = onDone;
    this.assets = [];
    if (!dialog) return; // who may not act has none
    this.form = dialog.querySelector(".ack-form");
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send(event.submitter?.getAttribute("formaction") ?? this.form.action);
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      this.form.querySelector("[type=submit]").click(); // which sends nothing while it is disabled
    });
    for (const name of dialog.querySelectorAll(".zone-name")) name.textContent = zone;
  }

  /** Name the assets, and show the dialog. */
  ask(assets) {
    if (!this.dialog) return;
    if (!assets.length) {
      announce(`Select a ${this.noun} first, or go to its row`);
      return;
    }
    this.assets = assets;
    const one = assets.length === 1;
    const which = this.dialog.querySelector(".ack-which");
    which.textContent = one ? isolated(assets[0]) : `${number(assets.length)} ${this.noun}s`;
    this.blame({});
    this.dialog.showModal();
    this.said().focus();
  }

  /** The field in which one says why, or what. */
  said() {
    return this.form.elements.reason ?? this.form.elements.text;
  }

  /** Acknowledge assets for an hour, without a question. A dialog that opens meanwhile stays. */
  async have(assets) {
    if (!this.dialog) return;
    const body = new FormData();
    body.set("csrfmiddlewaretoken", this.form.elements.csrfmiddlewaretoken.value);
    body.set("end", "1h");
    const { errors, words, left } = await this.post(this.form.action, body, assets);
    if (!errors) this.onDone(left.map(([asset]) => asset));
    const refusal = errors ?? (left.length ? { __all__: [words] } : null);
    if (!refusal) announce(words);
    else if (this.dialog.open) announce(this.inWords(refusal));
    else {
      this.ask(assets);
      this.blame(refusal);
    }
  }

  async send(url) {
    const { assets } = this;
    const buttons = this.form.querySelectorAll("button");
    for (const button of buttons) button.disabled = true;
    const answer = await this.post(url, new FormData(this.form), assets);
    for (const button of buttons) button.disabled = false;
    if (answer.unanswered) unanswered(this.form);
    if (this.assets !== assets) announce(answer.words ?? this.inWords(answer.errors));
    else if (answer.errors) this.blame(answer.errors);
    else this.done(answer);
  }

  /** Returns what the server answers, or errors if it does not. */
  async post(url, body, assets) {
    body.set("zone", zone);
    for (const asset of assets) body.append("asset", asset);
    try {
      const headers = { Accept: "application/json" };
      const response = await fetch(url, { method: "POST", body, headers });
      if (response.redirected || response.status === 403) {
        location.reload(); // to the login
        return { errors: {} };
      }
      return await response.json();
    } catch {
      const words = "The server did not answer; it may have been done all the same. Check, then try again.";
      return { errors: { __all__: [words] }, unanswered: true };
    }
  }

  done({ words, left }) {
    this.onDone(left.map(([asset]) => asset));
    if (left.length) {
      this.blame({ __all__: [words] });
      return;
    }
    this.said().value = "";
    accepted(this.form);
    this.dialog.close();
    announce(words); // last, as what becomes of the selection is announced too
  }

  /** What a field is called in the dialog. */
  label(name) {
    return this.form.elements[name]?.labels?.[0]?.textContent ?? name;
  }

  blame(errors) {
    this.form.querySelector(".field-errors").textContent = this.inWords(errors);
  }

  inWords(errors) {
    const lines = Object.entries(errors).flatMap(([name, texts]) =>
      texts.map((text) => (name === "__all__" ? text : `${this.label(name)}: ${text}`)),
    );
    return lines.join(" ");
  }
}
