// Records the writes, syncs, renames and outputs of a process, in their order. It is loaded into
// the process with LD_PRELOAD and replaces functions of the C library; lib.rs explains its purpose,
// and record.rs reads its output.
//
// Operations on files are performed and recorded under one lock, so the record lists them in the order in
// which they took effect. Syncs are recorded but not performed, because the model is the disk. An
// output (to a pipe or a socket) is recorded before it is performed, so the record contains
// everything that a reader has seen.
//
// Not followed: writes through a shared map, links, io_uring, and files opened with O_TMPFILE. A test that
// compares the model with the folder (Recording::missed) notices them. For 64-bit Linux.

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN = 1, WRITE, LENGTH, SYNC, RENAME, REMOVE, FOLDER, OUTPUT };
enum flag { TRUNCATED = 1, SYNCED = 2 };
enum target { OTHER, FILE_OR_FOLDER, READER };

// One record; `path` and `data` bytes follow it.
struct head {
    uint32_t kind;
    uint32_t flags;
    uint64_t thread;
    uint64_t inode;
    uint64_t at;
    uint64_t path;
    uint64_t data;
};

static int record_file = -1;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("CRASHDISK_RECORD");
    if (path) record_file = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static void put(struct head head, const char *path, const struct iovec *data, int count) {
    if (record_file < 0) return;
    int saved = errno;
    head.thread = (uint64_t)syscall(SYS_gettid);
    head.path = path ? strlen(path) : 0;
    struct iovec parts[IOV_MAX];
    int used = 0;
    parts[used++] = (struct iovec){&head, sizeof head};
    if (path) parts[used++] = (struct iovec){(void *)path, head.path};
    uint64_t left = head.data;
    for (int i = 0; i < count && left > 0 && used < IOV_MAX; i++) {
        size_t length = data[i].iov_len < left ? data[i].iov_len : left;
        parts[used++] = (struct iovec){data[i].iov_base, length};
        left -= length;
    }
    uint64_t whole = sizeof head + head.path + head.data;
    // An incomplete record would make every later record unreadable.
    if (left > 0 || (uint64_t)syscall(SYS_writev, record_file, parts, used) != whole) abort();
    errno = saved;
}

static enum target target(int fd, uint64_t *inode) {
    struct stat about;
    int saved = errno;
    enum target target = OTHER;
    if (fstat(fd, &about) == 0) {
        *inode = about.st_ino;
        if (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) target = FILE_OR_FOLDER;
        if (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode)) target = READER;
    }
    errno = saved;
    return target;
}

// Writes the absolute path to `out`; returns false if there is none.
static int whole_path(int folder, const char *path, char out[2 * PATH_MAX]) {
    out[0] = 0;
    if (path[0] != '/') {
        if (folder == AT_FDCWD) {
            if (syscall(SYS_getcwd, out, PATH_MAX) < 0) return 0;
        } else {
            char link[64];
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
            ssize_t length = syscall(SYS_readlinkat, AT_FDCWD, link, out, PATH_MAX);
            if (length < 0) return 0;
            out[length] = 0;
        }
        strcat(out, "/");
    }
    strncat(out, path, PATH_MAX - 1);
    return 1;
}

static uint64_t inode_of(const char *path) {
    struct stat about;
    return stat(path, &about) == 0 ? about.st_ino : 0;
}

// Opening.

static int opened(int folder, const char *path, int flags, mode_t mode) {
    if (!(flags & (O_CREAT | O_TRUNC))) return (int)syscall(SYS_openat, folder, path, flags, mode);
    char whole[2 * PATH_MAX];
    struct head head = {.kind = OPEN, .flags = flags & O_TRUNC ? TRUNCATED : 0};
    pthread_mutex_lock(&order);
    int fd = (int)syscall(SYS_openat, folder, path, flags, mode);
    if (fd >= 0 && target(fd, &head.inode) == FILE_OR_FOLDER && whole_path(folder, path, whole)) put(head, whole, NULL, 0);
    pthread_mutex_unlock(&order);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & O_CREAT) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags) return opened(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return opened(folder, path, flags, mode); }
int creat(const char *path, mode_t mode) { return opened(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return creat(path, mode); }

// Writing. `at` is the file offset; a negative value means the current position of the descriptor.

static ssize_t written(int fd, const struct iovec *data, int count, off_t at) {
    struct head head = {.kind = WRITE};
    enum target to = target(fd, &head.inode);
    if (to == READER) {
        head.kind = OUTPUT;
        for (int i = 0; i < count; i++) head.data += data[i].iov_len;
        pthread_mutex_lock(&order);
        put(head, NULL, data, count);
        pthread_mutex_unlock(&order);
    }
    if (to != FILE_OR_FOLDER) {
        return at < 0 ? syscall(SYS_writev, fd, data, count) : syscall(SYS_pwritev, fd, data, count, at, 0);
    }
    pthread_mutex_lock(&order);
    ssize_t bytes = at < 0 ? syscall(SYS_writev, fd, data, count) : syscall(SYS_pwritev, fd, data, count, at, 0);
    if (bytes > 0) {
        head.data = (uint64_t)bytes;
        head.at = at < 0 ? (uint64_t)(syscall(SYS_lseek, fd, 0, SEEK_CUR) - bytes) : (uint64_t)at;
        if (syscall(SYS_fcntl, fd, F_GETFL) & O_DSYNC) head.flags = SYNCED;
        put(head, NULL, data, count);
    }
    pthread_mutex_unlock(&order);
    return bytes;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct iovec data = {(void *)bytes, length};
    return written(fd, &data, 1, -1);
}
ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    struct iovec data = {(void *)bytes, length};
    return written(fd, &data, 1, at);
}
ssize_t pwrite64(int fd, const void *bytes, size_t length, off_t at) { return pwrite(fd, bytes, length, at); }
ssize_t writev(int fd, const struct iovec *data, int count) { return written(fd, data, count, -1); }
ssize_t pwritev(int fd, const struct iovec *data, int count, off_t at) { return written(fd, data, count, at); }
ssize_t pwritev64(int fd, const struct iovec *data, int count, off_t at) { return written(fd, data, count, at); }

// The caller copies by reading and writing instead.
ssize_t copy_file_range(int from, off_t *at, int to, off_t *to_at, size_t length, unsigned flags) {
    (void)from, (void)at, (void)to, (void)to_at, (void)length, (void)flags;
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile(int to, int from, off_t *at, size_t length) {
    (void)to, (void)from, (void)at, (void)length;
    errno = ENOSYS;
    return -1;
}
ssize_t sendfile64(int to, int from, off_t *at, size_t length) { return sendfile(to, from, at, length); }
ssize_t splice(int from, off_t *at, int to, off_t *to_at, size_t length, unsigned flags) {
    return copy_file_range(from, at, to, to_at, length, flags);
}

int ftruncate(int fd, off_t length) {
    struct head head = {.kind = LENGTH, .at = (uint64_t)length};
    pthread_mutex_lock(&order);
    int result = (int)syscall(SYS_ftruncate, fd, length);
    if (result == 0 && target(fd, &head.inode) == FILE_OR_FOLDER) put(head, NULL, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}
int ftruncate64(int fd, off_t length) { return ftruncate(fd, length); }

// Syncing.

static int synced(int fd, long call) {
    struct head head = {.kind = SYNC};
    if (target(fd, &head.inode) != FILE_OR_FOLDER) return (int)syscall(call, fd);
    pthread_mutex_lock(&order);
    put(head, NULL, NULL, 0);
    pthread_mutex_unlock(&order);
    return 0;
}
int fsync(int fd) { return synced(fd, SYS_fsync); }
int fdatasync(int fd) { return synced(fd, SYS_fdatasync); }

// Names.

static int renamed(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    char old[2 * PATH_MAX], new[2 * PATH_MAX];
    struct head head = {.kind = RENAME};
    pthread_mutex_lock(&order);
    int result = (int)syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
    if (result == 0 && whole_path(from_folder, from, old) && whole_path(to_folder, to, new)) {
        struct iovec data = {new, strlen(new)};
        head.data = data.iov_len;
        put(head, old, &data, 1);
    }
    pthread_mutex_unlock(&order);
    return result;
}
int rename(const char *from, const char *to) { return renamed(AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int from_folder, const char *from, int to_folder, const char *to) { return renamed(from_folder, from, to_folder, to, 0); }
int renameat2(int from_folder, const char *from, int to_folder, const char *to, unsigned flags) {
    return renamed(from_folder, from, to_folder, to, flags);
}

static int removed(int folder, const char *path, int flags) {
    char whole[2 * PATH_MAX];
    struct head head = {.kind = REMOVE};
    pthread_mutex_lock(&order);
    int result = (int)syscall(SYS_unlinkat, folder, path, flags);
    if (result == 0 && whole_path(folder, path, whole)) put(head, whole, NULL, 0);
    pthread_mutex_unlock(&order);
    return result;
}
int unlink(const char *path) { return removed(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return removed(AT_FDCWD, path, AT_REMOVEDIR); }
int remove(const char *path) { return removed(AT_FDCWD, path, 0); }
int unlinkat(int folder, const char *path, int flags) { return removed(folder, path, flags); }

static int made(int folder, const char *path, mode_t mode) {
    char whole[2 * PATH_MAX];
    struct head head = {.kind = FOLDER};
    pthread_mutex_lock(&order);
    int result = (int)syscall(SYS_mkdirat, folder, path, mode);
    if (result == 0 && whole_path(folder, path, whole)) {
        head.inode = inode_of(whole);
        put(head, whole, NULL, 0);
    }
    pthread_mutex_unlock(&order);
    return result;
}
int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int folder, const char *path, mode_t mode) { return made(folder, path, mode); }

// Outputs that are not writes.

static void output(int fd, const struct iovec *data, int count) {
    struct head head = {.kind = OUTPUT};
    if (target(fd, &head.inode) != READER) return;
    for (int i = 0; i < count; i++) head.data += data[i].iov_len;
    pthread_mutex_lock(&order);
    put(head, NULL, data, count);
    pthread_mutex_unlock(&order);
}
ssize_t send(int fd, const void *bytes, size_t length, int flags) { return sendto(fd, bytes, length, flags, NULL, 0); }
ssize_t sendto(int fd, const void *bytes, size_t length, int flags, const struct sockaddr *to, socklen_t to_length) {
    struct iovec data = {(void *)bytes, length};
    output(fd, &data, 1);
    return syscall(SYS_sendto, fd, bytes, length, flags, to, to_length);
}
ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
    output(fd, message->msg_iov, (int)message->msg_iovlen);
    return syscall(SYS_sendmsg, fd, message, flags);
}
