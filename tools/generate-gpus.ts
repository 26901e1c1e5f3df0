/**
 * Writes the table of docs/gpus.md from the scheduler's own: node tools/generate-gpus.ts. The rest
 * of the page is written by hand; test/scheduler/placement/gpus.test.ts holds the two together.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { gpuFamilies } from '../lib/gpu-types.ts';
import { GpuTable } from '../lib/gpu-table.ts';

const BEGIN = '<!-- table: node tools/generate-gpus.ts -->\n';
const END = '<!-- end of the table -->\n';

/** Groups, families and types as Markdown. */
export function renderGpuTable(): string {
  const { types, groups } = new GpuTable();
  const groupRows = [...groups].map(([group, names]) => `| \`${group}\` | ${names.join(', ')} |`);
  const familyRows = Object.entries(gpuFamilies).map(([family, names]) => `| \`${family}\` | ${names.join(', ')} |`);
  const typeRows = types.map((type) => `| ${type.name} | ${type.memoryGb} | ${type.models.join('<br>')} | ${type.groups.join(', ')} |`);
  return [
    BEGIN,
    '| Group | Types |\n|---|---|\n| `ANY` | every GPU, also one that the table does not know |',
    ...groupRows,
    ...familyRows,
    '\n| Type | GB | Product names of `nvidia-smi` | Groups |\n|---|---|---|---|',
    ...typeRows,
    END,
  ].join('\n');
}

if (import.meta.main) {
  const path = join(import.meta.dirname, '../docs/gpus.md');
  const page = await readFile(path, 'utf8');
  const from = page.indexOf(BEGIN);
  const to = page.indexOf(END);
  if (from === -1 || to === -1) throw new Error(`${path} lacks the marks around the table`);
  await writeFile(path, page.slice(0, from) + renderGpuTable() + page.slice(to + END.length));
}
