/** The storage credentials of a job as its worker receives them. */
import type { S3Config } from '../../proto/gen/capstan/v1/common.ts';

/** Secret. Any object: its members are agreed between the caller and the function. */
export type WorkerS3Config = Readonly<Record<string, unknown>>;

/** The object as the caller sent it. */
export function workerS3Config({ accessId, accessSecret, bucketName, endpointUrl, more, json }: S3Config): WorkerS3Config {
  if (json !== '') return JSON.parse(json) as WorkerS3Config;
  const others = more === '' ? {} : (JSON.parse(more) as object);
  return { accessId, accessSecret, bucketName, endpointUrl, ...others };
}
