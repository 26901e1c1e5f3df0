/** Names for the setting `gpu`. Plain strings work as well: operators can add types and groups. */

/** Groups of GPU types: a generation and its memory in GB, or any. */
export const GpuGroup = {
  ANY: 'ANY',
  ADA_16: 'ADA_16',
  ADA_24: 'ADA_24',
  ADA_32_PRO: 'ADA_32_PRO',
  ADA_48_PRO: 'ADA_48_PRO',
  ADA_80_PRO: 'ADA_80_PRO',
  AMPERE_16: 'AMPERE_16',
  AMPERE_24: 'AMPERE_24',
  AMPERE_40: 'AMPERE_40',
  AMPERE_48: 'AMPERE_48',
  AMPERE_80: 'AMPERE_80',
  BLACKWELL_16: 'BLACKWELL_16',
  BLACKWELL_180: 'BLACKWELL_180',
  BLACKWELL_288: 'BLACKWELL_288',
  BLACKWELL_32: 'BLACKWELL_32',
  BLACKWELL_96: 'BLACKWELL_96',
  HOPPER_141: 'HOPPER_141',
  HOPPER_80: 'HOPPER_80',
  HOPPER_96: 'HOPPER_96',
  TURING_16: 'TURING_16',
  TURING_24: 'TURING_24',
  VOLTA_16: 'VOLTA_16',
  VOLTA_32: 'VOLTA_32',
} as const;

export type GpuGroup = (typeof GpuGroup)[keyof typeof GpuGroup];

/** The scaling signal: the time that the oldest job has waited (s), or the number of jobs per worker. */
export type ScalerType = 'QUEUE_DELAY' | 'REQUEST_COUNT';
