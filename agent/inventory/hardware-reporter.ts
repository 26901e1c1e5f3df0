/** Runs as a separate process (hardware.ts): reads the host with systeminformation and sends one result. */
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

// The library may leave a timer.
process.send?.(await read(), () => process.exit());
