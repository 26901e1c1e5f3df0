/** The prose is held to what it speaks of: links, files, commands with their options, settings. */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';

import test from 'ava';

import { isGroup, optionsOf } from '../../cli/command/command.ts';
import { findCommand, leafCommands } from '../../cli/commands.ts';
import { currentSpelling } from '../../cli/old-spellings.ts';

const root = join(import.meta.dirname, '../..');
const FOLDERS =
  'agent,bench,cli,client,compiler,deploy,devserver,docs,examples,gateway,proto,release,scheduler,sdk,supervisor,terminal,test,tools,.ci,.github';
const isOurs = (file: string): boolean => !/(^|\/)(node_modules|dist|\.tool)\//.test(file) && statSync(join(root, file)).isFile();
const sources = globSync([`{${FOLDERS}}/**/*`, '.ci/*', '.github/**/*'], { cwd: root }).filter(isOurs);
const pages = [...globSync('*.md', { cwd: root }), ...sources.filter((file) => file.endsWith('.md'))];
const text = (file: string): string => readFileSync(join(root, file), 'utf8');

/** The page without its blocks of code, where brackets mean something else. */
const prose = (file: string): string => text(file).replaceAll(/^```.*?^```/gms, '');

/** Names of a page's headings as links have them. */
function anchors(file: string): Set<string> {
  return new Set(
    [...prose(file).matchAll(/^#+ +(.*)$/gm)].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
        .trim()
        .replaceAll(/\s/g, '-'),
    ),
  );
}

test('every relative link leads to a file, and to a heading of it', (t) => {
  const dead: string[] = [];
  let seen = 0;
  for (const page of pages) {
    for (const [, target = ''] of prose(page).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^[a-z]+:/.test(target)) continue;
      seen += 1;
      const [path = '', anchor] = target.split('#');
      const file = path === '' ? page : relative(root, join(root, dirname(page), path));
      if (!existsSync(join(root, file))) dead.push(`${page}: ${target} is not there`);
      else if (anchor !== undefined && !anchors(file).has(anchor)) dead.push(`${page}: ${file} has no heading #${anchor}`);
    }
  }
  t.deepEqual(dead, []);
  t.true(seen > 50, `only ${seen} links were found`);
});

/** Folders there have names of parts, too. */
const ofDataFolder = new Set([
  'agent/cache',
  'agent/node.json',
  'scheduler/blobs/body',
  'scheduler/blobs/build',
  'scheduler/capstan.db',
  'scheduler/capstan.db-lock',
  'scheduler/capstan.db-mark',
  'scheduler/capstan.db-wal',
]);

test('lines of prose are at most 120 characters long', (t) => {
  // A cell of a table cannot be wrapped, an address cannot be cut, and the page of settings is generated.
  const isPlain = (line: string): boolean => !/^\s*[|>]/.test(line) && !/\S{60}/.test(line);
  const long = pages
    .filter((page) => page !== 'docs/configuration.md')
    .flatMap((page) =>
      prose(page)
        .split('\n')
        .filter((line) => line.length > 120 && isPlain(line))
        .map((line) => `${page}: ${line.slice(0, 60)}…`),
    );
  t.deepEqual(long, []);
});

test('every file of the sources that a page names is there', (t) => {
  const gone: string[] = [];
  let seen = 0;
  for (const page of pages) {
    for (const [, path = ''] of text(page).matchAll(
      /`((?:agent|bench|cli|client|compiler|deploy|devserver|examples|gateway|proto|release|scheduler|sdk|supervisor|terminal|test|tools)\/[\w./-]+)`/g,
    )) {
      if (ofDataFolder.has(path)) continue;
      seen += 1;
      if (!existsSync(join(root, path)) && !existsSync(join(root, dirname(page), path))) gone.push(`${page}: ${path}`);
    }
  }
  t.deepEqual(gone, []);
  t.true(seen > 30, `only ${seen} paths were found`);
});

test('the page of folders names every folder of the parts', (t) => {
  const page = text('docs/folders.md');
  const inside = sources
    .filter((file) => /^(agent|cli|client|compiler|devserver|gateway|scheduler|supervisor|deploy|test)\//.test(file))
    .map((file) => file.split('/'));
  const found = new Set(inside.filter((parts) => parts.length > 2).map(([part = '', folder = '']) => `${part}/${folder}/`));
  for (const [part, folder, runtime, file] of inside)
    if (folder === 'runtimes' && file !== undefined) found.add(`${part ?? ''}/runtimes/${runtime ?? ''}/`);
  t.true(found.size > 40);
  t.deepEqual(
    [...found].filter((folder) => !page.includes(`\`${folder}\``)),
    [],
  );
});

const commands = await leafCommands();

/** Lines that a reader would type: of blocks of code, and in single quotes of code. */
function typed(file: string): string[] {
  const source = text(file);
  const blocks = [...source.matchAll(/^```(?:\w*)\n(.*?)^```/gms)].flatMap(([, code = '']) => code.split('\n'));
  const spans = [...prose(file).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code);
  return [...blocks, ...spans].map((line) => line.trim());
}

test('every command that a page names is one of the tool in its current spelling, with the options it has', async (t) => {
  const wrong: string[] = [];
  let seen = 0;
  for (const page of pages) {
    for (const line of typed(page)) {
      for (const [, rest = ''] of line.matchAll(/(?:^|[\s=;&|])(?:npx )?capstan (?!capstan |import )([a-z]+(?:-[a-z]+)*\b[^;&|#`)]*)/g)) {
        seen += 1;
        const words = rest.split(/\s+/).filter((word) => word !== '');
        const { node, path } = await findCommand(words);
        const what = `${page}: capstan ${rest}`;
        // A page may name a group as a whole: `capstan node`.
        if (words[0] === 'help' || words[0] === '…') continue;
        if (node === undefined || (isGroup(node) && words.length > path.length)) wrong.push(what);
        else if (!isGroup(node)) {
          const { moved } = currentSpelling(words);
          if (moved !== undefined) wrong.push(`${what} is an old spelling of ${moved.to}`);
          const options = new Set(optionsOf(node).flatMap(({ flags }) => flags.match(/--?[a-z-]+/g) ?? []));
          for (const [, flag = ''] of rest.matchAll(/(?:^|\s)\[?(--[a-z-]+|-[a-z]\b)/g))
            if (!options.has(flag) && flag !== '--help') wrong.push(`${what}: ${flag}`);
        }
      }
    }
  }
  t.deepEqual(wrong, []);
  t.true(seen > 40, `only ${seen} commands were found`);
});

test('the page of the tool has every command and every option, and no other', (t) => {
  const page = text('docs/tool.md');
  const rows = [...page.matchAll(/^\| (`.*?) \| /gm)].map(([, cell = '']) => cell);
  const shown = [...commands].filter(([, { hidden }]) => hidden !== true);
  t.deepEqual(
    shown.map(([path]) => path).filter((path) => !rows.some((cell) => new RegExp(`\`${path}\\b`).test(cell))),
    [],
  );
  const told = new Set(pages.flatMap((file) => text(file).match(/--[a-z][a-z-]+/g) ?? []));
  const untold = shown
    .flatMap(([path, command]) => optionsOf(command).map(({ flags }) => ({ path, flag: /--[a-z-]+/.exec(flags)?.[0] ?? '' })))
    .filter(({ flag }) => !told.has(flag))
    .map(({ path, flag }) => `${path} ${flag}`);
  t.deepEqual(untold, []);
});

test('every setting that a page names is read somewhere', (t) => {
  const readers = sources.filter((file) => !file.endsWith('.md') && statSync(join(root, file)).size < 1_000_000);
  const known = new Set(readers.flatMap((file) => text(file).match(/\bCAPSTAN_[A-Z0-9_]*[A-Z0-9]/g) ?? []));
  const unknown = new Set<string>();
  for (const page of pages)
    // A reference to a secret has the secret's name.
    for (const name of text(page).match(/\bCAPSTAN_(?!SECRET_)[A-Z0-9_]*[A-Z0-9]\b/g) ?? [])
      if (!known.has(name)) unknown.add(`${page}: ${name}`);
  t.deepEqual([...unknown], []);
});

/** Pages that are looked up, not read from the beginning to the end, and why none of their parts is a page of its own. */
const LISTS: Readonly<Record<string, string>> = {
  'docs/api-control-plane.md': 'the list of queries and mutations',
  'docs/configuration.md': 'generated: the list of settings',
  'docs/console.md': 'the list of the console’s pages, with what protects them',
  'docs/folders.md': 'the list of folders',
  'docs/metrics.md': 'the list of metrics',
  'docs/runbook.md': 'alerts, incidents and the tool link to its headings; each is an answer by itself',
  'docs/tool.md': 'the list of commands and options',
};
const MAX_WORDS = 1_500;

test('a page answers one question in at most 1,500 words', (t) => {
  const wordsOf = (page: string): number =>
    text(page)
      .replaceAll(/^<!-- table: .*?^<!-- end of the table -->/gms, '')
      .split(/\s+/).length;
  const all = globSync('docs/*.md', { cwd: root });
  const long = all.filter((page) => wordsOf(page) > MAX_WORDS);
  t.deepEqual(
    long.filter((page) => LISTS[page] === undefined),
    [],
  );
  t.deepEqual(
    Object.keys(LISTS).filter((page) => !long.includes(page)),
    [],
    'these are short enough by now',
  );
});

/** Numbers of the prose, and the constants that they come from: [page, the number in its sentence, file, constant]. */
const CITED: readonly (readonly [string, RegExp, string, string])[] = [
  ['docs/borders.md', /remembers the last ([\d,]+)\s+workers of a node/, 'scheduler/core/fleet/workers.ts', 'MAX_PAST'],
  ['docs/borders.md', /workers of a node, ([\d,]+) across a restart/, 'scheduler/core/fleet/workers.ts', 'MAX_PAST_STORED'],
  ['docs/core.md', /once it has ([\d,]+) operations/, 'scheduler/engine/commit-loop.ts', 'SECOND_BATCH_WRITES'],
];

test('numbers of the prose are those of the constants', (t) => {
  for (const [page, sentence, file, constant] of CITED) {
    const [, shown = 'no such sentence'] = sentence.exec(text(page)) ?? [];
    const [, value = 'no such constant'] = new RegExp(`^(?:export )?const ${constant} = ([\\d_]+);`, 'm').exec(text(file)) ?? [];
    t.is(shown.replaceAll(',', ''), value.replaceAll('_', ''), `${page}, of ${constant}`);
  }
});

test('every page is in the index', (t) => {
  const linked = new Set(
    ['docs/README.md', 'docs/operations.md'].flatMap((index) =>
      [...prose(index).matchAll(/\]\(([^)\s#]+)/g)].map(([, target = '']) => relative(root, join(root, 'docs', target))),
    ),
  );
  const own = new Set(['docs/README.md', 'docs/operations.md']);
  t.deepEqual(
    globSync('docs/*.md', { cwd: root }).filter((page) => !own.has(page) && !linked.has(page)),
    [],
  );
});
