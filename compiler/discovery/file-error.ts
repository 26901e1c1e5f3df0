import { CapstanError } from '../../lib/errors.ts';
import type { FileError } from './declared.ts';

/** Returns the error of a file. @throws what is not a CapstanError: a bug, not a mistake in the file. */
export function errorOf(file: string, thrown: unknown): FileError {
  if (thrown instanceof CapstanError) return { file, error: thrown };
  throw thrown;
}
