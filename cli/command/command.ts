/** The tree of commands as data. Help, completion and the checks of the docs read the same tree that runs. */
import { stringifyExact } from '../../lib/exact-json.ts';
import { settingOptions, type Environment, type SettingName } from '../../terminal/config.ts';
import { flagOption, type OptionSpec, type OptionValues } from '../../terminal/options.ts';
import type { Terminal } from '../../terminal/terminal.ts';

export interface ArgumentSpec {
  /** Without brackets: `folder`; `settings...` takes the rest. */
  readonly name: string;
  readonly description: string;
  readonly optional?: boolean;
  /** The only values it accepts. */
  readonly choices?: readonly string[];
}

export interface Invocation {
  readonly args: readonly string[];
  readonly options: OptionValues;
  readonly env: Environment;
  readonly terminal: Terminal;
}

interface Named {
  readonly name: string;
  /** One line. */
  readonly summary: string;
  /** Accepted in place of the name; not shown. */
  readonly aliases?: readonly string[];
  /** Not listed in the help. */
  readonly hidden?: boolean;
}

export interface Command extends Named {
  readonly arguments?: readonly ArgumentSpec[];
  readonly options?: readonly OptionSpec[];
  /**
   * Settings that the command reads: those with a flag are options, the others are listed in the help as environment
   * variables.
   */
  readonly settings?: readonly SettingName[];
  /** Takes `--json` and `-o json`. */
  readonly json?: boolean;
  /**
   * Returns what the command deletes, as a question. It is asked on a terminal unless `--yes` was given; a script is not
   * asked.
   */
  readonly confirm?: (invocation: Pick<Invocation, 'args' | 'options'>) => string;
  /** Example command lines, without `capstan`. */
  readonly examples?: readonly string[];
  /** Returns the exit code; undefined means 0. A CapstanError is printed with its hint and determines the exit code. */
  run(invocation: Invocation): Promise<number | void>;
}

/** Commands that share a noun, such as `capstan node`. A group cannot be run. */
export interface CommandGroup extends Named {
  readonly commands: readonly CommandNode[];
}

export type CommandNode = Command | CommandGroup;

export const OUTPUT_FORMATS = ['text', 'json'] as const;

const jsonOptions: readonly OptionSpec[] = [
  { flags: '-o, --output <format>', description: 'output format', choices: OUTPUT_FORMATS, default: 'text' },
  { flags: '--json', description: 'same as --output json' },
];

export const yesOption: OptionSpec = { flags: '-y, --yes', description: 'do not ask on a terminal' };

export function isGroup(node: CommandNode): node is CommandGroup {
  return 'commands' in node;
}

/** Returns the member of a group with this name or alias. */
export function memberOf(group: CommandGroup, word: string): CommandNode | undefined {
  return group.commands.find(({ name, aliases = [] }) => name === word || aliases.includes(word));
}

/** Returns all options of a command: its own, those of its output, those of its settings. */
export function optionsOf({ options = [], settings = [], json = false, confirm }: Command): readonly OptionSpec[] {
  return [...options, ...(confirm === undefined ? [] : [yesOption]), ...(json ? jsonOptions : []), ...settingOptions(...settings)];
}

/** Prints the data as JSON if the command was run with `--json`; else calls `text`. */
export function printResult({ options, terminal }: Invocation, data: unknown, text: () => void): void {
  if (flagOption(options, 'json')) terminal.data(stringifyExact(data, 2));
  else text();
}
