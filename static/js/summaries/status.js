// A status page renews itself, and says so where it cannot: an old green must not look like a new one.

const EVERY_MS = 30_000;
const main = document.getElementById("main");
const old = document.getElementById("old");

async function renew() {
  try {
    const answer = await fetch(location.pathname, {credentials: "omit"});
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    main.replaceChildren(...page.getElementById("main").childNodes);
    old.hidden = true;
  } catch {
    old.hidden = false;
  }
}

setInterval(renew, EVERY_MS);
