/** Workers in containers, where an engine is there: what they see of the GPUs. Their image is made of this machine's own files. */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';

import { findEngine, gpuAccess, hasDeviceFiles, removeImage, type EngineInfo } from './engine.ts';
import { makeImage } from './image.ts';
import type { Report } from './report.ts';
import { Service } from './service.ts';
import { checkPython } from './visibility.ts';

export interface ContainerCheck {
  readonly report: Report;
  /** The words of the tool. */
  readonly command: readonly string[];
  readonly work: string;
  /** Empty without torch. */
  readonly torchFolder: string;
  /** Time that is left for the whole check, ms. */
  readonly left: () => number;
  /** The service that runs now. */
  readonly onService: (service: Service | undefined) => void;
  /** Receives what removes the image that is there now. */
  readonly onImage: (remove: (() => Promise<void>) | undefined) => void;
}

const ENDPOINT = '@Endpoint(name="gpu",';
/** What the workers need after the image, ms: a service and a job each, with and without gVisor. */
const LEVELS_MS = 60_000;

export async function checkContainers(check: ContainerCheck): Promise<void> {
  const { report, work, torchFolder, left, onImage } = check;
  const engine = await findEngine();
  if (engine === undefined) {
    report.skip('isolation container', 'no container engine here');
    return;
  }
  const access = gpuAccess(engine);
  if (access === undefined) {
    report.skip(
      'isolation container',
      `the engine at ${engine.socket} gives containers no GPUs: it has neither NVIDIA's runtime nor a CDI specification`,
    );
    return;
  }
  const image = `capstan-gpu-check:${randomUUID().slice(0, 8)}`;
  const ending = new AbortController();
  const making = makeImage({ engine, name: image, work, torchFolder, torchMs: left() - LEVELS_MS, signal: ending.signal });
  const remove = async (): Promise<void> => {
    ending.abort();
    await making.catch(() => undefined); // said below
    await removeImage(engine, image).catch((error: unknown) => console.log(`! the image ${image} is left: ${String(error)}`));
  };
  onImage(remove);
  try {
    const without = await making;
    if (torchFolder !== '' && without !== '') report.fact('torchInContainers', without);
    await checkLevel(check, { engine, access, image, level: 'container' });
    await checkGvisor(check, { engine, access, image });
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    report.add('isolation container', false, `no image can be made: ${why}`, 'an image of this machine');
  } finally {
    await remove();
    onImage(undefined);
  }
}

interface Level {
  readonly engine: EngineInfo;
  readonly access: string;
  readonly image: string;
  readonly level: string;
  readonly runtime?: string;
}

async function checkGvisor(check: ContainerCheck, level: Omit<Level, 'level'>): Promise<void> {
  const [found] = [...level.engine.runtimes].filter(([name]) => /runsc|gvisor/i.test(name));
  if (found === undefined) {
    check.report.skip('isolation gVisor', 'the engine has no runtime runsc');
    return;
  }
  const [runtime, args] = found;
  if (hasDeviceFiles() && !args.some((arg) => /^--?nvproxy(?:=true)?$/.test(arg))) {
    check.report.skip('isolation gVisor', `the runtime ${runtime} is configured without --nvproxy`);
    return;
  }
  await checkLevel(check, { ...level, level: 'gVisor', runtime });
}

async function checkLevel(
  { report, command, work, torchFolder, left, onService }: ContainerCheck,
  { engine, access, image, level, runtime }: Level,
): Promise<void> {
  const folder = join(work, level);
  let service: Service;
  try {
    service = await Service.start(command, folder, {
      CAPSTAN_ISOLATION: 'none',
      CAPSTAN_CONTAINER_SOCKET: engine.socket,
      CAPSTAN_CONTAINER_GPUS: access,
      CAPSTAN_CONTAINER_SPARES: '0',
      ...(runtime === undefined ? {} : { CAPSTAN_CONTAINER_RUNTIME: runtime }),
    });
  } catch (error) {
    report.skip(`isolation ${level}`, error instanceof Error ? error.message : String(error));
    return;
  }
  onService(service);
  try {
    const app = join(folder, 'app');
    await mkdir(app, { recursive: true });
    const source = await readFile(join(import.meta.dirname, 'app/gpu_check.py'), 'utf8');
    if (!source.includes(ENDPOINT)) throw new Error(`app/gpu_check.py lacks ${ENDPOINT}`);
    if (torchFolder !== '') await writeFile(join(app, 'torch-folder.txt'), torchFolder);
    await writeFile(join(app, 'gpu_check.py'), source.replace(ENDPOINT, `${ENDPOINT} image="${image}",`));
    const endpoints = await service.deploy(app);
    await checkPython({ report, service, gpu: endpoints.get('gpu') ?? '', work, seconds: 0, starts: 0, left }, level);
  } catch (error) {
    report.add(`isolation ${level}`, false, error instanceof Error ? error.message : String(error), 'the service deploys and runs jobs');
  } finally {
    await service.close();
    onService(undefined);
  }
}
