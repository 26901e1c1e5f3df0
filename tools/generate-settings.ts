/**
 * Writes what follows from the definition of an endpoint's settings (lib/endpoint-settings.ts): the tables of the docs, and the files
 * of both SDKs, which are published without the rest of the repository. And it writes the copies of what SDKs and the hosts of workers
 * share, and of the alerts for the Helm chart. With --check it writes nothing, names what differs and exits
 * with 1.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { ENDPOINT_SETTINGS, SETTING_NAMES, settingOf, type SettingName } from '../lib/endpoint-settings.ts';
import { alternatives, UNPRINTABLE, type SettingRule } from '../lib/setting-rules.ts';

const root = join(import.meta.dirname, '..');
const SOURCE = 'lib/endpoint-settings.ts';
const COMMAND = 'npm run generate';

/** A setting that both SDKs declare. */
interface Parameter {
  readonly setting: SettingName;
  /** In TypeScript. */
  readonly name: string;
  readonly rule: SettingRule;
  readonly default: unknown;
  readonly docs: string;
}

const parameters: readonly Parameter[] = SETTING_NAMES.flatMap((setting) => {
  const { declared, rule, docs } = settingOf(setting);
  return declared === undefined
    ? []
    : [{ setting, name: declared.name ?? setting, rule, default: declared.default, docs: declared.docs ?? docs }];
});

// The docs.

/** A rule for people. */
function ruleText(rule: SettingRule): string {
  switch (rule.type) {
    case 'integer': {
      const unit = rule.unit === undefined ? '' : ` ${rule.unit}`;
      return `${rule.zero === undefined ? '' : '0, or '}${rule.min} to ${rule.max}${unit}`;
    }
    case 'text': {
      if (rule.form !== undefined) return `text; ${rule.form}`;
      const line = rule.printable === true ? 'one line of printable text' : 'text';
      return rule.maxLength === undefined ? line : `${line}, at most ${rule.maxLength} characters`;
    }
    case 'cpu':
      return `\`cpu<gen>-<vCPU>-<RAM GB>\`, at most ${rule.maxCpus} vCPU and ${rule.maxMemoryGb} GB`;
    case 'choice':
      return alternatives(rule.values.map((value) => `\`${value}\``));
    case 'flag':
      return 'true or false';
    case 'list':
      return rule.values === undefined ? 'array of strings' : `array of ${rule.values.map((value) => `\`${value}\``).join(', ')}`;
    case 'rateLimits':
      return `object of \`"<operation>": {"requests", "concurrent"}\`, each 0 to ${rule.max}`;
    case 'environment':
      return 'object of strings; names of letters, digits and underscores; no NUL, 131,070 bytes each with its name, 1 MiB in all';
  }
}

function defaultText(name: SettingName): string {
  const { default: otherwise, defaultDocs } = settingOf(name);
  if (defaultDocs !== undefined) return defaultDocs;
  return otherwise === '' || otherwise === null ? 'none' : String(otherwise);
}

function manifestTable(): string {
  const rows = SETTING_NAMES.map((name) => {
    const { rule, docs, updatable } = settingOf(name);
    return `| \`${name}\` | ${ruleText(rule)} | ${defaultText(name)} | ${updatable === true ? 'yes' : 'no'} | ${docs} |`;
  });
  return ['| Key | Rule | Default | Changeable | Meaning |', '|---|---|---|---|---|', ...rows].join('\n');
}

function pythonTable(): string {
  const rows = parameters.map(({ name, rule, default: otherwise, docs }) => {
    const shown = otherwise === null || otherwise === '' ? 'none' : literal(otherwise);
    return `| \`${inPython(name)}\` | ${ruleText(rule)} | ${shown} | ${docs} |`;
  });
  return ['| Parameter | Rule | Default | Meaning |', '|---|---|---|---|', ...rows].join('\n');
}

/** The page with a table between its marks replaced. */
function withTable(page: string, table: string): string {
  const begin = `<!-- table: ${COMMAND} -->\n`;
  const end = '<!-- end of the table -->';
  const from = page.indexOf(begin);
  const to = page.indexOf(end, from);
  if (from === -1 || to === -1) throw new Error('the page lacks the marks around its table');
  return `${page.slice(0, from + begin.length)}\n${table}\n\n${page.slice(to)}`;
}

// The SDKs.

function inPython(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** Links and code marks of the docs have no place in a comment. */
function comment({ docs, rule, default: otherwise }: Parameter): string {
  const text = docs.replaceAll(/ \(\[[^\]]*\]\([^)]*\)\)/g, '').replaceAll('`', '');
  const range = rule.type === 'integer' ? ` ${ruleText(rule)}.` : '';
  const byDefault = otherwise === null || otherwise === '' ? '' : ` Default: ${JSON.stringify(otherwise)}.`;
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.${range}${byDefault}`;
}

function typeOf(rule: SettingRule): { readonly typescript: string; readonly python: string } {
  switch (rule.type) {
    case 'integer':
      return { typescript: 'number', python: 'int' };
    case 'text':
    case 'cpu':
      return { typescript: 'string', python: 'str' };
    case 'choice':
      return { typescript: rule.values.map((value) => `'${value}'`).join(' | '), python: 'str' };
    case 'flag':
      return { typescript: 'boolean', python: 'bool' };
    case 'list':
    case 'rateLimits':
    case 'environment':
      throw new Error(`a ${rule.type} is no parameter that both SDKs check by its rule`);
  }
}

function typescriptParameters(): string {
  const given = parameters.map((each) => `  /** ${comment(each)} */\n  readonly ${each.name}?: ${typeOf(each.rule).typescript};`);
  const checked = parameters.map(
    ({ name, rule, default: otherwise }) => `  readonly ${name}: ${typeOf(rule).typescript}${otherwise === null ? ' | undefined' : ''};`,
  );
  const table = parameters.map(({ setting, name, rule, default: otherwise }) => {
    const members = Object.entries(rule).map(([key, value]) => `      ${key}: ${inTypescript(value)},`);
    return [
      `  ${name}: {`,
      `    key: '${setting}',`,
      `    default: ${otherwise === null ? 'undefined' : inTypescript(otherwise)},`,
      `    rule: {`,
      ...members,
      `    },`,
      `  },`,
    ].join('\n');
  });
  const { min, max } = ENDPOINT_SETTINGS.workersMax.rule;
  return [
    `/** Generated by \`${COMMAND}\` from ${SOURCE}; do not edit. */`,
    `import type { SettingRule } from './setting-rules.ts';`,
    ``,
    `export interface DeclaredParameters {`,
    ...given,
    `}`,
    ``,
    `/** The same with the defaults filled in. */`,
    `export interface CheckedParameters {`,
    ...checked,
    `}`,
    ``,
    `interface ParameterDefinition {`,
    `  /** In the manifest. */`,
    `  readonly key: string;`,
    `  readonly default: string | number | boolean | undefined;`,
    `  readonly rule: SettingRule;`,
    `}`,
    ``,
    `export const DECLARED_PARAMETERS: Readonly<Record<keyof DeclaredParameters, ParameterDefinition>> = {`,
    ...table,
    `};`,
    ``,
    `/** Workers of an endpoint. */`,
    `export const WORKERS_RANGE = { min: ${min}, max: ${max} };`,
    ``,
  ].join('\n');
}

function pythonParameters(): string {
  const given = parameters.map((each) => {
    const optional = each.default === null ? `Optional[${typeOf(each.rule).python}]` : typeOf(each.rule).python;
    return `    #: ${comment(each)}\n    ${inPython(each.name)}: ${optional}`;
  });
  const table = parameters.map(
    ({ setting, name, rule, default: otherwise }) =>
      `    ${JSON.stringify(inPython(name))}: {"key": "${setting}", "default": ${literal(otherwise)}, "rule": ${literal(rule)}},`,
  );
  const { min, max } = ENDPOINT_SETTINGS.workersMax.rule;
  return [
    `"""Generated by \`${COMMAND}\` from ${SOURCE}; do not edit."""`,
    `from __future__ import annotations`,
    ``,
    `from dataclasses import dataclass`,
    `from typing import Any, Dict, Optional, Tuple, TypedDict`,
    ``,
    ``,
    `class DeclaredParameters(TypedDict, total=False):`,
    ...given,
    ``,
    ``,
    `@dataclass(frozen=True)`,
    `class CheckedParameters:`,
    `    """The same with the defaults filled in."""`,
    ``,
    ...given,
    ``,
    ``,
    `#: Of each parameter: its key in the manifest, its default, its rule.`,
    `DECLARED_PARAMETERS: Dict[str, Dict[str, Any]] = {`,
    ...table,
    `}`,
    ``,
    `#: Workers of an endpoint: from, to.`,
    `WORKERS_RANGE: Tuple[int, int] = (${min}, ${max})`,
    ``,
    `#: Code points that printable text does not hold: first and last of each range.`,
    `UNPRINTABLE: Tuple[Tuple[int, int], ...] = (`,
    ...UNPRINTABLE.map(([first, last]) => `    (0x${first.toString(16)}, 0x${last.toString(16)}),`),
    `)`,
    ``,
  ].join('\n');
}

/** A value of JSON as the formatter writes it. */
function inTypescript(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(inTypescript).join(', ')}]`;
  const text = JSON.stringify(value);
  return typeof value !== 'string' || value.includes("'") ? text : `'${text.slice(1, -1).replaceAll('\\"', '"')}'`;
}

/** A value of JSON as Python writes it. */
function literal(value: unknown): string {
  if (value === null) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) return `[${value.map(literal).join(', ')}]`;
  if (typeof value === 'object')
    return `{${Object.entries(value)
      .map(([key, each]) => `${JSON.stringify(key)}: ${literal(each)}`)
      .join(', ')}}`;
  return JSON.stringify(value);
}

const read = (path: string): Promise<string> => readFile(join(root, path), 'utf8');

/** Sources that the SDKs, which are published alone, share with the hosts of workers and with all parts. */
const COPIES = [
  ['sdk/python/capstan/json_values.py', 'agent/runtimes/process/python/capstan_bootstrap/json_values.py'],
  ['sdk/python/capstan/model_types.py', 'agent/runtimes/process/python/capstan_bootstrap/model_types.py'],
  ['sdk/typescript/json-values.ts', 'agent/runtimes/thread/host/call/json-values.ts'],
  ['lib/exact-json.ts', 'sdk/typescript/exact-json.ts'],
  // A chart reads only files of its own.
  ['deploy/prometheus/capstan.rules.yaml', 'deploy/helm/files/capstan.rules.yaml'],
] as const;

/** Every file that is generated, or has a generated part. */
async function generated(): Promise<Map<string, string>> {
  const rules = `/** Generated by \`${COMMAND}\` from lib/setting-rules.ts; do not edit. */\n${await read('lib/setting-rules.ts')}`;
  const copies = COPIES.map(async ([source, copy]): Promise<[string, string]> => {
    const header = `Generated by \`${COMMAND}\` from ${source}; do not edit.`;
    return [copy, `${/\.(py|yaml)$/.test(copy) ? `# ${header}` : `/** ${header} */`}\n${await read(source)}`];
  });
  return new Map([
    ...(await Promise.all(copies)),
    ['docs/manifest.md', withTable(await read('docs/manifest.md'), manifestTable())],
    ['docs/sdk-python.md', withTable(await read('docs/sdk-python.md'), pythonTable())],
    ['sdk/typescript/setting-rules.ts', rules],
    ['sdk/typescript/declared-parameters.ts', typescriptParameters()],
    ['sdk/python/capstan/declared_parameters.py', pythonParameters()],
  ]);
}

if (import.meta.main) {
  const different: string[] = [];
  for (const [path, text] of await generated()) {
    if ((await read(path).catch(() => '')) === text) continue;
    different.push(path);
    if (!process.argv.includes('--check')) await writeFile(join(root, path), text);
  }
  if (process.argv.includes('--check') && different.length > 0) {
    process.stderr.write(`${different.join(', ')}: not what ${SOURCE} or the copied source says: run '${COMMAND}'\n`);
    process.exitCode = 1;
  }
}
