/** The JSON of control rows and entries of the audit log. */

/** An escaped backslash, or an escape that JSON text has for a NUL and for half of a pair of surrogates alone. */
const ESCAPES = /\\(?:\\|u0000|ud[89a-f][0-9a-f]{2})/g;

/**
 * Returns a value as JSON text with U+FFFD in place of each NUL and each half of a pair of surrogates: PostgreSQL stores a document
 * with one and then reads no field of it, so that one such row would make a query over all rows fail.
 */
export function storedJson(value: unknown): string {
  return storableJson(JSON.stringify(value));
}

/** The same of JSON text, such as that of a row of an earlier version. */
export function storableJson(text: string): string {
  return text.replaceAll(ESCAPES, (escape) => (escape === String.raw`\\` ? escape : '\u{FFFD}'));
}
