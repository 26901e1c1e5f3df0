/** The secrets that a stack stores in its data folder, for the commands on this host. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Path of the file with the operator's API key. */
export function apiKeyFile(dataDir: string): string {
  return join(dataDir, 'secrets', 'api-key');
}

/** Returns the key in the data folder; null when there is none. */
export function storedApiKey(dataDir: string): string | null {
  return readSecret(apiKeyFile(dataDir));
}

/** Returns the gateway token in the data folder; null when there is none. */
export function storedGatewayToken(dataDir: string): string | null {
  return readSecret(join(dataDir, 'secrets', 'gateway-token'));
}

function readSecret(file: string): string | null {
  try {
    const text = readFileSync(file, 'utf8').trim();
    return text === '' ? null : text;
  } catch {
    return null; // absent, or not readable by this user
  }
}
