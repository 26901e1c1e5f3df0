/** `capstan deploy`: creates or updates the endpoints of a folder. */
import { createReadStream } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

import { baseImageOf } from '../../lib/base-images.ts';
import { CapstanError } from '../../lib/errors.ts';
import type { SourceRevision } from '../../lib/source-revision.ts';
import { deploy, type Deployed } from '../api/control.ts';
import type { GatewayClient } from '../../client/gateway-client.ts';
import { createActivity } from '../../terminal/activity.ts';
import type { Terminal } from '../../terminal/terminal.ts';
import type { Application } from '../../compiler/application/application.ts';
import type { Artifact } from '../../compiler/artifact/artifact.ts';

/** Retries of transient errors. */
const RETRIES = 3;
/** Retries once the gateway has responded before: it, or the scheduler, is restarting. Half a minute. */
const RETRIES_OF_KNOWN = 16;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 2_000;
const PIECE_BYTES = 256 * 1024;

/** False when every endpoint has its own image: the hosts need nothing of the folder. */
export function needsArtifact({ endpoints }: Application): boolean {
  return endpoints.some(({ spec }) => spec.functions.length > 0 || spec.imageName === '' || baseImageOf(spec.imageName) !== null);
}

export interface Deployment {
  readonly application: Application;
  readonly artifact: Artifact;
  readonly environment: string;
  /** The commit of the project, where it is known. */
  readonly source?: SourceRevision | null;
  readonly keep?: readonly KeptOfEndpoint[];
}

/** What an existing endpoint keeps of its present settings: names of settings and of environment values. */
export interface KeptOfEndpoint {
  readonly endpoint: string;
  readonly settings: readonly string[];
  readonly env: readonly string[];
}

/** Uploads the artifact, if one is needed, and creates or updates the endpoints, all or none. Throws CapstanError. */
export async function deployApplication(
  client: GatewayClient,
  { application, artifact, environment, source = null, keep = [] }: Deployment,
  terminal: Terminal,
): Promise<Deployed> {
  const upload = needsArtifact(application);
  if (upload) await uploadArtifact(client, artifact, terminal);
  // Repeating a deployment has no further effect, so a retry is safe.
  return retrying(
    () =>
      deploy(client, {
        environment,
        build: upload ? artifact.digest : '',
        endpoints: application.endpoints.map(({ spec }) => spec),
        source,
        keep,
      }),
    terminal,
    () => (upload ? 1 : 0),
  );
}

async function uploadArtifact(client: GatewayClient, artifact: Artifact, terminal: Terminal): Promise<void> {
  let furthest = 0;
  const activity = createActivity(terminal);
  activity.begin('uploading');
  try {
    await retrying(
      () =>
        client.putBuild({
          digest: artifact.digest,
          size: artifact.size,
          read: (start, end) =>
            createReadStream(artifact.path, { start, end: end - 1, highWaterMark: PIECE_BYTES }) as AsyncIterable<Buffer>,
          progress: (sent) => {
            furthest = Math.max(furthest, sent);
            activity.at(sent, artifact.size);
          },
        }),
      terminal,
      () => furthest,
    );
  } finally {
    activity.end();
  }
}

/** Retries while the service is unavailable. `progress` counts what the attempts achieved: after progress, the retries start again. */
export async function retrying<T>(work: () => Promise<T>, terminal: Terminal, progress: () => number): Promise<T> {
  let reached = 0;
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await work();
    } catch (error) {
      if (progress() > reached) {
        attempt = 0;
        reached = progress();
      }
      const tries = reached > 0 ? RETRIES_OF_KNOWN : RETRIES;
      if (!(error instanceof CapstanError) || error.code !== 'UNAVAILABLE' || attempt >= tries) throw error;
      const wait = Math.min(FIRST_PAUSE_MS * 2 ** attempt, LONGEST_PAUSE_MS);
      terminal.warn(`${error.message}; retrying in ${wait} ms`);
      await pause(wait);
    }
  }
}
