/** The storage credentials of a job as its worker gets them (SPEC.md, s3Config object). */
import type { S3Config } from '../../proto/gen/capstan/v1/common.ts';

/** Secret. */
export interface WorkerS3Config {
  readonly accessId: string;
  readonly accessSecret: string;
  readonly bucketName: string;
  readonly endpointUrl: string;
  /** What the caller wrote beside these: a region, say. */
  readonly [other: string]: unknown;
}

/** The object as the caller sent it. */
export function workerS3Config({ accessId, accessSecret, bucketName, endpointUrl, more }: S3Config): WorkerS3Config {
  const others = more === '' ? {} : (JSON.parse(more) as object);
  return { accessId, accessSecret, bucketName, endpointUrl, ...others };
}
