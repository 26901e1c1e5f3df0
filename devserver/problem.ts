/** What keeps an endpoint of the project from being served: for the terminal, for pages and for programs. */
import { excerptOf } from './excerpt.ts';
import { explain } from '../terminal/tool-error.ts';

export interface Problem {
  /** The files whose endpoints it concerns, relative to the project's folder; null for all. */
  readonly files: readonly string[] | null;
  /** A few words. */
  readonly title: string;
  readonly message: string;
  readonly hint: string;
  /** The lines of the source around the place, if the message names one. */
  readonly excerpt: readonly string[];
}

export async function problemOf(
  folder: string,
  files: readonly string[] | null,
  thrown: unknown,
  title = 'Syntax error',
): Promise<Problem> {
  const { message, hint } = explain(thrown);
  return { files, title, message, hint, excerpt: (await excerptOf(folder, message))?.lines ?? [] };
}

/** The message with the lines of the source. */
export function problemText({ message, excerpt }: Problem): string {
  return [message, ...excerpt].join('\n');
}
