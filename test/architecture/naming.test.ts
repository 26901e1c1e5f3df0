/** Naming style that the linter has no rule for: a module's constants are in SCREAMING_SNAKE_CASE, and no file is a bucket. */
import { globSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

import test from 'ava';
import { parseSync } from 'oxc-parser';

import { root, sourceFiles } from './imports.ts';

interface Node {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** A value that is written out: a number, a text, a pattern, or arithmetic of such. */
function isLiteral(value: unknown): boolean {
  const node = value as Node | null;
  switch (node?.type) {
    case 'Literal':
      return true;
    case 'UnaryExpression':
      return isLiteral(node['argument']);
    case 'BinaryExpression':
      return isLiteral(node['left']) && isLiteral(node['right']);
    case 'TemplateLiteral':
      return (node['expressions'] as unknown[]).length === 0;
    case 'TSAsExpression':
      return isLiteral(node['expression']);
    default:
      return false;
  }
}

/** Names of a module's literal constants that are not in SCREAMING_SNAKE_CASE. */
function violationsOf(file: string, source: string): string[] {
  const { program } = parseSync(file, source, { lang: 'ts' });
  return (program.body as unknown as Node[]).flatMap((statement) => {
    const declared = (statement.type === 'ExportNamedDeclaration' ? statement['declaration'] : statement) as Node | null;
    if (declared?.type !== 'VariableDeclaration' || declared['kind'] !== 'const') return [];
    return (declared['declarations'] as { readonly id: { readonly name?: string }; readonly init: unknown }[]).flatMap(({ id, init }) =>
      id.name !== undefined && isLiteral(init) && !/^[A-Z][A-Z0-9_]*$/.test(id.name) ? [`${file}: ${id.name}`] : [],
    );
  });
}

test('constants of a module are in SCREAMING_SNAKE_CASE', (t) => {
  const files = sourceFiles().filter((file) => file.endsWith('.ts') && !file.startsWith('proto/gen/'));
  t.true(files.length > 300);
  t.deepEqual(
    files.flatMap((file) => violationsOf(file, readFileSync(join(root, file), 'utf8'))),
    [],
  );
});

test('the rule for constants sees numbers, texts, patterns and arithmetic, and leaves functions and tables alone', (t) => {
  const bad = [
    'const a = 1;',
    'export const bC = 2 * 1_024;',
    'const d = /x/;',
    "export const e = 'x';",
    'const f = -1;',
    'const g = `x`;',
  ];
  for (const source of bad) t.is(violationsOf('a.ts', source).length, 1, source);
  const good = [
    'const A_B = 1;',
    'const f = () => 1;',
    'const t = { a: 1 };',
    'let x = 1;',
    'const s = new Set([1]);',
    'function f() { const a = 1; }',
  ];
  for (const source of good) t.deepEqual(violationsOf('a.ts', source), [], source);
});

/** Former names of things that have the field's own name now, and that name. */
const FORMER_NAMES: Readonly<Record<string, RegExp>> = {
  'MAX_…': /\b_?MOST(_[A-Z0-9_]+)?\b/,
  'cancel…': /\bcallOff[A-Z]?\w*/,
  'release…': /\bletGo\b/,
  '…Spec': /\b[A-Z][A-Za-z]*Order\b/,
  'launch…': /#carried\b|\bcarry[:(]|\bcarrierEvents\b/,
  WaitingRequest: /\bSeeker\b/,
  waitingSince: /\bsoughtAt\b/,
  FrameBody: /\bSaying\b/,
  scheduleUnplacedRetry: /\b(lookForRoom|roomDue)\b/,
  drainWorkersOf: /\bemptyNode\b/,
  nodeNotFound: /\bnoNode\b/,
  recordUnplaced: /\bnoPlace\b/,
  finishAttempt: /\bconclude\b/,
  requireOwner: /\bmustBe(Up|Open)\b/,
  notifyIdle: /\btellQuiet\b/,
  'requestWorker, cancelWait': /\bunseek\b|\bseek(er|ing)?\b/,
  // The table of SQLite keeps its name on disk.
  cell: /\bshard(Statements)?\b(?! ?[,)=])/,
  retryUnplaced: /(?<!#)\blookAgain\b/,
  'switchCell, onCellSwitch': /\bonTurn\b|finder\.turn\(/,
  '…Uncached': /\bslowly\(/,
  'delivery…':
    /\bhook(Of|Head|Page|Tried|Row|sRead|sOpen|sPerHost)\b|\b(New|Whole|Removed)?Hook(Head|Row|Tuple|State|Window|Hosts)?\b|\b(op|event|state|delivery)\.hooks?\b/,
  unsent: /\b\w*[oO]utbox\b/,
  capacityVersion: /\b(state|image|refusals)\.capacity\b/,
  CommandResult: /\bAnswer \| (CapstanError|Error)\b/,
  'StoreRequest, HttpRequest, HealthProbe': /\b(Question[:;<]|(Http|Health|Search)Question\b)/,
  'StoreReply, HttpReply, JobResult': /\b(Http|Graphql)Answer\b/,
};

/** Former names that only the parts are held to: tests describe what peers did. */
const FORMER_NAMES_OF_PARTS: Readonly<Record<string, RegExp>> = {
  'sent, received, requested': /#(told|asked|heard|given)\b|\b(const|let) (told|asked|heard)\b(?= [=:])/,
};

/** Sources of all parts, tests, benches and the console, Python and pages; not what is generated, frozen migrations, and records of what was. */
function namedFiles(): string[] {
  const patterns = [
    '{test,bench,tools,deploy,console/src,compiler,devserver,supervisor,terminal}/**/*.{ts,tsx,mjs}',
    '{sdk,agent}/**/*.py',
  ];
  const others = globSync([...patterns, 'docs/*.md', '*.md'], {
    cwd: root,
    exclude: (name) => /(^|\/)(node_modules|dist)(\/|$)/.test(name),
  });
  return [...new Set([...sourceFiles(), ...others])].filter(
    (file) => file !== 'test/architecture/naming.test.ts' && file !== 'CHANGELOG.md' && !/(^|\/)(gen|migrations)\//.test(file),
  );
}

test('no former name comes back', (t) => {
  const found = namedFiles().flatMap((file) => {
    const source = readFileSync(join(root, file), 'utf8');
    const names = /^(test|bench)\//.test(file) ? FORMER_NAMES : { ...FORMER_NAMES, ...FORMER_NAMES_OF_PARTS };
    return Object.entries(names).flatMap(([name, former]) => {
      const [word] = former.exec(source) ?? [];
      return word === undefined ? [] : [`${file}: ${word} is ${name} now`];
    });
  });
  t.deepEqual(found, []);
});

test('no file is named for being a bucket', (t) => {
  const buckets = /^(utils?|helpers?|misc|common|types|interfaces)\.(ts|mjs)$/;
  t.deepEqual(
    sourceFiles().filter((file) => buckets.test(basename(file)) && !file.startsWith('proto/gen/')),
    [],
  );
});
