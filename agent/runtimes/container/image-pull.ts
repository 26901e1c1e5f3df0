/** Pulls images that the engine lacks, one pull per image at a time, and reports progress. */
import { once } from 'node:events';

import { CapstanError } from '../../../lib/errors.ts';
import { imageReference } from '../../../lib/base-images.ts';
import { LineSplitter } from '../lines.ts';
import { engineMessage, type ContainerEngine } from './engine.ts';
import { PullProgress } from './pull-progress.ts';
import { credentialsFor } from './registry-credentials.ts';

type OnProgress = (text: string) => void;

interface Pull {
  readonly done: Promise<void>;
  readonly abort: AbortController;
  readonly listeners: Set<OnProgress>;
  latest: string;
}

export class ImagePulls {
  readonly #engine: ContainerEngine;
  readonly #authFile: string | undefined;
  readonly #running = new Map<string, Pull>();

  constructor(engine: ContainerEngine, authFile: string | undefined) {
    this.#engine = engine;
    this.#authFile = authFile;
  }

  /**
   * Resolves when the engine has the image. Rejects with the registry's message (NOT_FOUND), with CONFIG for an invalid
   * credentials file, or when `signal` aborts; the pull itself continues while another caller waits for it.
   */
  async pull(image: string, onProgress: OnProgress, signal: AbortSignal): Promise<void> {
    const pull = this.#running.get(image) ?? this.#begin(image);
    pull.listeners.add(onProgress);
    onProgress(pull.latest);
    const aborted = once(signal, 'abort').then(() => signal.throwIfAborted());
    try {
      signal.throwIfAborted();
      await Promise.race([pull.done, aborted]);
    } finally {
      pull.listeners.delete(onProgress);
      if (pull.listeners.size === 0) pull.abort.abort();
    }
  }

  #begin(image: string): Pull {
    const abort = new AbortController();
    const pull: Pull = { done: this.#fetch(image, abort.signal, (text) => tell(pull, text)), abort, listeners: new Set(), latest: '' };
    this.#running.set(image, pull);
    const over = (): void => {
      if (this.#running.get(image) === pull) this.#running.delete(image);
    };
    pull.done.then(over, over);
    abort.signal.addEventListener('abort', over);
    return pull;
  }

  async #fetch(image: string, signal: AbortSignal, onProgress: OnProgress): Promise<void> {
    const authconfig = await credentialsFor(image, this.#authFile);
    const client = await this.#engine.client();
    const progress = new PullProgress();
    let problem: string | undefined;
    let sent = '';
    const lines = new LineSplitter((line) => {
      problem = progress.take(line) ?? problem;
      // At most a hundred reports for a known total: progress is in whole percents.
      if (progress.text === sent) return;
      sent = progress.text;
      onProgress(sent);
    });
    try {
      const stream = await client.pull(imageReference(image), {
        abortSignal: signal,
        ...(authconfig === undefined ? {} : { authconfig }),
      });
      stream.on('data', (data: Buffer) => lines.push(data));
      await once(stream, 'end', { signal });
      lines.end();
    } catch (error) {
      throw new CapstanError('NOT_FOUND', `${image}: ${engineMessage(error)}`, { cause: error });
    }
    if (problem !== undefined) throw new CapstanError('NOT_FOUND', `${image}: ${problem}`);
  }
}

function tell(pull: Pull, text: string): void {
  pull.latest = text;
  for (const listener of pull.listeners) listener(text);
}
