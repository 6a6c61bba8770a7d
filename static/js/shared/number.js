// @ts-check
// Numbers as the server's pages write them: `12,345`.
/**
 * A number as the server's pages write it: `12,345`.
 *
 * @type {(n: number) => string}
 */
export const number = (n) => n.toLocaleString("en");
