// Numbers as the server's pages write them: `12,345`.
export const number = (n) => n.toLocaleString("en");
