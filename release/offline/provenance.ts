/** Where the offline bundles come from: an in-toto statement with a SLSA provenance (version 1). */
import { basename } from 'node:path';

import { sha256 } from '../archive.ts';

export interface Origin {
  readonly version: string;
  /** Of the repository. */
  readonly commit: string;
  /** The working tree had changes that are not committed. */
  readonly isChanged: boolean;
  readonly time: Date;
}

/** Returns the statement about these files as JSON. */
export async function provenanceOf(files: readonly string[], { version, commit, isChanged, time }: Origin): Promise<string> {
  const statement = {
    _type: 'https://in-toto.io/Statement/v1',
    subject: await Promise.all(files.map(async (file) => ({ name: basename(file), digest: { sha256: await sha256(file) } }))),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'https://capstan.invalid/release/v1',
        externalParameters: { version, changed: isChanged },
        resolvedDependencies: [{ uri: 'git+repository', digest: { gitCommit: commit } }],
      },
      runDetails: {
        builder: { id: `node ${process.versions.node}` },
        metadata: { finishedOn: time.toISOString() },
      },
    },
  };
  return `${JSON.stringify(statement, null, 2)}\n`;
}
