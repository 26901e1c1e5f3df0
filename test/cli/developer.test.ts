/** What helps at the terminal: completion, following logs, and what the fleet lacks. */
import { spawnSync } from 'node:child_process';

import test from 'ava';

import type { LogPage, LogRow } from '../../cli/api/logs.ts';
import { newLines } from '../../cli/api/new-lines.ts';
import { allCommands, findCommand, leafCommands } from '../../cli/commands.ts';
import { completionScript } from '../../cli/command/completion.ts';

const commands = await allCommands();

function complete(...words: string[]): string[] {
  const script = `${completionScript('bash', commands)}
COMP_WORDS=(capstan ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; _capstan; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return spawnSync('bash', ['-c', script], { encoding: 'utf8' }).stdout.trim().split('\n');
}

test('every command is found by its name, and by nothing that objects have of themselves', async (t) => {
  for (const command of commands) t.is((await findCommand([command.name])).root, command);
  for (const [path, command] of await leafCommands()) t.is((await findCommand(path.split(' '))).node, command, path);
  t.is((await findCommand(['constructor'])).root, undefined);
  t.is((await findCommand([''])).root, undefined);
  t.is((await findCommand([])).root, undefined);
  t.like(await findCommand(['nodes', 'tokens', 'delete', 'x']), { path: ['node', 'token', 'revoke'], rest: ['x'] });
  t.like(await findCommand(['node', 'constructor']), { path: ['node'], rest: ['constructor'] });
});

test('completion knows every command at each level, its options and their values', async (t) => {
  t.deepEqual(complete('dep'), ['deploy']);
  t.deepEqual(complete('node', 'to'), ['token']);
  t.deepEqual(complete('node', 'token', 'c'), ['create']);
  t.deepEqual(complete('node', 'token', 'create', '--max'), ['--max-uses']);
  t.deepEqual(complete('jobs', 'list', 'hello', '--st'), ['--status'], 'after an argument');
  t.deepEqual(complete('keys', 'create', 'ci', '--scope', ''), ['all', 'endpoints', 'read-only', 'environment', 'operator']);
  t.deepEqual(complete('endpoints', 'list', '-o', 'j'), ['json']);
  t.deepEqual(complete('completion', 'z'), ['zsh']);
  t.deepEqual(complete('node', 'nothing', ''), complete('node', ''), 'a word that is no command leads nowhere');
  for (const [path, { hidden }] of await leafCommands()) {
    const words = path.split(' ');
    t.deepEqual(complete(...words).includes(words.at(-1) ?? ''), hidden !== true, path);
  }
  t.true(complete('').length > 15);
  t.false(complete('').includes('start'));
  t.deepEqual(complete('deploy', '--exc'), ['--exclude']);
  t.deepEqual(complete('run', '--p'), ['--port']);
  t.is(spawnSync('bash', ['-n'], { input: completionScript('bash', commands) }).status, 0);
  const fish = completionScript('fish', commands);
  t.true(fish.includes(String.raw`complete -c capstan -n '__capstan_at \' deploy\'' -l exclude -d `));
  t.true(fish.includes(String.raw`complete -c capstan -n '__capstan_at \' node token\'' -a create -d `));
  t.true(
    fish.includes(
      String.raw`complete -c capstan -n '__capstan_at \' keys create\'' -l scope -xa 'all endpoints read-only environment operator' -d `,
    ),
  );
});

test('completion in zsh starts its system first, and assigns no variable that is special there', (t) => {
  const script = completionScript('zsh', commands);
  t.true(script.indexOf('compinit -D') < script.indexOf('bashcompinit'));
  t.deepEqual(script.match(/(?:^|\s)(?:path|words|status|options|functions)=/g), null);
  t.regex(script, /^\s*".*"\) offered=/m);
});

/** Completes with a tool that answers with what it was called with. */
function asked(...words: string[]): string[] {
  const script = `${completionScript('bash', commands)}
capstan() { echo "$@" | tr ' ' '~'; echo 'an error' >&2; }
COMP_WORDS=(capstan ${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length}; _capstan; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout, stderr } = spawnSync('bash', ['-c', script], { encoding: 'utf8' });
  return [
    ...stdout
      .trim()
      .split('\n')
      .filter((word) => word.startsWith('complete~')),
    ...(stderr === '' ? [] : [stderr]),
  ];
}

test('completion gets names of endpoints and environments from the service, with the options of the line, and no errors', (t) => {
  t.deepEqual(asked('logs', ''), ['complete~endpoint']);
  t.deepEqual(asked('jobs', 'list', '--env', 'staging', ''), ['complete~endpoint~--env~staging']);
  t.deepEqual(asked('call', '--data-dir', '/data', ''), ['complete~endpoint~--data-dir~/data']);
  t.deepEqual(asked('env', 'get', ''), ['complete~environment']);
  t.deepEqual(asked('deploy', '--env', ''), ['complete~environment']);
  t.deepEqual(asked('workers', 'list', '--endpoint', ''), ['complete~endpoint']);
  t.deepEqual(asked('endpoints', ''), [], 'a group has actions');
  t.deepEqual(asked('logs', '--'), [], 'options need no service');
  const fish = completionScript('fish', commands);
  t.true(fish.includes(String.raw`complete -c capstan -n '__capstan_at \' logs\'' -a '(capstan complete endpoint 2>/dev/null)'`));
  t.regex(fish, /-l env -xa '\(capstan complete environment 2>\/dev\/null\)'/);
});

test('followed logs print each line once, page by page', async (t) => {
  const line = (text: string): LogRow => ({
    ...{ at: new Date(1).toISOString(), worker: 'w', release: null, job: null, attempt: null, stream: 'stdout', level: null, fields: null },
    text,
  });
  const over = new AbortController();
  const pages: (readonly [string[], string | null])[] = [
    [[], null],
    [['c'], 'c1'],
    [[], null],
    [['d', 'e'], 'c2'],
  ];
  const asked: (string | null)[] = [];
  const read = async (cursor: string | null): Promise<LogPage> => {
    asked.push(cursor);
    const page = pages.shift();
    if (page === undefined) over.abort();
    const [texts, next] = page ?? [[], null];
    return Promise.resolve({ lines: texts.map(line), cursor: next, incomplete: false, missingNodes: [], unfilteredNodes: [] });
  };
  const texts: string[] = [];
  for await (const { text } of newLines(null, read, over.signal, { pauseMs: 0, everyMs: 0 })) texts.push(text);
  t.deepEqual(texts, ['c', 'd', 'e']);
  t.deepEqual(asked, [null, null, 'c1', 'c1', 'c2']);
});
