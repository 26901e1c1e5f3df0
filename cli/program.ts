/** Builds commander's tree of the commands: their arguments and their help. */
import { Argument, Command as Commander, Option } from 'commander';

import { isGroup, optionsOf, type ArgumentSpec, type Command, type CommandNode, type Invocation } from './command/command.ts';
import { sectionOf } from './commands.ts';
import { settingVariables } from '../terminal/config.ts';
import { closest } from '../terminal/closest.ts';
import type { OptionSpec, OptionValues } from '../terminal/options.ts';
import { ToolError } from '../terminal/tool-error.ts';
import { toolVersion } from '../terminal/version.ts';

export interface ProgramHooks {
  /** Runs the command with the parsed arguments. */
  readonly execute: (command: Command, invocation: Pick<Invocation, 'args' | 'options'>) => Promise<void>;
  /** Prints requested help, and the version; to stdout by default. */
  readonly print?: (text: string) => void;
}

/**
 * Its parse throws CommanderError for help and most errors, and CapstanError for a value that is not allowed. It prints
 * help only.
 */
export function buildProgram(commands: readonly CommandNode[], hooks: ProgramHooks): Commander {
  const help = new Commander('help').argument('[command...]').description('Print the help of a command.').helpGroup(sectionOf('help'));
  const program = groupOf({ name: 'capstan', summary: 'Turns your own GPU hosts into a serverless endpoint service.' }, '', hooks)
    .version(toolVersion(), '-V, --version', 'print the version')
    .addHelpCommand(help)
    .addHelpText('after', '\nDocumentation: docs/tool.md');
  for (const command of commands)
    program.addCommand(build(command, '', hooks).helpGroup(sectionOf(command.name)), { hidden: command.hidden === true });
  return program;
}

function build(node: CommandNode, above: string, hooks: ProgramHooks): Commander {
  const path = `${above} ${node.name}`;
  if (isGroup(node)) {
    const group = groupOf(node, path, hooks).helpCommand(false);
    for (const member of node.commands) group.addCommand(build(member, path, hooks), { hidden: member.hidden === true });
    return group;
  }
  const leaf = bare(node, hooks);
  for (const argument of node.arguments ?? []) leaf.addArgument(argumentOf(argument, path));
  for (const option of optionsOf(node)) leaf.addOption(optionOf(option, path));
  leaf.addHelpText('after', ({ command }) => footer(node, command));
  return leaf.action(() => hooks.execute(node, { args: leaf.args, options: valuesOf(leaf) }));
}

type Named = Pick<CommandNode, 'name' | 'summary'>;

function groupOf(named: Named, path: string, hooks: ProgramHooks): Commander {
  return bare(named, hooks)
    .usage('<command>')
    .addHelpText('after', `\nFor the arguments and options of a command: capstan${path} <command> --help`);
}

function bare({ name, summary }: Named, { print }: ProgramHooks): Commander {
  return new Commander(name)
    .description(summary)
    .helpOption('-h, --help', 'print this help')
    .exitOverride()
    .configureOutput({ outputError: () => undefined, ...(print === undefined ? {} : { writeOut: print }) })
    .configureHelp({ subcommandTerm: (command) => [command.name(), ...command.registeredArguments.map(termOf)].join(' ') });
}

function termOf(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`;
  return argument.required ? `<${name}>` : `[${name}]`;
}

function argumentOf({ name, description, optional, choices }: ArgumentSpec, path: string): Argument {
  const argument = new Argument(optional === true ? `[${name}]` : `<${name}>`, describe(description, { choices }));
  return choices === undefined ? argument : argument.argParser((value: string) => oneOf(name, value, choices, path));
}

/** The default and the variable are only described, because commander would read the variable itself. */
function optionOf(spec: OptionSpec, path: string): Option {
  const { flags, description, choices, default: fallback, env, section } = spec;
  const option = new Option(flags, describe(description, { choices, fallback, env }));
  if (section !== undefined) option.helpGroup(section);
  const name = /--[\w-]+/.exec(flags)?.[0] ?? flags;
  return choices === undefined ? option : option.argParser((value: string) => oneOf(name, value, choices, path));
}

interface Notes {
  readonly choices?: readonly string[] | undefined;
  readonly fallback?: string | undefined;
  readonly env?: string | undefined;
}

function describe(description: string, { choices, fallback, env }: Notes): string {
  const values = choices === undefined ? '' : `: ${choices.join(', ')}`;
  const notes = [...(fallback === undefined ? [] : [`default: ${fallback}`]), ...(env === undefined ? [] : [`env: ${env}`])];
  return `${description}${values}${notes.length === 0 ? '' : ` (${notes.join(', ')})`}`;
}

/** @throws CapstanError INVALID_ARGUMENT naming the field and the values it accepts. */
function oneOf(field: string, value: string, choices: readonly string[], path: string): string {
  if (choices.includes(value)) return value;
  const meant = closest(value, choices);
  const hint = `${meant === null ? '' : `Did you mean ${meant}? `}Usage: capstan${path} --help`;
  throw new ToolError('INVALID_ARGUMENT', `${field}: must be one of ${choices.join(', ')}`, hint, { field });
}

/** Commands receive `-o json` as `--json`, except those whose `--json` is the name of a file. */
function valuesOf(command: Commander): OptionValues {
  const { output, ...values } = command.opts<Record<string, string | boolean | undefined>>();
  return output === undefined
    ? values
    : { ...values, output, json: typeof values['json'] === 'string' ? values['json'] : output === 'json' };
}

/** The variables that have no option, and examples. */
function footer({ settings = [], examples = [] }: Command, command: Commander): string {
  const variables = settingVariables(...settings);
  const width = Math.max(0, ...variables.map(({ name }) => name.length));
  const help = command.createHelp();
  help.prepareContext({ helpWidth: command.configureOutput().getOutHelpWidth?.() ?? 80 });
  const blocks = [
    ['Environment:', ...variables.map(({ name, description }) => help.formatItem(name, width, description, help))],
    ['Examples:', ...examples.map((example) => `  capstan ${example}`)],
  ];
  const text = blocks
    .filter((lines) => lines.length > 1)
    .map((lines) => lines.join('\n'))
    .join('\n\n');
  return text === '' ? '' : `\n${text}`;
}
