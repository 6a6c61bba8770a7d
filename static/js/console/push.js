// @ts-check
// Subscribes this browser once its user has clicked and allowed it.
/** @type {HTMLFormElement} */
const form = document.querySelector("#push-form");
/** @type {HTMLButtonElement} */
const button = document.querySelector("#push-subscribe");
const problem = document.getElementById("push-problem");

/** @param {string} text */
function refuse(text) {
  problem.textContent = text;
  problem.hidden = false;
}

/** @param {string} text in base64url */
function bytesOf(text) {
  const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(plain, (letter) => letter.charCodeAt(0));
}

async function subscription() {
  const registration = await navigator.serviceWorker.getRegistration("/");
  return registration?.pushManager.getSubscription();
}

async function subscribe() {
  const registration = await navigator.serviceWorker.register(form.dataset.worker, { scope: "/" });
  await navigator.serviceWorker.ready;
  const former = await registration.pushManager.getSubscription();
  await former?.unsubscribe(); // which may be of another key
  return registration.pushManager.subscribe({
    userVisibleOnly: true,
    applicationServerKey: bytesOf(form.dataset.key),
  });
}

/** @param {PushSubscription} made */
function send(made) {
  const { endpoint, keys } = made.toJSON();
  for (const [name, value] of Object.entries({ endpoint, ...keys })) {
    const field = /** @type {HTMLInputElement | null} */ (form.elements.namedItem(name));
    if (field) field.value = value;
  }
  form.submit();
}

/** @param {Event} event */
async function askAndSubscribe(event) {
  event.preventDefault();
  button.disabled = true;
  try {
    const answer = await Notification.requestPermission();
    if (answer === "granted") return send(await subscribe());
    refuse("The browser does not allow notifications from this site: allow them in its settings, then try again.");
  } catch (error) {
    refuse(`The browser could not be subscribed: ${error.message}`);
  }
  button.disabled = false;
}

async function start() {
  if (!("serviceWorker" in navigator && "PushManager" in window && "Notification" in window)) {
    const https = window.isSecureContext ? "" : ", as this page did not come over HTTPS";
    return refuse(`This browser cannot show notifications${https}.`);
  }
  const known = await subscription();
  const row = known && document.querySelector(`[data-endpoint="${CSS.escape(known.endpoint)}"]`);
  if (row) /** @type {HTMLElement} */ (row.querySelector(".this-browser")).hidden = false;
  else button.hidden = false;
  form.addEventListener("submit", askAndSubscribe);
}

start();
