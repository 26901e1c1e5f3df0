/** Incidents of certificates: without them hosts lose each other. */
import { X509Certificate } from 'node:crypto';

import { errnoOf } from '../../lib/to-error.ts';
import { readFile } from 'node:fs/promises';
import type { Now } from '../core/now.ts';
import { ofSubject, type Incident } from './incident.ts';

/** How long before its end a certificate is reported, ms. */
const EXPIRES_SOON_MS = 14 * 86_400_000;

export interface KnownCertificate {
  /** Whose: `the scheduler`, `gateway 10.0.0.1:7072`, `host gpu-a`. */
  readonly owner: string;
  /** Wall clock, ms. */
  readonly endsAt: number;
}

export function certificateIncidents(certificates: readonly KnownCertificate[], { wall }: Now): Incident[] {
  return certificates
    .filter(({ endsAt }) => endsAt - wall <= EXPIRES_SOON_MS)
    .map(({ owner, endsAt }) => {
      const has = endsAt <= wall;
      const text = ` ${has ? 'ended' : 'ends'} on ${new Date(endsAt).toISOString().slice(0, 10)}`;
      return ofSubject(`the certificate of ${owner}`, text, {
        kind: 'CERTIFICATE_EXPIRES',
        severity: has ? 'CRITICAL' : 'WARNING',
        sinceMs: endsAt - EXPIRES_SOON_MS,
        actions: [{ label: 'Check the hosts', command: 'capstan doctor' }],
      });
    });
}

/** Reads when certificates of files end. A file that is missing or holds none is left out: the part that needs it fails by itself. */
export async function certificatesOf(files: Readonly<Record<string, string | undefined>>): Promise<KnownCertificate[]> {
  const found = await Promise.all(
    Object.entries(files).map(async ([owner, path]): Promise<KnownCertificate[]> => {
      if (path === undefined) return [];
      const endsAt = endOf(await readFile(path).catch(unreadable));
      return endsAt === undefined ? [] : [{ owner, endsAt }];
    }),
  );
  return found.flat();
}

/** When a certificate in PEM or DER ends, wall clock ms; undefined if it is none. */
export function endOf(certificate: Uint8Array): number | undefined {
  try {
    return Date.parse(new X509Certificate(certificate).validTo);
  } catch {
    return undefined; // Not a certificate.
  }
}

function unreadable(error: unknown): Uint8Array {
  if (errnoOf(error) === undefined) throw error;
  return new Uint8Array();
}
