// A program that knows nothing of Tutti, with libtutti_malloc.so preloaded: what malloc and its kin promise.
//   programs CASE   exit status 0 if it holds
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kLarge = size_t{1} << 20;
constexpr size_t kLeast = size_t{32} << 10;  // TUTTI_MALLOC_LEAST's default

// What a program allocates before main().
struct Early {
  void* memory = std::malloc(kLarge);
};
const Early early;

[[noreturn]] void fail(int line, const char* what) {
  std::fprintf(stderr, "programs.cpp:%d: %s\n", line, what);
  _exit(1);
}
#define MUST(condition) \
  if (!(condition)) fail(__LINE__, #condition)

/// How the page at `at` is mapped: "rw-s ... /memfd:tutti (deleted)".
std::string mappingOf(const void* at) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    const auto address = reinterpret_cast<uintptr_t>(at);
    if (std::sscanf(line.c_str(), "%lx-%lx", &begin, &end) == 2 && begin <= address && address < end) return line;
  }
  return "";
}

bool isShared(const void* at) {
  const std::string mapping = mappingOf(at);
  return mapping.find("rw-s") != std::string::npos && mapping.find("memfd:tutti") != std::string::npos;
}

size_t sharedKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("RssShmem:", 0) == 0) return std::stoul(line.substr(9));
  return 0;
}

bool zeros(const unsigned char* data, size_t bytes) {
  return std::all_of(data, data + bytes, [](unsigned char c) { return c == 0; });
}

void* sized(size_t bytes, int value) {
  void* memory = std::malloc(bytes);
  MUST(memory != nullptr);
  return std::memset(memory, value, bytes);
}

bool holds(const void* memory, size_t bytes, int value) {
  const auto* data = static_cast<const unsigned char*>(memory);
  return std::all_of(data, data + bytes, [&](unsigned char c) { return c == value; });
}

void functions() {
  MUST(isShared(early.memory));
  void* small = sized(1000, 1);
  MUST(!isShared(small));
  std::free(nullptr);
  void* empty = std::malloc(0);
  MUST(empty != nullptr);
  std::free(empty);
  // Sizes around the threshold; what is freed is used again, and calloc zeroes it.
  for (const size_t bytes : {kLeast - 1, kLeast, kLeast + 1, size_t{5'000'001}}) {
    void* memory = sized(bytes, 7);
    MUST(isShared(memory) == (bytes >= kLeast));
    MUST(malloc_usable_size(memory) >= bytes);
    std::free(memory);
    void* zeroed = std::calloc(bytes, 1);
    MUST(zeros(static_cast<unsigned char*>(zeroed), bytes));
    std::free(zeroed);
  }
  volatile size_t many = SIZE_MAX / 2;
  errno = 0;
  MUST(std::calloc(many, 3) == nullptr && errno == ENOMEM);
  MUST(std::malloc(many) == nullptr);
  // Alignment.
  for (size_t alignment = sizeof(void*); alignment <= size_t{8} << 20; alignment *= 2) {
    for (const size_t bytes : {size_t{100}, size_t{70'000}, size_t{3'000'000}}) {
      void* memory = nullptr;
      MUST(posix_memalign(&memory, alignment, bytes) == 0);
      MUST(reinterpret_cast<uintptr_t>(memory) % alignment == 0);
      std::memset(memory, 3, bytes);
      std::free(memory);
      memory = std::aligned_alloc(alignment, bytes);
      MUST(reinterpret_cast<uintptr_t>(memory) % alignment == 0);
      std::free(memory);
      memory = memalign(alignment, bytes);
      MUST(reinterpret_cast<uintptr_t>(memory) % alignment == 0);
      std::free(memory);
    }
  }
  void* memory = small;
  MUST(posix_memalign(&memory, 24, 100) == EINVAL && memory == small);
  memory = pvalloc(100'000);
  MUST(malloc_usable_size(memory) >= 102'400);
  std::free(memory);
  std::free(small);
}

void reallocations() {
  // Through all sizes, up and down, beside neighbours that stand in the way.
  std::vector<void*> others;
  auto* data = static_cast<unsigned char*>(std::realloc(nullptr, 10));
  size_t has = 10;
  std::memset(data, 5, has);
  std::mt19937 random(1);
  for (int i = 0; i < 400; ++i) {
    const size_t bytes = 1 + random() % (i % 3 == 0 ? 100'000 : 4'000'000);
    data = static_cast<unsigned char*>(std::realloc(data, bytes));
    MUST(data != nullptr);
    MUST(holds(data, std::min(has, bytes), 5));
    if (bytes > has) std::memset(data + has, 5, bytes - has);
    MUST(isShared(data) == (bytes >= kLeast) || bytes < kLeast);
    has = bytes;
    if (i % 4 == 0) others.push_back(std::malloc(1 + random() % 500'000));
    if (i % 7 == 0 && !others.empty()) {
      std::free(others.back());
      others.pop_back();
    }
  }
  for (void* other : others) std::free(other);
  errno = 11;
  std::free(data);
  MUST(errno == 11);
}

void givenBack() {  // TUTTI_MALLOC_KEEP=16M
  std::vector<void*> all;
  for (int i = 0; i < 100; ++i) all.push_back(sized(2 << 20, i));
  MUST(sharedKib() > 190 << 10);
  for (void* memory : all) std::free(memory);
  MUST(sharedKib() < 20 << 10);
  // Larger than an arena of usual size; its addresses and pages go at once.
  void* huge = std::malloc(size_t{3} << 30);
  MUST(isShared(huge));
  std::memset(static_cast<char*>(huge) + (size_t{2} << 30), 1, 1 << 20);
  std::free(huge);
  MUST(sharedKib() < 20 << 10);
  MUST(!isShared(huge));
  // Freed one way and the other, no arena is left behind in the end.
  for (int round = 0; round < 20; ++round) {
    all.clear();
    for (int i = 0; i < 300; ++i) all.push_back(std::malloc(size_t{8} << 20));
    for (size_t i = 0; i < all.size(); i += 2) std::free(all[i]);
    for (size_t i = 1; i < all.size(); i += 2) std::free(all[i]);
  }
}

struct Block {
  unsigned char* data;
  size_t bytes;
  int value;
};

/// Allocates and frees, and checks that nobody else writes there.
void churn(unsigned seed, int steps) {
  std::mt19937 random(seed);
  std::vector<Block> blocks;
  for (int i = 0; i < steps; ++i) {
    if (blocks.size() < 20 && random() % 2 == 0) {
      const size_t bytes = 1 + random() % 400'000;
      const int value = static_cast<int>(random() % 256);
      blocks.push_back({static_cast<unsigned char*>(sized(bytes, value)), bytes, value});
    } else if (!blocks.empty()) {
      const size_t which = random() % blocks.size();
      MUST(holds(blocks[which].data, blocks[which].bytes, blocks[which].value));
      std::free(blocks[which].data);
      blocks[which] = blocks.back();
      blocks.pop_back();
    }
  }
  for (const Block& block : blocks) std::free(block.data);
}

void threads() {
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 4; ++t) all.emplace_back(churn, t, 3000);
  for (auto& thread : all) thread.join();
  // Freed by another thread than took it.
  void* memory = nullptr;
  std::thread([&] { memory = sized(kLarge, 9); }).join();
  MUST(holds(memory, kLarge, 9));
  std::free(memory);
}

int statusOf(pid_t child) {
  int status = -1;
  MUST(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void forks() {
  auto* data = static_cast<unsigned char*>(sized(kLarge, 1));
  auto* freed = static_cast<unsigned char*>(sized(kLarge, 2));
  int toChild[2], toParent[2];
  char word = 0;
  MUST(pipe(toChild) == 0 && pipe(toParent) == 0);
  const pid_t child = fork();
  if (child == 0) {
    MUST(holds(data, kLarge, 1));
    data[0] = 50;
    MUST(write(toParent[1], &word, 1) == 1 && read(toChild[0], &word, 1) == 1);
    MUST(data[5000] == 1 && data[0] == 50);
    std::free(freed);
    void* own = sized(kLarge, 3);  // memory of the child's, not the parent's
    MUST(isShared(own));
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      MUST(holds(own, kLarge, 3) && data[0] == 50);
      churn(3, 300);
      _exit(0);
    }
    MUST(statusOf(grandchild) == 0);
    churn(4, 300);
    _exit(0);
  }
  MUST(read(toParent[0], &word, 1) == 1);
  MUST(data[0] == 1);
  data[5000] = 60;
  MUST(write(toChild[1], &word, 1) == 1);
  MUST(statusOf(child) == 0);
  MUST(holds(freed, kLarge, 2));
  MUST(data[0] == 1 && data[5000] == 60);
  MUST(!isShared(data));
  void* anew = sized(kLarge, 4);
  MUST(isShared(anew));
  // It grows and shrinks as before.
  data = static_cast<unsigned char*>(std::realloc(data, 3 * kLarge));
  MUST(data[1] == 1 && data[5000] == 60 && isShared(data));
  for (void* memory : {static_cast<void*>(data), static_cast<void*>(freed), anew}) std::free(memory);
  // A program that forks over and over does not run out of arenas.
  for (int i = 0; i < 1500; ++i) {
    void* memory = sized(kLarge / 8, i % 100);
    if (i % 10 == 0) {
      const pid_t one = fork();
      if (one == 0) _exit(holds(memory, kLarge / 8, i % 100) ? 0 : 1);
      MUST(statusOf(one) == 0);
    }
    std::free(memory);
  }
  void* last = sized(kLarge, 1);
  MUST(isShared(last));
}

/// Children are made while other threads allocate, and allocate themselves.
void forksBesideThreads() {
  std::atomic<bool> ending{false};
  std::vector<std::thread> all;
  for (unsigned t = 0; t < 3; ++t)
    all.emplace_back([&ending, t] {
      for (unsigned i = 0; !ending; ++i) churn(100 * t + i, 50);
    });
  for (int i = 0; i < 60; ++i) {
    void* memory = sized(kLarge, i);
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      if (!holds(memory, kLarge, i)) _exit(1);
      std::memset(memory, 0xff, kLarge);
      churn(7, 100);
      _exit(0);
    }
    MUST(statusOf(child) == 0);
    MUST(holds(memory, kLarge, i));
    std::free(memory);
  }
  ending = true;
  for (auto& thread : all) thread.join();
}

/// Handlers of fork() that allocate.
void forkHandlers() {
  static void* taken[3];
  const auto before = [] { taken[0] = sized(kLarge, 1); };
  const auto inParent = [] { taken[1] = sized(kLarge, 2); };
  const auto inChild = [] { taken[2] = sized(kLarge, 3); };
  MUST(pthread_atfork(before, inParent, inChild) == 0);
  const pid_t child = fork();
  if (child == 0) {
    MUST(holds(taken[0], kLarge, 1) && holds(taken[2], kLarge, 3));
    std::free(taken[0]);
    _exit(0);
  }
  MUST(statusOf(child) == 0);
  MUST(holds(taken[0], kLarge, 1) && holds(taken[1], kLarge, 2));
  for (void* memory : taken) std::free(memory);
}

void mistakes() {
  for (const size_t offset : {size_t{0}, size_t{4096}, size_t{8}}) {
    const pid_t child = fork();
    if (child == 0) {
      auto* memory = static_cast<char*>(std::malloc(kLarge));
      if (offset == 0) std::free(memory);  // twice
      std::free(memory + offset);
      _exit(0);
    }
    MUST(statusOf(child) == 128 + SIGABRT);
  }
}

void without() {  // as under `ulimit -v`, `ulimit -f` or without memfds: the C library gives it
  void* memory = sized(kLarge, 1);
  MUST(!isShared(memory));
  memory = std::realloc(memory, 2 * kLarge);
  MUST(holds(memory, kLarge, 1));
  std::free(memory);
}

struct Case {
  const char* name;
  void (*run)();
};
constexpr Case kCases[] = {{"functions", functions},
                           {"reallocations", reallocations},
                           {"given-back", givenBack},
                           {"threads", threads},
                           {"forks", forks},
                           {"forks-beside-threads", forksBesideThreads},
                           {"fork-handlers", forkHandlers},
                           {"mistakes", mistakes},
                           {"without", without}};

}  // namespace

int main(int argc, char** argv) {
  for (const Case& one : kCases) {
    if (argc != 2 || std::strcmp(argv[1], one.name) != 0) continue;
    one.run();
    return 0;
  }
  std::fprintf(stderr, "usage: programs CASE\n");
  return 2;
}
