/**
 * Makes invisible characters visible before untrusted text (output of functions, names, errors, URLs) reaches a
 * terminal or a log. A raw control character there could move the cursor, rewrite earlier lines, set the window's title
 * or make the terminal send input; a bidirectional override displays text in a different order.
 *
 * The notation is that of JSON (`\u001b`, `\r`), so a JSON document stays valid, with the same values.
 */

/**
 * Control characters (C0, DEL, C1), format characters (bidirectional controls, zero-width characters, tags) and the
 * separators of lines and paragraphs. Excludes the joiners U+200C and U+200D, which scripts and emoji need, and the
 * format characters that are visible signs of Arabic, Syriac and Kaithi.
 */
const INVISIBLE = /[[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]--[\t\n\u200C-\u200D\u0600-\u0605\u06DD\u0890\u0891\u08E2\u070F\u{110BD}\u{110CD}]]/gv;

/** Escapes all invisible characters except line feeds and tabs. */
export function visibleText(text: string): string {
  return text.replaceAll(INVISIBLE, escaped);
}

/** Escapes line feeds as well: the result is one line, whatever the value contains. Tabs stay. */
export function visibleLine(text: string): string {
  return visibleText(text).replaceAll('\n', String.raw`\n`);
}

function escaped(character: string): string {
  const short = SHORT[character];
  if (short !== undefined) return short;
  let result = '';
  for (let at = 0; at < character.length; at += 1) result += `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
  return result;
}

const SHORT: Readonly<Record<string, string>> = { '\b': String.raw`\b`, '\f': String.raw`\f`, '\r': String.raw`\r` };
