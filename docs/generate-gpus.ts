/**
 * Writes the table of docs/gpus.md from the scheduler's own: node docs/generate-gpus.ts. The rest
 * of the page is written by hand; test/scheduler/placement/gpus.test.ts holds the two together.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { gpuFamilies } from '../lib/gpu-types.ts';
import { GpuTable } from '../lib/gpu-table.ts';

const begin = '<!-- table: node docs/generate-gpus.ts -->\n';
const end = '<!-- end of the table -->\n';

/** Groups, families and types as Markdown. */
export function renderGpuTable(): string {
  const { types, groups } = new GpuTable();
  const groupRows = [...groups].map(([group, names]) => `| \`${group}\` | ${names.join(', ')} |`);
  const familyRows = Object.entries(gpuFamilies).map(([family, names]) => `| \`${family}\` | ${names.join(', ')} |`);
  const typeRows = types.map((type) => `| ${type.name} | ${type.memoryGb} | ${type.models.join('<br>')} | ${type.groups.join(', ')} |`);
  return [
    begin,
    '| Group | Types |\n|---|---|\n| `ANY` | every GPU, also one that the table does not know |',
    ...groupRows,
    ...familyRows,
    '\n| Type | GB | Product names of `nvidia-smi` | Groups |\n|---|---|---|---|',
    ...typeRows,
    end,
  ].join('\n');
}

if (import.meta.main) {
  const path = join(import.meta.dirname, 'gpus.md');
  const page = await readFile(path, 'utf8');
  const from = page.indexOf(begin);
  const to = page.indexOf(end);
  if (from === -1 || to === -1) throw new Error(`${path} lacks the marks around the table`);
  await writeFile(path, page.slice(0, from) + renderGpuTable() + page.slice(to + end.length));
}
