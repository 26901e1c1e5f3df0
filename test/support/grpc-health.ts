/** A client of the health service, from its public description: there is no generated code for it. */
import { join } from 'node:path';

import { credentials, loadPackageDefinition, type Client, type ClientReadableStream, type ServiceError } from '@grpc/grpc-js';
import { loadSync } from '@grpc/proto-loader';

const folder = join(import.meta.dirname, '../../node_modules/grpc-health-check/proto');

export type HealthClient = Client & {
  Check(request: { service: string }, done: (error: ServiceError | null, reply: { status: string }) => void): void;
  Watch(request: { service: string }): ClientReadableStream<{ status: string }>;
};

export function healthClient(address: string): HealthClient {
  let at: unknown = loadPackageDefinition(loadSync('health/v1/health.proto', { includeDirs: [folder], keepCase: true, enums: String }));
  for (const step of ['grpc', 'health', 'v1', 'Health']) at = (at as Record<string, unknown>)[step];
  return new (at as new (address: string, credentials: unknown) => HealthClient)(address, credentials.createInsecure());
}

/** Status of a service ('' for the whole server), or `error` and the code. */
export function healthOf(client: HealthClient, service: string): Promise<string> {
  return new Promise((resolve) =>
    client.Check({ service }, (error, reply) => resolve(error === null ? reply.status : `error ${error.code}`)),
  );
}
