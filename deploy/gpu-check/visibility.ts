/** What a worker sees of the GPUs: its own, and no other. */
import { readdir } from 'node:fs/promises';

import { gpus } from './nvidia.ts';
import { act, type World } from './world.ts';

interface View {
  readonly visible: string | null;
  /** Files of devices below /dev. */
  readonly files: readonly string[];
  readonly torch?: string | null;
  readonly why?: string;
  readonly count?: number;
  readonly uuid?: string;
}

/** Levels at which a worker has the files of its own devices only. */
const OWN_FILES: ReadonlySet<string> = new Set(['sandbox', 'container', 'gVisor']);

/** Returns whether torch computes in a worker; otherwise the reason why not. */
export async function checkPython(world: World, level: string): Promise<string> {
  const rows = await gpus();
  let reason = '';
  await world.report.run(`worker, Python, ${level}: sees its GPU alone`, 'one device, the allocated one', 60, async () => {
    const view = await act<View>(world, 'view').catch((error: unknown) => {
      reason = `a worker does not load torch: ${error instanceof Error ? error.message : String(error)}`;
      throw error;
    });
    const wrong = await wrongOf(view, level);
    if (view.torch === null) reason = `workers have no torch: ${view.why ?? ''}`;
    else if (view.count === 0) reason = 'torch finds no CUDA device in a worker';
    const counter = view.torch === null ? 'the driver' : 'torch';
    const counts = view.count === undefined ? 'no torch' : `${counter} counts ${view.count}`;
    if (view.count !== undefined && view.count !== 1) wrong.push(`${counter} counts ${view.count}`);
    // CUDA names a slice by another UUID than its card's.
    const isSlice = view.visible?.startsWith('MIG-') === true;
    const own = isSlice || view.uuid === undefined || view.uuid === '' ? undefined : rows.find((row) => row.uuid.endsWith(view.uuid ?? ''));
    if (!isSlice && view.uuid !== undefined && view.uuid !== '' && own?.uuid !== view.visible) wrong.push(`${counter} has ${view.uuid}`);
    return { passed: wrong.length === 0, value: wrong.length === 0 ? `${String(view.visible)}, ${counts}` : wrong.join('; ') };
  });
  return reason;
}

export async function checkThread(world: World, endpoint: string, level: string): Promise<void> {
  await world.report.run(`worker, threads, ${level}: sees its GPU alone`, 'the allocated device', 30, async () => {
    const id = await world.service.run(endpoint, {});
    const { status, output, error = '' } = await world.service.ended(endpoint, { id, status: 'IN_QUEUE' });
    if (status !== 'COMPLETED') throw new Error(`${status} ${error}`);
    const wrong = await wrongOf(output as View, level);
    return { passed: wrong.length === 0, value: wrong.length === 0 ? String((output as View).visible) : wrong.join('; ') };
  });
}

/** Without a place of its own the files of all devices are there; CUDA_VISIBLE_DEVICES alone chooses. */
async function wrongOf({ visible, files }: View, level: string): Promise<string[]> {
  const wrong: string[] = [];
  if (visible === null || !/^(?:GPU|MIG)-/.test(visible)) wrong.push(`CUDA_VISIBLE_DEVICES is ${String(visible)}`);
  const present = (await readdir('/dev')).filter((name) => /^nvidia\d+$/.test(name));
  if (OWN_FILES.has(level) && present.length > 0 && files.length !== 1) wrong.push(`files of ${files.length} devices: ${files.join()}`);
  return wrong;
}
