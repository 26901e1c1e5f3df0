/** Limits the informational responses (1xx) of a worker's server: HTTP has no bound for them, and no caller sees them. */
import type { ClientRequest } from 'node:http';

/** Informational responses before a response. */
export const MAX_INFORMATION = 32;

/** Ends a request with an error when its server sends more. */
export function limitInformation(request: ClientRequest): void {
  let count = 0;
  request.on('information', () => {
    count += 1;
    if (count > MAX_INFORMATION) request.destroy(new Error(`the server sent more than ${MAX_INFORMATION} informational responses`));
  });
}
