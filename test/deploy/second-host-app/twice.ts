import { endpoint } from '@capstan/sdk';

export const twice = endpoint({ name: 'twice' }, async ({ n }: { n: number }) => Promise.resolve({ n: n * 2 }));
