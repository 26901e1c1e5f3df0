/** A command is data: help, completion and documentation come from the same tree that runs it. */
import { CapstanError } from '../lib/errors.ts';
import type { Environment } from './config.ts';
import type { OptionSpec, OptionValues } from './options.ts';
import type { Terminal } from './terminal/terminal.ts';

export interface ArgumentSpec {
  /** Without brackets: `folder`. */
  readonly name: string;
  readonly description: string;
  readonly optional?: boolean;
}

export interface Invocation {
  readonly args: readonly string[];
  readonly options: OptionValues;
  readonly env: Environment;
  readonly terminal: Terminal;
}

export interface Command {
  readonly name: string;
  readonly summary: string;
  /** Not listed in the help. */
  readonly hidden?: boolean;
  readonly arguments?: readonly ArgumentSpec[];
  readonly options?: readonly OptionSpec[];
  /** Gives the exit code; nothing means 0. A CapstanError becomes its line, hint and exit code. */
  run(invocation: Invocation): Promise<number | void>;
}

/**
 * Refuses the words after those an action takes: commander counts only what the command takes at most.
 * @throws CapstanError INVALID_ARGUMENT naming the first of them.
 */
export function takesOnly(action: string, args: readonly string[], count: number): void {
  const [surplus] = args.slice(count);
  if (surplus !== undefined)
    throw new CapstanError('INVALID_ARGUMENT', `${action}: takes no ${JSON.stringify(surplus)}`, { field: 'action' });
}
