/** Identifies the boot that wrote builds that are not synced yet. */
import { readFile } from 'node:fs/promises';

/** Returns the kernel's boot id, which changes with each boot of the host; empty where the kernel has none. */
export async function bootId(): Promise<string> {
  return (await readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => '')).trim();
}
