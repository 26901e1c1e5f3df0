/**
 * The known GPU types and their groups. `models` are the product names printed by nvidia-smi; they are compared as a
 * whole (gpu-table.ts), so that A100 never means A1000. Operators extend the table by a file (docs/gpus.md).
 */

/** One type: cards that can replace each other. */
export interface GpuType {
  /** The name used in settings. */
  readonly name: string;
  /** Product names, as printed by nvidia-smi. */
  readonly models: readonly string[];
  /** Nominal memory, GB. */
  readonly memoryGb: number;
  /** Its groups, besides ANY. */
  readonly groups: readonly string[];
}

const type = (name: string, memoryGb: number, groups: readonly string[], models: readonly string[]): GpuType => ({
  name,
  models,
  memoryGb,
  groups,
});

export const gpuTypes: readonly GpuType[] = [
  type('B300', 288, ['BLACKWELL_288'], ['NVIDIA B300', 'NVIDIA B300 SXM6 AC']),
  type('GB300', 288, ['BLACKWELL_288'], ['NVIDIA GB300']),
  type('GB200', 186, ['BLACKWELL_180'], ['NVIDIA GB200']),
  type('B200', 180, ['BLACKWELL_180'], ['NVIDIA B200']),
  type(
    'RTX PRO 6000',
    96,
    ['BLACKWELL_96'],
    [
      'NVIDIA RTX PRO 6000 Blackwell Server Edition',
      'NVIDIA RTX PRO 6000 Blackwell Workstation Edition',
      'NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition',
    ],
  ),
  type('RTX PRO 4500', 32, ['BLACKWELL_32'], ['NVIDIA RTX PRO 4500 Blackwell']),
  type('RTX 5090', 32, ['BLACKWELL_32', 'ADA_32_PRO'], ['NVIDIA GeForce RTX 5090', 'NVIDIA GeForce RTX 5090 D']),
  type('RTX 5080', 16, ['BLACKWELL_16'], ['NVIDIA GeForce RTX 5080']),
  type('RTX 5070 Ti', 16, ['BLACKWELL_16'], ['NVIDIA GeForce RTX 5070 Ti']),

  type('H200', 141, ['HOPPER_141'], ['NVIDIA H200']),
  type('H200 NVL', 141, ['HOPPER_141'], ['NVIDIA H200 NVL']),
  type('GH200', 96, ['HOPPER_96'], ['NVIDIA GH200 480GB']),
  type('H20', 96, ['HOPPER_96'], ['NVIDIA H20']),
  type('H100 NVL', 94, ['HOPPER_80', 'ADA_80_PRO'], ['NVIDIA H100 NVL']),
  type('H100 SXM', 80, ['HOPPER_80', 'ADA_80_PRO'], ['NVIDIA H100 80GB HBM3']),
  type('H100 PCIe', 80, ['HOPPER_80', 'ADA_80_PRO'], ['NVIDIA H100 PCIe']),
  type('H800', 80, ['HOPPER_80', 'ADA_80_PRO'], ['NVIDIA H800', 'NVIDIA H800 PCIe']),

  type('L40S', 48, ['ADA_48_PRO'], ['NVIDIA L40S']),
  type('L40', 48, ['ADA_48_PRO'], ['NVIDIA L40']),
  type('RTX 6000 Ada', 48, ['ADA_48_PRO'], ['NVIDIA RTX 6000 Ada Generation']),
  type('RTX 5880 Ada', 48, ['ADA_48_PRO'], ['NVIDIA RTX 5880 Ada Generation']),
  type('RTX 5000 Ada', 32, ['ADA_32_PRO'], ['NVIDIA RTX 5000 Ada Generation']),
  type('RTX 4090', 24, ['ADA_24'], ['NVIDIA GeForce RTX 4090', 'NVIDIA GeForce RTX 4090 D']),
  type('RTX 4500 Ada', 24, ['ADA_24'], ['NVIDIA RTX 4500 Ada Generation']),
  type('L4', 24, ['AMPERE_24'], ['NVIDIA L4']),
  type('RTX 4000 Ada', 20, ['AMPERE_16'], ['NVIDIA RTX 4000 Ada Generation', 'NVIDIA RTX 4000 SFF Ada Generation']),
  type('RTX 2000 Ada', 16, ['AMPERE_16'], ['NVIDIA RTX 2000 Ada Generation']),
  type('RTX 4080', 16, ['ADA_16'], ['NVIDIA GeForce RTX 4080', 'NVIDIA GeForce RTX 4080 SUPER']),
  type('RTX 4070 Ti SUPER', 16, ['ADA_16'], ['NVIDIA GeForce RTX 4070 Ti SUPER']),

  type('A100 SXM', 80, ['AMPERE_80'], ['NVIDIA A100-SXM4-80GB']),
  type('A100 PCIe', 80, ['AMPERE_80'], ['NVIDIA A100 80GB PCIe']),
  type('A800', 80, ['AMPERE_80'], ['NVIDIA A800-SXM4-80GB', 'NVIDIA A800 80GB PCIe']),
  type('A100 40GB', 40, ['AMPERE_40'], ['NVIDIA A100-SXM4-40GB', 'NVIDIA A100-PCIE-40GB', 'A100-SXM4-40GB', 'A100-PCIE-40GB']),
  type('A40', 48, ['AMPERE_48'], ['NVIDIA A40']),
  type('RTX A6000', 48, ['AMPERE_48'], ['NVIDIA RTX A6000']),
  type('A30', 24, ['AMPERE_24'], ['NVIDIA A30']),
  type('A10', 24, ['AMPERE_24'], ['NVIDIA A10']),
  type('A10G', 24, ['AMPERE_24'], ['NVIDIA A10G']),
  type('RTX A5500', 24, ['AMPERE_24'], ['NVIDIA RTX A5500']),
  type('RTX A5000', 24, ['AMPERE_24'], ['NVIDIA RTX A5000']),
  type('RTX 3090', 24, ['AMPERE_24'], ['NVIDIA GeForce RTX 3090', 'NVIDIA GeForce RTX 3090 Ti']),
  type('RTX A4500', 20, ['AMPERE_16'], ['NVIDIA RTX A4500']),
  type('RTX A4000', 16, ['AMPERE_16'], ['NVIDIA RTX A4000']),
  type('A16', 16, ['AMPERE_16'], ['NVIDIA A16']),
  type('A2', 16, ['AMPERE_16'], ['NVIDIA A2']),
  type('RTX 3080 Ti', 12, [], ['NVIDIA GeForce RTX 3080 Ti']),
  type('RTX 3080', 10, [], ['NVIDIA GeForce RTX 3080']),

  type('T4', 16, ['TURING_16'], ['Tesla T4', 'NVIDIA T4']),
  type('T4G', 16, ['TURING_16'], ['NVIDIA T4G']),
  type('Quadro RTX 6000', 24, ['TURING_24'], ['Quadro RTX 6000']),
  type('TITAN RTX', 24, ['TURING_24'], ['NVIDIA TITAN RTX', 'TITAN RTX']),
  type('V100 32GB', 32, ['VOLTA_32'], ['Tesla V100-SXM2-32GB', 'Tesla V100-PCIE-32GB', 'Tesla V100S-PCIE-32GB']),
  type('V100 16GB', 16, ['VOLTA_16'], ['Tesla V100-SXM2-16GB', 'Tesla V100-PCIE-16GB']),
];

/** Types with a common shorter name. */
export const gpuFamilies: Readonly<Record<string, readonly string[]>> = {
  A100: ['A100 SXM', 'A100 PCIe', 'A100 40GB'],
  H100: ['H100 SXM', 'H100 PCIe', 'H100 NVL'],
  V100: ['V100 32GB', 'V100 16GB'],
};

/** ANY matches MIG slices with at least this memory, GB: the smallest amount that any group promises. */
export const ANY_SLICE_GB = 16;
