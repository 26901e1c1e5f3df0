/** Runs in a thread of its own (hardware.ts): reads the host with systeminformation and posts one result. */
import { parentPort } from 'node:worker_threads';

import information from 'systeminformation';

import { readingOf, type HardwareReading } from './hardware-facts.ts';

async function read(): Promise<HardwareReading> {
  const [system, osInfo, cpu, memory, devices, interfaces] = await Promise.all([
    information.system(),
    information.osInfo(),
    information.cpu(),
    information.mem(),
    information.blockDevices(),
    information.networkInterfaces(),
  ]);
  return readingOf({ system, osInfo, cpu, memory, devices, interfaces: [interfaces].flat() });
}

parentPort?.postMessage(await read());
