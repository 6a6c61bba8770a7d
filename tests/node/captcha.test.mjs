import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import vm from "node:vm";

const folder = new URL("../../static/vendor/altcha/", import.meta.url);
const [script] = readdirSync(folder).filter((name) => name.endsWith(".js"));

const challenge = {
  parameters: {
    algorithm: "SCRYPT",
    cost: 1024,
    keyLength: 32,
    keyPrefix: "33f4a4d304737fe1b160a2fc6054fc0e",
    memoryCost: 8,
    nonce: "2cf1bea2690cdf1c7750e60d3e642ea0",
    parallelism: 1,
    salt: "b93a627361e76d8904ac6e11550f7b46",
  },
};

/** Run the worker with what a page over plain http has: no `crypto`, so no SubtleCrypto. */
function answer(request) {
  return new Promise((resolve) => {
    const context = { WebAssembly, TextEncoder, AbortController, performance, setTimeout, atob };
    context.self = context;
    context.postMessage = resolve;
    vm.runInNewContext(readFileSync(new URL(script, folder), "utf8"), context);
    assert.equal(context.crypto, undefined);
    context.onmessage({ data: { type: "work", counterStart: 0, counterStep: 1, ...request } });
  });
}

test("the check needs no SubtleCrypto, and finds what Python's library made", async () => {
  const { counter, derivedKey } = await answer({ challenge });
  assert.equal(counter, 5);
  assert.equal(derivedKey, "33f4a4d304737fe1b160a2fc6054fc0ed606f3196edf137388c811f32413d7ee");
});

test("what takes too long ends without a solution", async () => {
  const endless = { parameters: { ...challenge.parameters, keyPrefix: "00".repeat(16) } };
  assert.equal(await answer({ challenge: endless, timeout: 1 }), null);
});
