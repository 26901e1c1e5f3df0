/** Which containers are kept started ahead: the rule, without an engine. */
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';

import test, { type ExecutionContext } from 'ava';
import { pino } from 'pino';

import { ContainerSpares, type SpareHost } from '../../agent/runtimes/container/spares.ts';
import type { ContainerShape } from '../../agent/runtimes/container/container-spec.ts';
import { until } from '../support/until.ts';
import { Signals } from './signals.ts';
import { folderOf } from '../support/folder.ts';

const shape: ContainerShape = {
  language: 'python',
  image: 'some/image',
  deviceUuids: [],
  memoryBytes: 0,
  cpuMillis: 0,
  network: 'host' as const,
};
const shapeOf = (image: string): ContainerShape => ({ ...shape, image });

interface FakeSpare extends SpareHost {
  readonly image: string;
  readonly folder: string;
  isUp: boolean;
  /** As if its container had ended. */
  die(): void;
}

class World {
  readonly root: string;
  readonly launched = new Signals<FakeSpare>();
  readonly ended = new Signals<FakeSpare>();
  readonly spares: ContainerSpares<FakeSpare>;
  now = 0;
  hasRoom = true;
  /** Images as the engine has them now. */
  readonly ids = new Map<string, string>();
  /** Spares that come up. */
  comeUp = true;

  constructor(root: string, count: number) {
    this.root = root;
    this.spares = new ContainerSpares({
      limits: { count, keptMs: 1_000 },
      folder: join(root, 'spares'),
      keyOf: (of) => `${this.ids.get(of.image) ?? of.image} ${of.memoryBytes}`,
      launch: (of, _start, folder) => this.#launch(of.image, folder),
      log: pino({ level: 'silent' }),
      now: () => this.now,
      hasRoom: () => this.hasRoom,
    });
  }

  async build(name: string, files: Readonly<Record<string, string>> = { 'main.py': name }): Promise<string> {
    const folder = join(this.root, name);
    await mkdir(join(folder, 'python_packages'), { recursive: true });
    for (const [path, text] of Object.entries(files)) await writeFile(join(folder, path), text);
    return folder;
  }

  /** A worker of the image started; the pool looks at once, not a second later. */
  used(of: ContainerShape, build: string): void {
    this.now += 1;
    this.spares.used(of, build);
    this.spares.converge();
  }

  next(image: string, from = 0): Promise<FakeSpare> {
    return this.launched.next((spare) => spare.image === image, from);
  }

  #launch(image: string, folder: string): FakeSpare {
    const exited = Promise.withResolvers<void>();
    const spare: FakeSpare = {
      image,
      folder,
      isUp: this.comeUp,
      gone: false,
      up: Promise.resolve(this.comeUp),
      exited: exited.promise,
      kill: () => spare.die(),
      die: () => {
        if (spare.gone) return;
        Object.assign(spare, { gone: true });
        this.ended.push(spare);
        exited.resolve();
      },
    };
    if (!this.comeUp) spare.die();
    this.launched.push(spare);
    return spare;
  }
}

async function world(t: ExecutionContext, count = 2): Promise<World> {
  const made = new World(await folderOf(t), count);
  t.teardown(() => made.spares.close());
  return made;
}

test('the shape that a worker used gets a spare with its build in it, by links; a worker of the shape takes it', async (t) => {
  const w = await world(t);
  const build = await w.build('a', { 'main.py': 'a', 'python_packages/dep.py': 'dep' });
  t.is(w.spares.take(shape, build), undefined);
  w.used(shape, build);
  const spare = await w.next('some/image');
  t.is((await stat(join(spare.folder, 'python_packages/dep.py'))).ino, (await stat(join(build, 'python_packages/dep.py'))).ino);
  t.is(w.spares.ready, 1);
  t.is(w.spares.take({ ...shape, memoryBytes: 1 }, build), undefined, 'other limits');
  const taken = w.spares.take(shape, build);
  t.is(taken?.host, spare);
  await taken?.filled;
  t.is(w.spares.take(shape, build), undefined, 'one worker only');
  spare.die();
  await spare.exited;
});

test('a spare filled with another build has nothing of that when its worker is told to load', async (t) => {
  const w = await world(t);
  const [old, other] = [await w.build('old', { 'main.py': 'old', 'secret.py': 'x' }), await w.build('other')];
  w.used(shape, old);
  const spare = await w.next('some/image');
  await w.spares.take(shape, other)?.filled;
  t.deepEqual((await readdir(spare.folder)).toSorted(), ['main.py', 'python_packages']);
  t.is(await readFile(join(spare.folder, 'main.py'), 'utf8'), 'other');
  t.is(await readFile(join(old, 'main.py'), 'utf8'), 'old');
});

test('a build that is gone when a spare is taken ends the worker with words, and harms nobody else', async (t) => {
  const w = await world(t);
  w.used(shape, await w.build('a'));
  await w.next('some/image');
  await t.throwsAsync(async () => w.spares.take(shape, join(w.root, 'nowhere'))?.filled, { message: /nowhere/ });
});

test('the shapes used last have spares, as many as there may be; one that falls out loses its own', async (t) => {
  const w = await world(t, 2);
  const build = await w.build('a');
  for (const image of ['one', 'two', 'three']) {
    w.used(shapeOf(image), build);
    await w.next(image);
  }
  t.deepEqual((await w.ended.next(() => true)) && w.ended.items.map(({ image }) => image), ['one']);
  const from = w.launched.items.length;
  w.used(shapeOf('one'), build);
  await w.next('one', from);
  await w.ended.next(({ image }) => image === 'two');
  t.is(w.spares.ready, 2);
});

test('a spare ends when its shape was not used for a while, when memory is short, when its image is another', async (t) => {
  const w = await world(t);
  const build = await w.build('a');
  w.used(shape, build);
  const first = await w.next('some/image');
  w.spares.converge();
  t.false(first.gone);
  w.now += 2_000;
  w.spares.converge();
  t.true(first.gone);

  w.used(shape, build);
  const second = await w.next('some/image', 1);
  w.hasRoom = false;
  w.spares.converge();
  t.true(second.gone);
  w.hasRoom = true;
  w.spares.converge();
  const third = await w.next('some/image', 2);

  w.ids.set('some/image', 'sha256:new');
  t.is(w.spares.take(shape, build), undefined);
  w.spares.converge();
  t.true(third.gone);
});

test('a spare that does not come up is not tried again before a worker used its shape', async (t) => {
  const w = await world(t);
  const build = await w.build('a');
  w.comeUp = false;
  w.used(shape, build);
  const failed = await w.next('some/image');
  await until('its folder is gone', async () => !(await readdir(join(w.root, 'spares'))).includes(basename(dirname(failed.folder))));
  w.comeUp = true;
  w.spares.converge();
  w.used(shapeOf('other'), build);
  await w.next('other');
  await w.spares.close();
  t.is(w.launched.items.filter(({ image }) => image === 'some/image').length, 1);
});

test('nothing is kept where none are wanted, and a closed pool starts none', async (t) => {
  const none = await world(t, 0);
  none.used(shape, await none.build('a'));
  const closed = await world(t);
  const build = await closed.build('a');
  closed.used(shape, build);
  const spare = await closed.next('some/image');
  await closed.spares.close();
  t.true(spare.gone);
  closed.used(shape, build);
  t.is(closed.spares.ready, 0);
  t.is(none.launched.items.length, 0);
  await t.notThrowsAsync(rm(join(closed.root, 'spares'), { recursive: true }));
});
