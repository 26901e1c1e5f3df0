/** The tree of commands as it is typed: help at each level, and old spellings that still work. */
import { join } from 'node:path';

import test from 'ava';

import { optionsOf, type Command } from '../../cli/command/command.ts';
import { allCommands, findCommand, leafCommands } from '../../cli/commands.ts';
import { currentSpelling } from '../../cli/old-spellings.ts';
import { buildProgram } from '../../cli/program.ts';
import { ageOf } from '../../terminal/age.ts';
import { run } from './fakes/run.ts';

const bin = join(import.meta.dirname, '../../cli/capstan.mjs');

interface Ended {
  readonly code: number | string;
  readonly stdout: string;
  readonly stderr: string;
}

async function capstan(...args: readonly string[]): Promise<Ended> {
  const running = run([bin, ...args]);
  const code = await running.ended;
  return { code, stdout: running.stdout(), stderr: running.stderr() };
}

const all = await allCommands();

/** The help that a command line prints, built in this process. */
async function helpOf(path: string): Promise<string> {
  let printed = '';
  const program = buildProgram(all, { execute: () => Promise.resolve(), print: (text) => (printed += text) });
  await program.parseAsync([...path.split(' '), '--help'], { from: 'user' }).catch((error: unknown) => {
    if ((error as { readonly exitCode?: number }).exitCode !== 0) throw error;
  });
  return printed;
}

/** Line breaks of the help depend on its width. */
const unwrapped = (text: string): string => text.replaceAll(/\s+/g, ' ');

test('the help of a group lists its commands, and not the old spellings', async (t) => {
  for (const args of [
    ['node', '--help'],
    ['help', 'node'],
    ['node', 'help'],
    ['nodes', '-h'],
  ]) {
    const { code, stdout, stderr } = await capstan(...args);
    t.deepEqual([code, stderr], [0, ''], args.join(' '));
    t.regex(stdout, /^Usage: capstan node <command>\n/);
    for (const name of ['list', 'drain <node>', 'resume <node>', 'remove <node>', 'token'])
      t.regex(stdout, new RegExp(`^  ${name} +[A-Z]`, 'm'));
    t.notRegex(stdout, /^ {2}(tokens|revoke|delete)/m);
  }
  t.regex(await helpOf('node token'), /^Usage: capstan node token <command>\n/);
  t.regex((await capstan('help', 'node', 'tokens', 'create')).stdout, /^Usage: capstan node token create \[options\]\n/);
});

test('a group without a command shows its help, and that is a mistake', async (t) => {
  const { code, stdout, stderr } = await capstan('jobs');
  t.deepEqual([code, stdout], [2, '']);
  t.regex(stderr, /^Usage: capstan jobs <command>\n/);
});

const commands = await leafCommands();

/** Commands whose help says nothing of examples, because there is one way to call them. */
const WITHOUT_EXAMPLES = new Set(['logout', 'scheduler', 'gateway', 'agent', 'start']);

for (const [path, command] of commands) {
  if (command.hidden === true) continue;
  test(`the help of ${path} has its usage, arguments, options with defaults and variables, and examples`, async (t) => {
    const stdout = await helpOf(path);
    t.true(stdout.startsWith(`Usage: capstan ${path} [options]`));
    const text = unwrapped(stdout);
    t.true(text.includes(unwrapped(command.summary)));
    for (const { name, description, optional } of command.arguments ?? []) {
      t.true(stdout.split('\n', 1)[0]?.includes(optional === true ? `[${name}]` : `<${name}>`), name);
      t.true(text.includes(` ${name.replace('...', '')} ${unwrapped(description)}`), name);
    }
    for (const { flags, description, default: fallback, env, choices } of optionsOf(command)) {
      t.true(text.includes(` ${flags} ${unwrapped(description)}`), flags);
      if (fallback !== undefined) t.true(text.includes(`(default: ${fallback}`), flags);
      if (env !== undefined) t.true(text.includes(`env: ${env})`), flags);
      if (choices !== undefined) t.true(text.includes(`: ${choices.join(', ')}`), flags);
    }
    if (command.settings?.includes('apiKey') === true) t.regex(stdout, /^Environment:\n(?: {2}.*\n)*? {2}SERVICE_API_KEY /m);
    t.is((command.examples ?? []).length > 0, !WITHOUT_EXAMPLES.has(path));
    for (const example of command.examples ?? []) t.true(stdout.includes(`\n  capstan ${example}\n`), example);
  });
}

test('every example is a command of the tool with options that it has', (t) => {
  for (const [path, { examples = [] }] of commands)
    for (const example of examples) {
      t.true(example === path || example.startsWith(`${path} `), example);
      const options = optionsOf(commands.get(path) as Command).flatMap(({ flags }) => flags.match(/--?[a-z-]+/g) ?? []);
      for (const [, flag = ''] of example.matchAll(/(?:^|\s)(--?[a-z-]+)/g)) t.true(options.includes(flag), example);
    }
});

/** Old command line → the command that it reaches now, with the words and options that follow. */
const OLD: readonly (readonly [string, string, string?])[] = [
  ['account', 'account get'],
  ['account show', 'account get'],
  ['account quota team --workers 3', 'account set', 'team --workers 3'],
  ['builds', 'builds list'],
  ['builds hello --env e', 'builds list', 'hello --env e'],
  ['endpoints', 'endpoints list'],
  ['endpoints --env e', 'endpoints list', '--env e'],
  ['endpoints show hello', 'endpoints get', 'hello'],
  ['env', 'env list'],
  ['jobs show hello id', 'jobs get', 'hello id'],
  ['keys', 'keys list'],
  ['master-key', 'master-key status'],
  ['master-key show', 'master-key status'],
  ['nodes', 'node list'],
  ['node token --name rack', 'node token create', '--name rack'],
  ['node tokens', 'node token list'],
  ['node revoke id', 'node token revoke', 'id'],
  ['undeploy hello --stop', 'endpoints delete', 'hello --stop'],
  ['undeploy --all', 'endpoints delete', '--all'],
  ['webhooks', 'webhooks list'],
  ['webhooks redeliver failed', 'webhooks redeliver', '--failed'],
  ['webhooks secret', 'webhooks secret get'],
  ['webhooks secret --rotate', 'webhooks secret rotate'],
  ['workers --endpoint hello', 'workers list', '--endpoint hello'],
];

test('every old spelling reaches its command, and no current one is taken for an old one', async (t) => {
  for (const [old, path, rest = ''] of OLD) {
    const { args, moved } = currentSpelling(old.split(' '));
    t.is(args.join(' '), `${path} ${rest}`.trim(), old);
    t.is(moved?.to.split(' --')[0], path, old);
    t.deepEqual((await findCommand(args)).path, path.split(' '), old);
  }
  // The command that reads the arguments names itself.
  for (const [old, path] of OLD.slice(-3)) {
    const { code, stderr } = await capstan(...old.split(' '), '--no-such-option');
    t.is(code, 2, old);
    t.regex(stderr, new RegExp(`^✗ unknown option '--no-such-option'\nhint: .*Usage: capstan ${path} --help\n$`), old);
  }
  for (const [path, { examples = [] }] of commands)
    for (const current of [path, ...examples]) t.deepEqual(currentSpelling(current.split(' ')), { args: current.split(' ') });
});

test('an age is in its largest whole unit', (t) => {
  const now = Date.parse('2026-11-22T12:00:00Z');
  const ages = ['2026-11-22T11:59:15Z', '2026-11-22T11:00:01Z', '2026-11-21T13:00:00Z', '2026-08-01T00:00:00Z', '2027-01-01T00:00:00Z'];
  t.deepEqual(
    ages.map((moment) => ageOf(moment, now)),
    ['45s', '59m', '23h', '113d', '0s'],
  );
  t.is(ageOf(null, now), '');
  t.is(ageOf('no moment', now), '');
});
