/**
 * Tags of a job: words that its submitter finds it by. They travel and are stored as one text, separated by spaces, since no tag contains
 * one; without tags the text is empty or absent.
 */

export const MAX_TAGS = 8;
export const TAG = /^[\w.:/=@+-]{1,64}$/;
export const TAG_RULE = 'must have 1 to 64 letters, digits or any of _ . : / = @ + -';

/** Returns the text of tags that follow the rule; each counts once. */
export function tagsText(tags: readonly string[]): string {
  return [...new Set(tags)].join(' ');
}

/** Returns the tags of a text; those that break the rule, and those beyond the limit, are left out. */
export function tagsOf(text: string): string[] {
  return text
    .split(' ')
    .filter((tag) => TAG.test(tag))
    .slice(0, MAX_TAGS);
}
