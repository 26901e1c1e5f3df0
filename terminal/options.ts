/** Declares options of commands and reads their values. */
import { CapstanError } from '../lib/errors.ts';

export interface OptionSpec {
  /** In commander's syntax: `--json`, `--env <environment>`. */
  readonly flags: string;
  readonly description: string;
  /** The only values it accepts. */
  readonly choices?: readonly string[];
  /** Description of the default, for the help. */
  readonly default?: string;
  /** Environment variable with the same effect. */
  readonly env?: string;
  /** Heading in the help; by default that of the options. */
  readonly section?: string;
}

/** Values by the option's long name in camel case; true for an option without a value. */
export type OptionValues = Readonly<Record<string, string | boolean | undefined>>;

/** Returns a text option; undefined when it was not given. */
export function textOption(options: OptionValues, name: string): string | undefined {
  const value = options[name];
  return typeof value === 'string' ? value : undefined;
}

export function flagOption(options: OptionValues, name: string): boolean {
  return options[name] === true;
}

/**
 * Returns a whole number from 1; undefined when it was not given.
 * @throws CapstanError INVALID_ARGUMENT naming the flag.
 */
export function countOption(options: OptionValues, name: string, flag: string): number | undefined {
  const text = textOption(options, name);
  if (text === undefined) return undefined;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new CapstanError('INVALID_ARGUMENT', `${flag}: must be a whole number from 1 to 999999`, { field: flag });
}
