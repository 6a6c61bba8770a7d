// @ts-check
// The page of one asset: its facts follow its changes, its banner says when they do not.
import * as clock from "../shared/clock.js";
import { followFacts } from "./panel.js";
import { openSocket } from "./socket.js";
import { Banner } from "./banner.js";
import { showStatus } from "../shared/status.js";

const boot = JSON.parse(document.getElementById("boot").textContent);
clock.correct(boot.now);
const banner = new Banner(document.getElementById("banner"), boot.problems);
const renew = followFacts();
let status = [];
openSocket(`/ws/board/${encodeURIComponent(boot.scenario)}/`, {
  hello: () => ({ type: "filter", rows: false, watch: boot.watch }),
  onMessage(message) {
    if (message.now) clock.correct(message.now);
    if (message.problems) banner.update(message.problems);
    if (message.type === "snapshot" || message.watched) renew();
  },
  onStatus: (...given) => {
    status = given;
    showStatus(...given);
    banner.socket(...given);
  },
});
clock.startClock(() => showStatus(...status));
