// @ts-check
// The socket: comes back by itself, with growing pauses; says how it stands.
const PAUSES_MS = [300, 700, 1500, 3000, 6000, 10000];
const LATE_MS = 5000; // the server speaks at least every 2 s
const SILENT_MS = 9000;
const LOGIN_NEEDED = 4401;
const TOO_MUCH = 4429; // too many boards, or messages: tried again, less often
const TOO_MUCH_TRIES = 3; // as after so many tries: from the pause of 3 s on
const FINAL = new Set([LOGIN_NEEDED, 4403, 4404, 4409]);

/**
 * Open the socket at `path`, for as long as the page lives.
 *
 * hello(): what to say first, each time; after(): what else then, a list; onMessage(message); onStatus(state, since, reason): state is
 * connecting, live, late, reconnecting, offline or ended; since: when the server was last heard,
 * Unix ms of this machine; reason: in the server's words, where it gave one.
 *
 * @param {string} path
 * @param {{hello: () => object, after?: () => object[], onMessage: (message: any) => void, onStatus: (...status: any[]) => void}} handlers
 * @returns {{send: (message: object) => void}}
 */
export function openSocket(path, { hello, after = () => [], onMessage, onStatus }) {
  const url = new URL(path, location.href.replace(/^http/, "ws"));
  let socket = null;
  let tries = 0;
  let wordAt = Date.now(); // the last word of the server
  let waitsFrom = 0; // since when this socket waits for one
  let late = false;
  let timer = 0;
  let closing = null;

  const send = (message) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };

  function connect() {
    clearTimeout(timer);
    const mine = new WebSocket(url);
    socket = mine;
    waitsFrom = Date.now();
    mine.addEventListener("open", () => [hello(), ...after()].forEach(send));
    mine.addEventListener("message", (event) => mine === socket && take(JSON.parse(event.data)));
    mine.addEventListener("close", (event) => mine === socket && lost(event.code));
  }

  function take(message) {
    waitsFrom = Date.now();
    if (message.type === "closing") {
      closing = message;
      return;
    }
    if (message.type === "snapshot") {
      tries = 0;
      late = true; // what follows makes it live
    }
    if (late && !tries) onStatus("live", Date.now());
    if (!tries) {
      wordAt = Date.now();
      late = false;
    }
    onMessage(message);
    if (message.seq) send({ type: "ack", seq: message.seq });
  }

  function lost(code) {
    socket = null;
    const why = closing?.code ?? code;
    if (FINAL.has(why)) {
      onStatus("ended", wordAt, closing?.reason ?? "");
      if (why === LOGIN_NEEDED) location.reload(); // the login, and back here
      return;
    }
    const refusal = why === TOO_MUCH ? (closing?.reason ?? "") : "";
    closing = null;
    onStatus(navigator.onLine ? "reconnecting" : "offline", wordAt, refusal);
    if (why === TOO_MUCH) tries = Math.max(tries, TOO_MUCH_TRIES);
    const pause = PAUSES_MS[Math.min(tries++, PAUSES_MS.length - 1)];
    timer = setTimeout(connect, pause * (0.5 + Math.random()));
  }

  function hurry() {
    if (!socket) connect();
  }

  setInterval(() => {
    const silent = Date.now() - waitsFrom;
    if (!socket || silent < LATE_MS) return;
    if (silent < SILENT_MS) {
      if (!tries && !late) onStatus("late", wordAt);
      late = true;
      return;
    }
    const stuck = socket;
    lost(0);
    stuck.close();
  }, 1000);
  addEventListener("online", hurry);
  addEventListener("offline", () => {
    late = true;
    onStatus("offline", wordAt);
  });
  document.addEventListener("visibilitychange", () => document.hidden || hurry());
  onStatus("connecting", wordAt);
  connect();
  return { send };
}
