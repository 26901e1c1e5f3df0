/**
 * Holds secrets back from an address that `.env` of the working folder decides: the file may come with a cloned project,
 * and its author must not receive the keys of the shell, of `capstan login` or of another data folder. An address of
 * `.env` receives only what is stored with it.
 */
import type { FileSettings, Settings } from '../terminal/config.ts';
import { ToolError } from '../terminal/tool-error.ts';

const VARIABLES = { url: 'CAPSTAN_URL', scheduler: 'CAPSTAN_SCHEDULER', dataDir: 'CAPSTAN_DATA_DIR' } as const;

/** A setting that decides where a secret is sent. */
type AddressSetting = keyof typeof VARIABLES;

/** Returns whether the setting has its value from `.env`. */
function isFromFile({ fromFile }: Settings, name: FileSettings['names'][number]): boolean {
  return fromFile?.names.includes(name) === true;
}

/**
 * Checks that the API key may be sent to the address that `address` decides.
 * @throws ToolError CONFIG when the address is from `.env` and the key is not.
 */
export function checkKeyTarget(settings: Settings, address: AddressSetting): void {
  if (!isFromFile(settings, address)) return;
  // Without a setting the key is the one in the data folder.
  if (isFromFile(settings, settings.apiKey === undefined ? 'dataDir' : 'apiKey')) return;
  throw held(settings, address, 'the API key');
}

/**
 * Checks that a token of the data folder may be sent to the scheduler.
 * @throws ToolError CONFIG when the scheduler's address is from `.env` and the data folder is not.
 */
export function checkTokenTarget(settings: Settings): void {
  if (isFromFile(settings, 'scheduler') && !isFromFile(settings, 'dataDir')) throw held(settings, 'scheduler', 'the gateway token');
}

function held({ fromFile }: Settings, address: AddressSetting, secret: string): ToolError {
  const variable = VARIABLES[address];
  return new ToolError(
    'CONFIG',
    `${variable}: its value is from ${fromFile?.path ?? '.env'}, and ${secret} is not; the file may belong to someone else's project`,
    `If you trust this address, set ${variable} in the shell, or SERVICE_API_KEY in the same file.`,
    { field: variable },
  );
}
