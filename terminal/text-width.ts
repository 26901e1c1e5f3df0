/** How many cells of a terminal a text takes, and texts cut or broken to a number of cells. Pure. */

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });
const PLAIN = /^[\u0020-\u007E]*$/;
/** Emoji, and the blocks of wide East Asian characters. */
const WIDE =
  /\p{Emoji_Presentation}|\uFE0F|[\u1100-\u115F\u2E80-\u303E\u3041-\uA4CF\uA960-\uA97C\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{16FE0}-\u{1B2FF}\u{20000}-\u{3FFFD}]/u;
/** Characters that are drawn over the one before. */
const NO_WIDTH = /^[\p{M}\u200C\u200D]+$/u;

/** `text` has no control characters (visibleLine). */
export function textWidth(text: string): number {
  if (PLAIN.test(text)) return text.length;
  let width = 0;
  for (const { segment } of graphemes.segment(text)) width += widthOf(segment);
  return width;
}

function widthOf(segment: string): number {
  if (NO_WIDTH.test(segment)) return 0;
  return WIDE.test(segment) ? 2 : 1;
}

/** Returns the text, or its beginning with `…` where it is wider than `width` cells. */
export function cutText(text: string, width: number): string {
  if (textWidth(text) <= width) return text;
  return `${(breakText(text, Math.max(1, width - 1))[0] ?? '').trimEnd()}…`;
}

/** Returns the text as lines of at most `width` cells, broken at spaces where there are any in the second half of a line. */
export function breakText(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  let used = 0;
  for (const { segment } of graphemes.segment(text)) {
    const next = widthOf(segment);
    if (used + next > width && line !== '') {
      const space = line.lastIndexOf(' ');
      const at = space > line.length / 2 ? space + 1 : line.length;
      lines.push(line.slice(0, at));
      line = line.slice(at);
      used = textWidth(line);
    }
    line += segment;
    used += next;
  }
  return [...lines, line];
}
