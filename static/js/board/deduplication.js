// @ts-check
// What one tab has announced, no other tells.
//
// Kept in IndexedDB, whose transactions of all tabs come one after the other. What localStorage
// gives may be older than what another tab has just written, also to who holds a lock.
const STORE = "announced";
const MOST = 500; // announced lately

/**
 * Take for this tab what no tab has announced.
 *
 * keys: of what could be announced. Returns { mine: those that this tab is to announce, early: in how many
 * ms something may be announced again, if that is what keeps them }. Without a store they are all this
 * tab's.
 *
 * @param {string[]} keys
 * @param {number} pauseMs
 * @returns {Promise<{mine: string[], early: number}>}
 */
export async function claim(keys, pauseMs) {
  try {
    return await attempt(await (opened ??= open()), keys, pauseMs);
  } catch {
    opened = null; // the next time may go better
    return { mine: keys, early: 0 };
  }
}

let opened = null;

function open() {
  return new Promise((done, fail) => {
    const request = indexedDB.open("tallyboard-alarm", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE);
    request.onsuccess = () => done(request.result);
    request.onerror = () => fail(request.error);
  });
}

/** One transaction: it is read, judged and written before another tab's begins. */
function attempt(database, keys, pauseMs) {
  return new Promise((done, fail) => {
    const transaction = database.transaction(STORE, "readwrite");
    const store = transaction.objectStore(STORE);
    let share = null;
    store.get(STORE).onsuccess = ({ target }) => {
      const announced = target.result ?? { at: 0, keys: [] };
      share = judge(announced, keys, pauseMs);
      if (!share.mine.length) return;
      store.put({ at: Date.now(), keys: [...share.mine, ...announced.keys].slice(0, MOST) }, STORE);
    };
    transaction.oncomplete = () => done(share);
    transaction.onabort = () => fail(transaction.error);
  });
}

function judge(announced, keys, pauseMs) {
  const known = new Set(announced.keys);
  const mine = keys.filter((key) => !known.has(key));
  const left = announced.at + pauseMs - Date.now();
  const early = mine.length && left > 0 && left <= pauseMs ? left : 0;
  return { mine: early ? [] : mine, early };
}
