import { readdirSync } from 'node:fs';

import { endpoint } from '@capstan/sdk';

/** What a worker with threads sees of the GPU. */
export const gpuThread = endpoint({ name: 'gpu-thread', gpu: 'ANY', workers: [0, 1], idleTimeout: 1 }, () => ({
  visible: process.env['CUDA_VISIBLE_DEVICES'] ?? null,
  files: readdirSync('/dev')
    .filter((name) => /^nvidia\d+$/.test(name))
    .sort(),
}));
