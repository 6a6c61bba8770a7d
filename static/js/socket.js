// The socket: comes back by itself, with growing pauses; says how it stands.
const PAUSES_MS = [300, 700, 1500, 3000, 6000, 10000];
const SILENT_MS = 9000; // the server speaks at least every 2 s
const LOGIN_NEEDED = 4401;
const FINAL = new Set([LOGIN_NEEDED, 4403, 4404, 4409]);

/**
 * Open the socket at `path`, for as long as the page lives.
 *
 * hello(): what to say first, each time; onMessage(message); onStatus(state, since): state is
 * connecting, live, reconnecting, offline or ended; since: Unix ms.
 */
export function openSocket(path, { hello, onMessage, onStatus }) {
  const url = new URL(path, location.href.replace(/^http/, "ws"));
  let socket = null;
  let tries = 0;
  let lostAt = Date.now();
  let heardAt = 0;
  let timer = 0;
  let closing = null;

  const send = (message) => {
    if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
  };

  function connect() {
    clearTimeout(timer);
    const mine = new WebSocket(url);
    socket = mine;
    heardAt = Date.now();
    mine.addEventListener("open", () => send(hello()));
    mine.addEventListener("message", (event) => mine === socket && take(JSON.parse(event.data)));
    mine.addEventListener("close", (event) => mine === socket && lost(event.code));
  }

  function take(message) {
    heardAt = Date.now();
    if (message.type === "closing") {
      closing = message;
      return;
    }
    if (message.type === "snapshot") {
      tries = 0;
      onStatus("live", heardAt);
    }
    onMessage(message);
    if (message.seq) send({ type: "ack", seq: message.seq });
  }

  function lost(code) {
    socket = null;
    if (!tries) lostAt = Date.now();
    const why = closing?.code ?? code;
    if (FINAL.has(why)) {
      onStatus("ended", lostAt, closing?.reason ?? "");
      if (why === LOGIN_NEEDED) location.reload(); // the login, and back here
      return;
    }
    closing = null;
    onStatus(navigator.onLine ? "reconnecting" : "offline", lostAt);
    const pause = PAUSES_MS[Math.min(tries++, PAUSES_MS.length - 1)];
    timer = setTimeout(connect, pause * (0.5 + Math.random()));
  }

  function hurry() {
    if (!socket) connect();
  }

  setInterval(() => {
    if (!socket || Date.now() - heardAt < SILENT_MS) return;
    const stuck = socket;
    lost(0);
    stuck.close();
  }, 1000);
  addEventListener("online", hurry);
  addEventListener("offline", () => onStatus("offline", Date.now()));
  document.addEventListener("visibilitychange", () => document.hidden || hurry());
  onStatus("connecting", lostAt);
  connect();
  return { send };
}
