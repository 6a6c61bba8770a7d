// The page of one asset: its facts follow its changes, its banner says when they do not.
import * as clock from "./clock.js";
import { followFacts } from "./panel.js";
import { openSocket } from "./socket.js";
import { Standing } from "./standing.js";
import { showStatus } from "./status.js";

const boot = JSON.parse(document.getElementById("boot").textContent);
clock.correct(boot.now);
const standing = new Standing(document.getElementById("standing"), boot.standing);
const renew = followFacts();
let status = [];
openSocket(`/ws/board/${encodeURIComponent(boot.scenario)}/`, {
  hello: () => ({ type: "filter", rows: false, watch: boot.watch }),
  onMessage(message) {
    if (message.now) clock.correct(message.now);
    if (message.standing) standing.tell(message.standing);
    if (message.type === "snapshot" || message.watched) renew();
  },
  onStatus: (...given) => {
    status = given;
    showStatus(...given);
    standing.socket(...given);
  },
});
clock.startClock(() => showStatus(...status));
