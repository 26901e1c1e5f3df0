/** What keeps an endpoint of the project from being served: for the terminal, for pages and for programs. */
import { excerptOf } from './excerpt.ts';
import { explain } from '../terminal/tool-error.ts';

export interface Problem {
  /** Relative to the project's folder; null when it concerns all files. */
  readonly file: string | null;
  readonly message: string;
  readonly hint: string;
  /** The lines of the source around the place, if the message names one. */
  readonly excerpt: readonly string[];
}

export async function problemOf(folder: string, file: string | null, thrown: unknown): Promise<Problem> {
  const { message, hint } = explain(thrown);
  return { file, message, hint, excerpt: (await excerptOf(folder, message))?.lines ?? [] };
}

/** The message with the lines of the source. */
export function problemText({ message, excerpt }: Problem): string {
  return [message, ...excerpt].join('\n');
}
