// The page of one asset: its facts follow its changes.
import * as clock from "./clock.js";
import { followFacts } from "./panel.js";
import { openSocket } from "./socket.js";
import { showStatus } from "./status.js";

const boot = JSON.parse(document.getElementById("boot").textContent);
clock.correct(boot.now);
clock.startClock();
const renew = followFacts();
openSocket(`/ws/board/${encodeURIComponent(boot.scenario)}/`, {
  hello: () => ({ type: "filter", rows: false, watch: boot.watch }),
  onMessage(message) {
    if (message.now) clock.correct(message.now);
    if (message.type === "snapshot" || message.watched) renew();
  },
  onStatus: showStatus,
});
