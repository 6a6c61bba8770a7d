// @ts-check
// The check of a browser at the login: it computes for seconds, in a worker, and needs nobody.
//
// A form that is sent meanwhile waits for the end of the check, and then goes by itself.

const PATIENCE_MS = 90_000;
const WORDS = {
  running: "Many attempts came from here, so this browser is being checked. You can fill in the form meanwhile.",
  waiting: "This browser is still being checked. The form is sent once that is done.",
  done: "This browser has been checked: you can log in.",
  failed: "The check could not be finished in this browser.",
};

for (const box of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".captcha"))) guard(box);

/** Check this browser, and hold its form back until that is done. @param {HTMLElement} box */
function guard(box) {
  const again = box.querySelector("button");
  const solution = box.querySelector("input");
  const form = box.closest("form");
  /** @type {HTMLElement | null | undefined} what sent the form while the check ran */
  let sender;

  const say = (/** @type {keyof typeof WORDS} */ word) => {
    box.dataset.state = word;
    box.querySelector("output").textContent = WORDS[word];
    box.querySelector("progress").hidden = word === "failed" || word === "done";
    again.hidden = word !== "failed";
  };
  const check = () => {
    say("running");
    solve(JSON.parse(box.dataset.challenge), box.dataset.worker).then(
      (solved) => {
        solution.value = solved;
        say("done");
        if (sender !== undefined) form.requestSubmit(sender);
      },
      () => {
        sender = undefined;
        say("failed");
      },
    );
  };

  form.addEventListener("submit", (event) => {
    if (solution.value) return;
    event.preventDefault();
    if (box.dataset.state === "failed") again.focus();
    else {
      sender = event.submitter;
      say("waiting");
    }
  });
  again.addEventListener("click", check);
  check();
}

/**
 * Return what ALTCHA calls the payload: the challenge with its solution.
 * @param {object} challenge
 * @param {string} script of the worker that finds the solution
 * @returns {Promise<string>}
 */
async function solve(challenge, script) {
  const worker = new Worker(script);
  try {
    const solution = await new Promise((resolve, reject) => {
      worker.onmessage = ({ data }) => (data?.derivedKey ? resolve(data) : reject(data?.error));
      worker.onerror = reject;
      worker.postMessage({ type: "work", challenge, counterStart: 0, counterStep: 1, timeout: PATIENCE_MS });
    });
    return btoa(JSON.stringify({ challenge, solution }));
  } finally {
    worker.terminate();
  }
}
