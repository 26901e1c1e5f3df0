/*
 * A library to preload: records what a process does to the files below POWER_CUT_ROOT, in order, into POWER_CUT_LOG.
 * record.ts says what survives a power cut after any of the records (survivors.ts).
 *
 * A record: op (1 byte), inode, a, b (8 bytes each), lengths of two texts (4 bytes each), then the texts; little endian.
 * It is appended by one writev, so records of threads and processes never mix. A record is written after its call has
 * succeeded. A sync carries the length of the log before the call began: only what was recorded by then counts as synced.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define HIDDEN_FD 900

enum { OPENED = 1, WRITTEN, TRUNCATED, SYNCED, FOLDER, RENAMED, LINKED, REMOVED };

static int log_fd = -1;
static char root[PATH_MAX];
static size_t root_length;

#define REAL(type, name, ...) \
  static type (*real)(__VA_ARGS__); \
  if (real == NULL) real = (type (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static ssize_t real_writev(int fd, const struct iovec *parts, int count) {
  REAL(ssize_t, "writev", int, const struct iovec *, int);
  return real(fd, parts, count);
}

__attribute__((constructor)) static void start(void) {
  const char *log = getenv("POWER_CUT_LOG"), *folder = getenv("POWER_CUT_ROOT");
  if (log == NULL || folder == NULL || realpath(folder, root) == NULL) return;
  root_length = strlen(root);
  int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
  int fd = real(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  log_fd = fcntl(fd, F_DUPFD_CLOEXEC, HIDDEN_FD);
  close(fd);
}

static void record(uint8_t op, uint64_t inode, uint64_t a, uint64_t b, const void *one, size_t one_size, const void *two, size_t two_size) {
  int before = errno;
  char head[33];
  uint32_t first = (uint32_t)one_size, second = (uint32_t)two_size;
  head[0] = (char)op;
  memcpy(head + 1, &inode, 8);
  memcpy(head + 9, &a, 8);
  memcpy(head + 17, &b, 8);
  memcpy(head + 25, &first, 4);
  memcpy(head + 29, &second, 4);
  struct iovec parts[3] = {{head, sizeof head}, {(void *)one, one_size}, {(void *)two, two_size}};
  if (real_writev(log_fd, parts, 3) != (ssize_t)(sizeof head + one_size + two_size)) {
    fprintf(stderr, "power cut recorder: the log cannot be written\n");
    abort();
  }
  errno = before;
}

static uint64_t log_length(void) {
  struct stat found;
  return fstat(log_fd, &found) == 0 ? (uint64_t)found.st_size : 0;
}

/* The absolute path, in `full`, if it is below the root. Nobody in the recorded processes uses `..` below it. */
static const char *below(const char *path, char *full) {
  if (log_fd < 0 || path == NULL) return NULL;
  if (path[0] == '/') {
    snprintf(full, PATH_MAX, "%s", path);
  } else {
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder) == NULL) return NULL;
    if (snprintf(full, PATH_MAX, "%s/%s", folder, path) >= PATH_MAX) return NULL;
  }
  if (strncmp(full, root, root_length) != 0 || (full[root_length] != '/' && full[root_length] != 0)) return NULL;
  return full;
}

/* Whether the descriptor is of a file or folder below the root. */
static int is_tracked(int fd, struct stat *found) {
  if (log_fd < 0 || fd == log_fd || fstat(fd, found) != 0) return 0;
  if (!S_ISREG(found->st_mode) && !S_ISDIR(found->st_mode)) return 0;
  char link[64], path[PATH_MAX], full[PATH_MAX];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return below(path, full) != NULL;
}

static void opened(int fd, const char *path, int flags) {
  char full[PATH_MAX];
  struct stat found;
  int before = errno;
  if (fd >= 0 && (flags & (O_WRONLY | O_RDWR)) && below(path, full) != NULL && fstat(fd, &found) == 0 && S_ISREG(found.st_mode))
    record(OPENED, found.st_ino, (flags & O_TRUNC) != 0, 0, full, strlen(full), "", 0);
  errno = before;
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    REAL(int, #name, const char *, int, ...); \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
      va_list more; \
      va_start(more, flags); \
      mode = va_arg(more, mode_t); \
      va_end(more); \
    } \
    int fd = real(path, flags, mode); \
    opened(fd, path, flags); \
    return fd; \
  }
OPEN(open)
OPEN(open64)

static void wrote(int fd, const struct iovec *parts, int count, ssize_t done, int64_t at) {
  struct stat found;
  int before = errno;
  if (done > 0 && is_tracked(fd, &found)) {
    if (at < 0) at = lseek(fd, 0, SEEK_CUR) - done;
    for (int i = 0; i < count && done > 0; i += 1) {
      size_t size = parts[i].iov_len < (size_t)done ? parts[i].iov_len : (size_t)done;
      record(WRITTEN, found.st_ino, (uint64_t)at, 0, parts[i].iov_base, size, "", 0);
      at += (int64_t)size;
      done -= (ssize_t)size;
    }
  }
  errno = before;
}

ssize_t write(int fd, const void *bytes, size_t size) {
  REAL(ssize_t, "write", int, const void *, size_t);
  ssize_t done = real(fd, bytes, size);
  struct iovec part = {(void *)bytes, size};
  wrote(fd, &part, 1, done, -1);
  return done;
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
  ssize_t done = real_writev(fd, parts, count);
  wrote(fd, parts, count, done, -1);
  return done;
}

#define PWRITE(name) \
  ssize_t name(int fd, const void *bytes, size_t size, off_t at) { \
    REAL(ssize_t, #name, int, const void *, size_t, off_t); \
    ssize_t done = real(fd, bytes, size, at); \
    struct iovec part = {(void *)bytes, size}; \
    wrote(fd, &part, 1, done, at); \
    return done; \
  }
PWRITE(pwrite)
PWRITE(pwrite64)

#define PWRITEV(name) \
  ssize_t name(int fd, const struct iovec *parts, int count, off_t at) { \
    REAL(ssize_t, #name, int, const struct iovec *, int, off_t); \
    ssize_t done = real(fd, parts, count, at); \
    wrote(fd, parts, count, done, at); \
    return done; \
  }
PWRITEV(pwritev)
PWRITEV(pwritev64)

#define FTRUNCATE(name) \
  int name(int fd, off_t size) { \
    REAL(int, #name, int, off_t); \
    struct stat found; \
    int result = real(fd, size); \
    if (result == 0 && is_tracked(fd, &found)) record(TRUNCATED, found.st_ino, (uint64_t)size, 0, "", 0, "", 0); \
    return result; \
  }
FTRUNCATE(ftruncate)
FTRUNCATE(ftruncate64)

/* The size lets survivors.ts notice bytes that came by a way that is not recorded here (copies within the kernel). */
#define SYNC(name) \
  int name(int fd) { \
    REAL(int, #name, int); \
    struct stat found; \
    int tracked = is_tracked(fd, &found); \
    uint64_t since = tracked ? log_length() : 0; \
    int result = real(fd); \
    if (result == 0 && tracked) record(SYNCED, found.st_ino, since, S_ISDIR(found.st_mode) ? UINT64_MAX : (uint64_t)found.st_size, "", 0, "", 0); \
    return result; \
  }
SYNC(fsync)
SYNC(fdatasync)

int mkdir(const char *path, mode_t mode) {
  REAL(int, "mkdir", const char *, mode_t);
  char full[PATH_MAX];
  struct stat found;
  int result = real(path, mode);
  if (result == 0 && below(path, full) != NULL && stat(full, &found) == 0) record(FOLDER, found.st_ino, 0, 0, full, strlen(full), "", 0);
  return result;
}

char *mkdtemp(char *template) {
  REAL(char *, "mkdtemp", char *);
  char full[PATH_MAX];
  struct stat found;
  char *result = real(template);
  if (result != NULL && below(result, full) != NULL && stat(full, &found) == 0) record(FOLDER, found.st_ino, 0, 0, full, strlen(full), "", 0);
  return result;
}

#define TWO_NAMES(name, op) \
  int name(const char *from, const char *to) { \
    REAL(int, #name, const char *, const char *); \
    char full_from[PATH_MAX], full_to[PATH_MAX]; \
    int result = real(from, to); \
    if (result == 0 && below(from, full_from) != NULL && below(to, full_to) != NULL) \
      record(op, 0, 0, 0, full_from, strlen(full_from), full_to, strlen(full_to)); \
    return result; \
  }
TWO_NAMES(rename, RENAMED)
TWO_NAMES(link, LINKED)

#define REMOVE(name) \
  int name(const char *path) { \
    REAL(int, #name, const char *); \
    char full[PATH_MAX]; \
    int result = real(path); \
    if (result == 0 && below(path, full) != NULL) record(REMOVED, 0, 0, 0, full, strlen(full), "", 0); \
    return result; \
  }
REMOVE(unlink)
REMOVE(rmdir)
