/** What `gpuIds` means, and how operators extend the table. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import test, { type ExecutionContext } from 'ava';

import { renderGpuTable } from '../../../tools/generate-gpus.ts';
import { GpuTable, type GpuFacts } from '../../../lib/gpu-table.ts';
import { GpuGroup } from '../../../sdk/typescript/gpus.ts';
import { readGpuTable } from '../../../scheduler/gpu-table-file.ts';
import { folderOf } from '../../support/folder.ts';

const table = new GpuTable();
const gpu = (model: string, memoryGb = 24): GpuFacts => ({ model, memoryBytes: memoryGb * 1e9, slice: model.includes(' MIG ') });
const meets = (gpuIds: string, model: string, memoryGb?: number): number | null => table.select(gpuIds).preference(gpu(model, memoryGb));

test('the SDKs name the groups of the table, each once', async (t) => {
  const groups = ['ANY', ...table.groups.keys()];
  t.deepEqual(
    Object.entries(GpuGroup),
    groups.map((group) => [group, group]),
  );
  const python = await readFile(join(import.meta.dirname, '../../../sdk/python/capstan/gpus.py'), 'utf8');
  const [, members = ''] = /class GpuGroup\(str, Enum\):(.*?)def /s.exec(python) ?? [];
  t.deepEqual(
    [...members.matchAll(/^ {4}(\w+) = "(\w+)"$/gm)].map(([, name, value]) => [name, value]),
    groups.map((group) => [group, group]),
  );
});

test('ANY means every card, known or not', (t) => {
  for (const model of ['NVIDIA GeForce RTX 4090', 'Tesla T4', 'NVIDIA Something New']) t.is(meets('ANY', model), 0);
});

test('groups hold the cards of the table', (t) => {
  for (const [group, model] of [
    ['ADA_24', 'NVIDIA GeForce RTX 4090'],
    ['AMPERE_16', 'NVIDIA RTX A4000'],
    ['AMPERE_24', 'NVIDIA L4'],
    ['AMPERE_24', 'NVIDIA GeForce RTX 3090'],
    ['AMPERE_48', 'NVIDIA A40'],
    ['AMPERE_80', 'NVIDIA A100-SXM4-80GB'],
    ['AMPERE_80', 'NVIDIA A100 80GB PCIe'],
    ['ADA_48_PRO', 'NVIDIA L40S'],
    ['ADA_80_PRO', 'NVIDIA H100 80GB HBM3'],
    ['HOPPER_141', 'NVIDIA H200'],
    ['ADA_32_PRO', 'NVIDIA GeForce RTX 5090'],
    ['BLACKWELL_180', 'NVIDIA B200'],
    ['TURING_16', 'Tesla T4'],
  ] as const) {
    t.is(meets(group, model), 0, `${group} ${model}`);
  }
  t.is(meets('ADA_24', 'NVIDIA L4'), null);
  t.is(meets('AMPERE_80', 'NVIDIA A100-SXM4-40GB'), null);
});

test('names are compared whole, whatever their case, spaces and punctuation', (t) => {
  t.is(meets('NVIDIA GeForce RTX 4090', 'NVIDIA GeForce RTX 4090'), 0);
  t.is(meets('nvidia_geforce_rtx_4090', 'NVIDIA GeForce RTX 4090'), 0);
  t.is(meets('RTX 4090', 'NVIDIA GeForce RTX 4090'), 0);
  t.is(meets('A100', 'NVIDIA A100-SXM4-80GB'), 0);
  t.is(meets('A100', 'NVIDIA A100-PCIE-40GB'), 0);
  for (const other of ['NVIDIA RTX A1000', 'NVIDIA A1000 Laptop GPU', 'NVIDIA A10', 'NVIDIA A100X'])
    t.is(meets('A100', other), null, other);
  t.is(meets('L4', 'NVIDIA L40'), null);
  t.is(meets('L40', 'NVIDIA L40S'), null);
  t.is(meets('H100 NVL', 'NVIDIA H100 PCIe'), null);
});

test('a list is an order of preference', (t) => {
  const wanted = 'AMPERE_24, ADA_24,ANY';
  t.is(meets(wanted, 'NVIDIA RTX A5000'), 0);
  t.is(meets(wanted, 'NVIDIA GeForce RTX 4090'), 1);
  t.is(meets(wanted, 'Tesla T4'), 2);
});

test('a name with a dash in front is taken out', (t) => {
  t.is(meets('AMPERE_24,-NVIDIA RTX A5000', 'NVIDIA RTX A5000'), null);
  t.is(meets('AMPERE_24,-NVIDIA RTX A5000', 'NVIDIA L4'), 0);
  t.is(meets('-HOPPER_141', 'NVIDIA H200'), null);
  t.is(meets('-HOPPER_141', 'NVIDIA H100 PCIe'), 0);
});

test('a MIG slice is taken by its profile, with or without its card, and by ANY from 16 GB on', (t) => {
  const slice = 'NVIDIA A100-SXM4-80GB MIG 3g.40gb';
  t.is(meets('MIG 3g.40gb', slice, 40), 0);
  t.is(meets('A100 MIG 3g.40gb', slice, 40), 0);
  t.is(meets('AMPERE_80 MIG 3g.40gb', slice, 40), 0);
  t.is(meets('H100 MIG 3g.40gb', slice, 40), null);
  t.is(meets('MIG 1g.10gb', slice, 40), null);
  t.is(meets('MIG 3g.40gb', 'NVIDIA A100-SXM4-80GB'), null);
  t.is(meets('ANY', slice, 40), 0);
  t.is(meets('ANY', 'NVIDIA A100-SXM4-80GB MIG 1g.10gb', 10), null);
  for (const whole of ['A100', 'AMPERE_80', 'NVIDIA A100-SXM4-80GB']) t.is(meets(whole, slice, 40), null, whole);
});

test('a list that takes everything out is refused', (t) => {
  for (const gpuIds of ['-ANY', 'ADA_24,-any', '-NVIDIA ANY']) t.regex(table.fault(gpuIds, []) ?? '', / excludes every GPU$/, gpuIds);
  t.is(table.fault('ANY,-ADA_24', []), null);
});

test('an unknown name is refused with what is near it', (t) => {
  t.is(table.fault('AMPERE_24,RTX 4090,MIG 1g.10gb,-L4', []), null);
  t.is(table.fault('AMPERE24', []), null);
  t.regex(table.fault('RTX 4091', []) ?? '', /^"RTX 4091" is not a GPU type or group; close matches: RTX 4090/);
  t.regex(table.fault('AMPERE_25', []) ?? '', /close matches: AMPERE_24/);
  t.regex(table.fault('zzz', []) ?? '', /^"zzz" is not a GPU type or group; groups are ANY, ADA_16/);
  t.is(table.fault(' , ', []), 'must name a GPU type or group');
  t.is(table.fault('NVIDIA Something New', ['NVIDIA Something New']), null);
  t.is(meets('Something New', 'NVIDIA Something New'), 0);
});

async function file(t: ExecutionContext, content: unknown): Promise<string> {
  const folder = await folderOf(t);
  const path = join(folder, 'gpus.json');
  await writeFile(path, typeof content === 'string' ? content : JSON.stringify(content));
  return path;
}

test('operators add types and groups, and replace a type by its name', async (t) => {
  const path = await file(t, {
    types: [
      { name: 'Mine', models: ['NVIDIA Something New'], memoryGb: 64, groups: ['AMPERE_48'] },
      { name: 'RTX 3090', models: ['NVIDIA GeForce RTX 3090'], memoryGb: 24, groups: [] },
    ],
    groups: { CHEAP: ['RTX 3090', 'T4'] },
  });
  const own = await readGpuTable(path);
  const at = (gpuIds: string, model: string): number | null => own.select(gpuIds).preference(gpu(model));
  t.is(at('AMPERE_48', 'NVIDIA Something New'), 0);
  t.is(at('Mine', 'NVIDIA Something New'), 0);
  t.is(at('CHEAP', 'Tesla T4'), 0);
  t.is(at('CHEAP', 'NVIDIA GeForce RTX 3090'), 0);
  t.is(at('AMPERE_24', 'NVIDIA GeForce RTX 3090'), null);
  t.is(at('AMPERE_24', 'NVIDIA L4'), 0);
});

test('a file that is wrong is refused with its place and the rule', async (t) => {
  const type = { name: 'X', models: ['X'], memoryGb: 1, groups: [] };
  for (const [content, message] of [
    ['{', /gpus\.json: is not JSON/],
    [{ cards: [] }, /must be an object with the keys types and groups only|Unrecognized key/],
    [{ types: [{ ...type, memoryGb: 0 }] }, /types\.0\.memoryGb: must be above 0$/],
    [{ types: [{ ...type, models: [] }] }, /types\.0\.models: must name at least one product$/],
    [{ types: [type, type] }, /types: a type is listed twice$/],
    [{ types: [{ ...type, models: ['Tesla T4'] }] }, /types: Tesla T4 is a model of both T4 and X$/],
    [{ types: [{ ...type, name: 'any' }] }, /types: any is the reserved name of the group of all types$/],
    [{ groups: { MINE: ['T5'] } }, /groups\.MINE: "T5" is not a type in the table$/],
    [{ groups: { T4: ['T4'] } }, /groups: T4 is already the name of a type or model$/],
  ] as const) {
    const error = await t.throwsAsync(readGpuTable(await file(t, content)), { code: 'CONFIG' });
    t.regex(error?.message ?? '', message);
    t.regex(error?.message ?? '', /^CAPSTAN_GPU_TABLE: /);
  }
  await t.throwsAsync(readGpuTable('/no/such/file.json'), { code: 'CONFIG', message: /ENOENT/ });
});

test('docs/gpus.md lists the table as it is', async (t) => {
  const page = await readFile(join(import.meta.dirname, '../../../docs/gpus.md'), 'utf8');
  t.true(page.includes(renderGpuTable()), 'run: node tools/generate-gpus.ts');
});
