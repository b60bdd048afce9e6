// For LD_PRELOAD: the k-th call of one kind fails, or the first by one way, as the system would have it fail.
//
// Programs find tuttiFaultArm() and its sisters by dlsym().  All threads' calls count, from the arming on.
#undef _FILE_OFFSET_BITS  // calls that have a name for large files have both here
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <string_view>

#include "tests/faults/kinds.hpp"

using namespace tutti::test;

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace {

std::atomic<int> armed{-1};  // the kind; -1: none
std::atomic<long> failAt{0}, calls{0};
std::atomic<bool> onwards{false};   // all calls from failAt on
std::atomic<uint64_t> failPath{0};  // instead of failAt
std::atomic<size_t> failBytes{0};
FaultPath* paths = nullptr;  // what is recorded; kMostFaultPaths of them
thread_local bool unwinding __attribute__((tls_model("initial-exec"))) = false;

constexpr int kFrames = 28;

/// This thread's stack as a number that is never 0.
[[gnu::noinline]] uint64_t pathHere(void** frames, int* n) {
  unwinding = true;
  *n = backtrace(frames, kFrames);
  unwinding = false;
  uint64_t hash = 0xcbf29ce484222325u;
  for (int i = 0; i < *n; ++i) {
    hash = (hash ^ reinterpret_cast<uintptr_t>(frames[i])) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash | 1;
}

/// Libraries that tests have in a driver's place are no part of what is tested.
bool isForeign(void* const* frames, int n) {
  for (int i = 0; i < n; ++i) {
    Dl_info info{};
    if (dladdr(frames[i], &info) == 0 || info.dli_fname == nullptr) continue;
    const std::string_view file = info.dli_fname;
    if (file.find("/libcuda.so") != file.npos || file.find("/libibverbs.so") != file.npos) return true;
  }
  return false;
}

bool isForeign(FaultKind kind, void* const* frames, int n) {
  unwinding = true;  // it may allocate
  const bool foreign = kind != FaultKind::Driver && isForeign(frames, n);
  unwinding = false;
  return foreign;
}

void record(FaultKind kind, uint64_t path, size_t bytes, void* const* frames, int n) {
  for (size_t i = 0; i < kMostFaultPaths; ++i) {
    FaultPath& slot = paths[(path + i) % kMostFaultPaths];
    uint64_t there = 0;
    if (slot.stack.compare_exchange_strong(there, path)) {
      slot.bytes = bytes;
      slot.foreign = isForeign(kind, frames, n);
      return;
    }
    if (there == path) return;
  }
}

[[gnu::noinline]] bool isDue(FaultKind kind, size_t bytes) {
  const bool counted = paths == nullptr && failBytes == SIZE_MAX;
  if (counted) {
    const long n = calls.fetch_add(1) + 1;
    if (n != failAt && !(onwards && n > failAt)) return false;
  } else if (paths == nullptr && (failPath == 0 || bytes != failBytes)) {
    return false;
  }
  void* frames[kFrames];
  int n = 0;
  const uint64_t path = pathHere(frames, &n);  // from here alone: this frame is part of it
  if (paths != nullptr) return record(kind, path, bytes, frames, n), false;
  if (!counted) {
    uint64_t expected = path;
    return failPath.compare_exchange_strong(expected, 0) && ++calls > 0;
  }
  return !isForeign(kind, frames, n);
}

/// Whether this call is to fail, with errno set.  bytes: of an allocation.
bool fails(FaultKind kind, int error, size_t bytes = 0) {
  if (armed.load(std::memory_order_relaxed) != static_cast<int>(kind) || unwinding) return false;
  if (!isDue(kind, bytes)) return false;
  if (std::getenv("TUTTI_TEST_FAULT_TRACE") != nullptr) {
    armed = -1;  // what follows allocates
    void* frames[40];
    backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
    armed = static_cast<int>(kind);
  }
  errno = error;
  return true;
}

/// Where an exception ends the process.
[[gnu::constructor]] void traceTerminate() {
  void* first[4];
  (void)backtrace(first, 4);  // the first one loads a library
  if (std::getenv("TUTTI_TEST_FAULT_TRACE") == nullptr) return;
  std::signal(SIGSEGV, [](int signal) {
    void* frames[60];
    backtrace_symbols_fd(frames, backtrace(frames, 60), STDERR_FILENO);
    std::signal(signal, SIG_DFL);
  });
  std::set_terminate([] {
    armed = -1;
    void* frames[60];
    backtrace_symbols_fd(frames, backtrace(frames, 60), STDERR_FILENO);
    std::abort();
  });
}

template <class Function>
Function next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  Function function;
  std::memcpy(&function, &found, sizeof function);
  return function;
}

}  // namespace

#define REAL(name)                                       \
  static const auto real = next<decltype(&name)>(#name); \
  return real

#pragma GCC visibility push(default)
extern "C" {

void tuttiFaultArm(int kind, long at, int allFromThere) {
  armed = -1;
  calls = 0;
  failAt = at;
  failBytes = SIZE_MAX;
  onwards = allFromThere != 0;
  armed = kind;
}

void tuttiFaultArmPath(int kind, uint64_t path, size_t bytes) {
  armed = -1;
  calls = 0;
  failPath = path;
  failBytes = bytes;
  armed = kind;
}

/// Nothing fails: `into` learns by which ways there are calls.
void tuttiFaultRecord(int kind, FaultPath* into) {
  paths = into;
  armed = kind;
}

long tuttiFaultDisarm() {
  armed = -1;
  paths = nullptr;
  return calls;
}

/// For the CUDA driver of the tests, in each of its calls: the error that it returns, 0: none.
int tuttiFaultDriver() {
  constexpr int kErrorUnknown = 999;
  return fails(FaultKind::Driver, errno) ? kErrorUnknown : 0;
}

void* malloc(size_t bytes) { return fails(FaultKind::Allocation, ENOMEM, bytes) ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) {
  return fails(FaultKind::Allocation, ENOMEM, n * bytes) ? nullptr : __libc_calloc(n, bytes);
}
void* realloc(void* old, size_t bytes) {
  return fails(FaultKind::Allocation, ENOMEM, bytes) ? nullptr : __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails(FaultKind::Allocation, ENOMEM, bytes) ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  if (fails(FaultKind::Allocation, ENOMEM, bytes)) return ENOMEM;
  *out = __libc_memalign(alignment, bytes);
  return *out != nullptr ? 0 : ENOMEM;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if (fails(FaultKind::Map, ENOMEM)) return MAP_FAILED;
  REAL(mmap)(address, bytes, protection, flags, fd, offset);
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int fd, off64_t offset) {
  return mmap(address, bytes, protection, flags, fd, offset);
}
int memfd_create(const char* name, unsigned flags) {
  if (fails(FaultKind::SharedMemory, EMFILE)) return -1;
  REAL(memfd_create)(name, flags);
}
int ftruncate(int fd, off_t bytes) {
  if (fails(FaultKind::SharedMemory, ENOSPC)) return -1;
  REAL(ftruncate)(fd, bytes);
}
int ftruncate64(int fd, off_t bytes) { return ftruncate(fd, bytes); }
int madvise(void* address, size_t bytes, int advice) {
  if (fails(FaultKind::SharedMemory, ENOMEM)) return -1;
  REAL(madvise)(address, bytes, advice);
}
int socket(int domain, int type, int protocol) {
  if (fails(FaultKind::Socket, EMFILE)) return -1;
  REAL(socket)(domain, type, protocol);
}
int accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  if (fails(FaultKind::Socket, EMFILE)) return -1;
  REAL(accept4)(fd, address, bytes, flags);
}
int bind(int fd, const sockaddr* address, socklen_t bytes) {
  if (fails(FaultKind::Socket, EADDRINUSE)) return -1;
  REAL(bind)(fd, address, bytes);
}
int listen(int fd, int backlog) {
  if (fails(FaultKind::Socket, EADDRINUSE)) return -1;
  REAL(listen)(fd, backlog);
}
int connect(int fd, const sockaddr* address, socklen_t bytes) {
  if (fails(FaultKind::Socket, ECONNREFUSED)) return -1;
  REAL(connect)(fd, address, bytes);
}
int setsockopt(int fd, int level, int name, const void* value, socklen_t bytes) {
  if (fails(FaultKind::Socket, ENOBUFS)) return -1;
  REAL(setsockopt)(fd, level, name, value, bytes);
}
int getsockname(int fd, sockaddr* address, socklen_t* bytes) {
  if (fails(FaultKind::Socket, ENOBUFS)) return -1;
  REAL(getsockname)(fd, address, bytes);
}
ssize_t send(int fd, const void* data, size_t bytes, int flags) {
  if (fails(FaultKind::Send, ECONNRESET)) return -1;
  REAL(send)(fd, data, bytes, flags);
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (fails(FaultKind::Send, ECONNRESET)) return -1;
  REAL(sendmsg)(fd, message, flags);
}
ssize_t recv(int fd, void* data, size_t bytes, int flags) {
  if (fails(FaultKind::Receive, ECONNRESET)) return -1;
  REAL(recv)(fd, data, bytes, flags);
}
ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (fails(FaultKind::Receive, ECONNRESET)) return -1;
  REAL(recvmsg)(fd, message, flags);
}
int open(const char* path, int flags, ...) {
  if (fails(FaultKind::Open, EMFILE)) return -1;
  if (std::strcmp(path, "/dev/urandom") == 0 && fails(FaultKind::Random, EMFILE)) return -1;
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  REAL(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const int mode = va_arg(more, int);
  va_end(more);
  return open(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  if (fails(FaultKind::Open, EMFILE)) return nullptr;
  REAL(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) { return fopen(path, mode); }
ssize_t getrandom(void* out, size_t bytes, unsigned flags) {
  if (fails(FaultKind::Random, EPERM)) return -1;
  REAL(getrandom)(out, bytes, flags);
}
int eventfd(unsigned value, int flags) {
  if (fails(FaultKind::Events, EMFILE)) return -1;
  REAL(eventfd)(value, flags);
}
int epoll_create1(int flags) {
  if (fails(FaultKind::Events, EMFILE)) return -1;
  REAL(epoll_create1)(flags);
}
int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) {
  if (operation == EPOLL_CTL_ADD && fails(FaultKind::Events, ENOSPC)) return -1;
  REAL(epoll_ctl)(epoll, operation, fd, event);
}
int fcntl(int fd, int command, ...) {
  if (command == F_DUPFD_CLOEXEC && fails(FaultKind::Events, EMFILE)) return -1;
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  REAL(fcntl)(fd, command, argument);
}
int fcntl64(int fd, int command, ...) {
  va_list more;
  va_start(more, command);
  void* const argument = va_arg(more, void*);
  va_end(more);
  return fcntl(fd, command, argument);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  if (fails(FaultKind::Thread, EAGAIN)) return EAGAIN;
  REAL(pthread_create)(thread, attributes, body, argument);
}

}  // extern "C"
#pragma GCC visibility pop
