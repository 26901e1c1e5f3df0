/** Ids as callers write them: which can be ones of ours, and how any other is shown. */

/** Ids are visible ASCII; whatever else a caller sends is no id of ours and need not be asked for. */
export function isId(text: string): boolean {
  return /^[\x21-\x7e]{1,128}$/.test(text);
}

/** A caller's id, cut and cleaned so that it can stand in a message. */
export function printable(id: string): string {
  const cut = id.length > 64 ? `${id.slice(0, 64)}…` : id;
  return JSON.stringify(cut.toWellFormed());
}
