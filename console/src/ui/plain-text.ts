/** Makes characters visible that would change how a text is shown: control characters, bidirectional and zero-width ones. */

// oxlint-disable-next-line no-control-regex -- these are the characters to find
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
const CONTROL_PICTURES = 0x2400;
const FIRST_PRINTABLE = 0x20;

/** Returns the text with each such character as a control picture or its code point. Line feeds and tabs stay. */
export function visible(text: string): string {
  return text.replaceAll(INVISIBLE, (character) => {
    const code = character.codePointAt(0) ?? 0;
    return code < FIRST_PRINTABLE
      ? String.fromCodePoint(CONTROL_PICTURES + code)
      : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, '0')}\u27e9`;
  });
}
