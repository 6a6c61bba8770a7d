import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

let sockets; // all that were opened
let waits; // the pauses before the next, ms
let timers;

class FakeSocket {
  static OPEN = 1;

  constructor(url) {
    this.url = url;
    this.readyState = FakeSocket.OPEN;
    this.heard = {};
    this.said = [];
    sockets.push(this);
  }

  addEventListener(name, take) {
    this.heard[name] = take;
  }

  send(text) {
    this.said.push(JSON.parse(text));
  }

  close() {}

  tell(message) {
    this.heard.message({ data: JSON.stringify(message) });
  }

  /** Close as the server does, which says why before. */
  end(code, reason) {
    this.tell({ type: "closing", code, reason });
    this.heard.close({ code });
  }
}

let statuses;

beforeEach(async () => {
  sockets = [];
  waits = [];
  timers = [];
  statuses = [];
  Object.assign(globalThis, {
    WebSocket: FakeSocket,
    location: { href: "http://localhost/", reload: () => {} },
    document: { addEventListener: () => {}, hidden: false },
    addEventListener: () => {},
    setInterval: () => 0,
    clearTimeout: () => {},
    setTimeout: (run, ms) => {
      waits.push(ms);
      timers.push(run);
    },
  });
  Object.defineProperty(globalThis, "navigator", { value: { onLine: true }, configurable: true });
  Math.random = () => 0.5;
  const { openSocket } = await import("../../static/js/board/socket.js");
  openSocket("/ws/board/attack/", {
    hello: () => ({ type: "filter" }),
    onMessage: () => {},
    onStatus: (...given) => statuses.push(given),
  });
});

const reopen = () => timers.at(-1)();

test("a lost socket is back soon", () => {
  sockets.at(-1).heard.close({ code: 1006 });
  assert.deepEqual(waits, [300]);
});

test("one that said too much says why, and waits longer", () => {
  sockets.at(-1).end(4429, "wait a little");
  assert.deepEqual(waits, [3000]);
  assert.equal(statuses.at(-1)[0], "reconnecting");
  assert.equal(statuses.at(-1)[2], "wait a little");
});

test("it waits as long again where it shows the board in between, and longer where it does not", () => {
  for (let n = 0; n < 3; n++) {
    sockets.at(-1).tell({ type: "snapshot" });
    sockets.at(-1).end(4429, "wait a little");
    reopen();
  }
  assert.deepEqual(waits, [3000, 3000, 3000]);
  sockets.at(-1).end(4429, "wait a little");
  reopen();
  sockets.at(-1).end(4429, "wait a little");
  assert.deepEqual(waits.slice(3), [6000, 10000]);
});

test("the end of a session ends it", () => {
  sockets.at(-1).end(4401, "log in again");
  assert.deepEqual(waits, []);
  assert.equal(statuses.at(-1)[0], "ended");
});
