import { CapstanError } from '../../lib/errors.ts';
import { printResult, type Command, type Invocation } from '../command/command.ts';
import { readTime } from '../command/time-option.ts';
import { flagOption, textOption } from '../../terminal/options.ts';
import { GATEWAY_SETTINGS, readSettings } from '../../terminal/config.ts';
import { connect } from '../../client/gateway.ts';
import type { AuditFilter, AuditRow } from '../api/audit.ts';
import { ageOf } from '../../terminal/age.ts';

const PAGE = 1_000;
const DEFAULT_LIMIT = 50;

/** `capstan audit`: who changed what. */
export const audit: Command = {
  name: 'audit',
  summary: 'Show who changed what in the account, newest first. Entries are kept for 90 days.',
  options: [
    { flags: '--limit <entries>', description: 'entries to show', default: String(DEFAULT_LIMIT) },
    { flags: '--all', description: 'all entries' },
    { flags: '--ndjson', description: 'one JSON object a line, for export' },
    { flags: '--key <key>', description: 'only changes by the key with this id or name', default: 'all' },
    { flags: '--action <action>', description: 'only one action, such as updateEndpoint', default: 'all' },
    { flags: '--object <object>', description: 'only of this object, such as default/chat', default: 'all' },
    { flags: '--since <time>', description: 'start time: a duration before now (30m), or RFC 3339', default: 'the oldest entry' },
    { flags: '--until <time>', description: 'end time, likewise', default: 'now' },
    { flags: '--account <account>', description: 'log of another account; requires an operator key', default: 'your own' },
  ],
  settings: GATEWAY_SETTINGS,
  json: true,
  examples: ['audit', 'audit --object default/chat --since 7d', 'audit --all --ndjson > audit.ndjson'],
  async run(invocation) {
    const { options, env, terminal } = invocation;
    const client = await connect(readSettings(options, env), env);
    const account = textOption(options, 'account') ?? null;
    const filter = filterIn(options);
    const isNdjson = flagOption(options, 'ndjson');
    const wanted = flagOption(options, 'all') ? Number.POSITIVE_INFINITY : readLimit(textOption(options, 'limit'));
    const { auditPage } = await import('../api/audit.ts');
    const rows: AuditRow[] = [];
    let count = 0;
    for (let before: string | null = null; count < wanted;) {
      const { entries, next }: Awaited<ReturnType<typeof auditPage>> = await auditPage(client, {
        ...{ account, before, filter },
        limit: Math.min(PAGE, wanted - count),
      });
      count += entries.length;
      if (isNdjson) for (const entry of entries) terminal.data(JSON.stringify(entry));
      else rows.push(...entries);
      if (next === null) break;
      before = next;
    }
    if (isNdjson) return;
    printResult(invocation, rows, () => {
      const cells = rows.map((row) => [
        `${ageOf(row.at)} ago`,
        row.keyName === '' ? row.key : row.keyName,
        row.address ?? '',
        row.action,
        row.object,
        changeOf(row),
      ]);
      terminal.table({
        head: ['WHEN', 'KEY', 'FROM', 'ACTION', 'OBJECT', 'CHANGE'],
        rows: cells,
        optional: ['FROM'],
        cut: ['CHANGE'],
      });
    });
  },
};

function filterIn(options: Invocation['options']): AuditFilter {
  return {
    key: textOption(options, 'key') ?? null,
    action: textOption(options, 'action') ?? null,
    object: textOption(options, 'object') ?? null,
    sinceMs: readTime(options, 'since') ?? null,
    untilMs: readTime(options, 'until') ?? null,
  };
}

function readLimit(given: string | undefined): number {
  if (given === undefined) return DEFAULT_LIMIT;
  const limit = Number(given);
  if (Number.isSafeInteger(limit) && limit >= 1) return limit;
  throw new CapstanError('INVALID_ARGUMENT', '--limit: must be a whole number of at least 1', { field: 'limit' });
}

const LONGEST = 120;

/** The change in one line. */
function changeOf({ before, after }: AuditRow): string {
  const texts = [before, after].map((facts) => (facts === null ? '' : JSON.stringify(facts)));
  const text = texts.filter((each) => each !== '').join(' → ');
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}
