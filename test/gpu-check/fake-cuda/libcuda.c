/* A driver library whose allocations are files in HELD, named by process and holding MiB: the fake nvidia-smi adds them up. */
#include <stdio.h>
#include <unistd.h>

static size_t held = 0;

int cuInit(unsigned flags) { return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = ordinal; return 0; }
int cuCtxCreate_v2(void **context, unsigned flags, int device) { *context = &held; return 0; }

int cuMemAlloc_v2(unsigned long long *pointer, size_t bytes) {
  char path[4096];
  held += bytes >> 20;
  snprintf(path, sizeof path, "%s/%d", HELD, getpid());
  FILE *file = fopen(path, "w");
  if (file == NULL) return 2;
  fprintf(file, "%zu\n", held);
  fclose(file);
  *pointer = 1;
  return 0;
}
