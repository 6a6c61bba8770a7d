// @ts-check
// A short sound of two tones, made here: no file. A browser plays none before a click or a key.
const TONES = [
  [880, 0],
  [1175, 0.14],
];
const LENGTH_S = 0.22;

let context = null;
const waiting = new Set();

for (const kind of ["pointerdown", "keydown"]) {
  document.addEventListener(kind, wake, { capture: true, passive: true });
}

function wake() {
  context ??= new AudioContext();
  if (context.state !== "suspended") return;
  context.resume().then(() => {
    for (const notify of waiting) notify();
  });
}

/**
 * Whether this tab may make a sound by now.
 *
 * @type {() => boolean}
 */
export const ready = () => context?.state === "running";

/**
 * notify(): once it may.
 *
 * @type {(notify: () => void) => unknown}
 */
export const whenReady = (notify) => waiting.add(notify);

/**
 * volume: 0 to 1.
 *
 * @param {number} volume
 */
export function chime(volume) {
  if (!ready()) return;
  const at = context.currentTime + 0.02;
  for (const [frequency, after] of TONES) tone(frequency, at + after, volume);
}

function tone(frequency, at, volume) {
  const oscillator = context.createOscillator();
  const gain = context.createGain();
  oscillator.type = "sine";
  oscillator.frequency.value = frequency;
  gain.gain.setValueAtTime(0, at);
  gain.gain.linearRampToValueAtTime(0.5 * volume, at + 0.015);
  gain.gain.exponentialRampToValueAtTime(0.0001, at + LENGTH_S);
  oscillator.connect(gain).connect(context.destination);
  oscillator.start(at);
  oscillator.stop(at + LENGTH_S);
}
