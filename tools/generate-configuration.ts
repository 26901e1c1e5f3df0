/** Writes docs/configuration.md from the parts' schemas; with --check says whether it is up to date. */
import { readFile, writeFile } from 'node:fs/promises';

import type { z } from 'zod';

import { agentConfig } from '../agent/config.ts';
import { settingsSchema } from '../terminal/config.ts';
import { gatewayConfig } from '../gateway/config.ts';
import { variableOf } from '../lib/settings.ts';
import { schedulerConfig } from '../scheduler/config.ts';

const target = new URL('../docs/configuration.md', import.meta.url);

const parts: readonly [string, string, z.ZodObject][] = [
  [
    'The tool',
    'Flags come first, then the shell, then `.env` in the working folder; `deploy <folder>` also takes `SERVICE_API_KEY` from `.env` in that folder.',
    settingsSchema,
  ],
  ['Scheduler', '', schedulerConfig],
  ['Gateway', '', gatewayConfig],
  [
    'Agent',
    'Whether and where it forwards lines of its workers is set by the standard variables of OpenTelemetry, `OTEL_*` ([logs.md](logs.md#forwarding)).',
    agentConfig,
  ],
];

/** The page as the schemas have it. */
function configurationPage(): string {
  const sections = parts.map(([title, note, schema]) => {
    const rows = Object.values(schema.shape as Record<string, z.ZodType>).flatMap((field) => {
      const variable = variableOf(field);
      return variable === undefined ? [] : [row(variable, field)];
    });
    return [`## ${title}`, ...(note === '' ? [] : [note]), ['| Variable | Default | Meaning |', '|---|---|---|', ...rows].join('\n')].join(
      '\n\n',
    );
  });
  const head = [
    '# Configuration',
    'Made from the schemas in the parts’ `config.ts` by `node tools/generate-configuration.ts`; do not edit. Each process reads its settings once, at its start. `capstan up` passes its environment on to the parts.',
  ];
  return `${[...head, ...sections].join('\n\n')}\n`;
}

function row(variable: string, field: z.ZodType): string {
  const { description, flag } = field.meta() ?? {};
  const name = typeof flag === 'string' ? `\`${variable}\`, \`${flag.split(' ', 1)[0] ?? ''}\`` : `\`${variable}\``;
  return `| ${name} | ${defaultOf(field)} | ${String(description)
    .replaceAll('|', '\\|')
    .replace(/([^.])$/, '$1.')} |`;
}

/** A default that depends on the host is described, not stated. */
function defaultOf(field: z.ZodType): string {
  const given = field.safeParse(undefined);
  if (!given.success) return 'must be set';
  const value: unknown = given.data;
  if (value === undefined || value === '' || (Array.isArray(value) && value.length === 0)) return '';
  if (field === agentConfig.shape.nodeName) return "the host's name";
  if (field === schedulerConfig.shape.rateLimits) return '';
  return `\`${typeof value === 'string' ? value : JSON.stringify(value)}\``;
}

if (import.meta.main) {
  const page = configurationPage();
  if (!process.argv.includes('--check')) await writeFile(target, page);
  else if ((await readFile(target, 'utf8').catch(() => '')) !== page) {
    process.stderr.write('docs/configuration.md is not what the schemas say: run node tools/generate-configuration.ts\n');
    process.exitCode = 1;
  }
}
