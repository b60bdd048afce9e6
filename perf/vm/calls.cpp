// Times single calls on two ranks, by Tutti or (with WITH_MPI) by an MPI: the least and the median of each, which a
// machine that is busy with other things disturbs least.
//
//   calls [registered] BYTES...     registered: buffers of tuttiMemAlloc
//
// Lines of rank 0: "op bytes least median", microseconds.  A ping-pong's is half of there and back; "stream" is one of
// a batch of messages in one direction, which the receiver answers at the end.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#ifdef WITH_MPI
#include <mpi.h>
#else
#include "tutti/tutti.h"
#endif

namespace {

constexpr int kBatch = 8;  // messages of a stream
/// The median of fewer says more of the machine than of the library.
constexpr size_t kLeastCalls = 30;
/// Calls send these in turn: a receiver that looks at its memory is not to find what the last message left there.
constexpr int kContents = 3;

[[noreturn]] void die(const std::string& why) {
  std::fprintf(stderr, "calls: %s\n", why.c_str());
  std::exit(1);
}

#ifdef WITH_MPI
void must(int result) {
  if (result != MPI_SUCCESS) die("an MPI call failed");
}

struct Library {
  int rank = 0;
  Library() {
    must(MPI_Init(nullptr, nullptr));
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  }
  ~Library() { MPI_Finalize(); }
  float* memory(size_t bytes, bool) {
    return static_cast<float*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
  }
  void send(const float* data, int n) { must(MPI_Send(data, n, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD)); }
  void receive(float* data, int n) {
    must(MPI_Recv(data, n, MPI_FLOAT, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  }
  void allReduce(const float* a, float* b, int n) { must(MPI_Allreduce(a, b, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD)); }
  void allGather(const float* a, float* b, int n) {
    must(MPI_Allgather(a, n / 2, MPI_FLOAT, b, n / 2, MPI_FLOAT, MPI_COMM_WORLD));
  }
  void reduceScatter(const float* a, float* b, int n) {
    must(MPI_Reduce_scatter_block(a, b, n / 2, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD));
  }
  void allToAll(const float* a, float* b, int n) {
    must(MPI_Alltoall(a, n / 2, MPI_FLOAT, b, n / 2, MPI_FLOAT, MPI_COMM_WORLD));
  }
};
#else
void must(tuttiResult_t result) {
  if (result != tuttiSuccess) die(tuttiGetLastError(nullptr));
}

struct Library {
  tuttiComm_t comm = nullptr;
  int rank = 0;
  Library() {
    must(tuttiCommInitEnv(&comm, nullptr));
    must(tuttiCommUserRank(comm, &rank));
  }
  ~Library() { tuttiCommDestroy(comm); }
  float* memory(size_t bytes, bool registered) {
    if (!registered) return static_cast<float*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096));
    void* memory = nullptr;
    must(tuttiMemAlloc(&memory, bytes));
    return static_cast<float*>(memory);
  }
  void send(const float* data, int n) { must(tuttiSend(data, count(n), tuttiFloat32, 1 - rank, comm, nullptr)); }
  void receive(float* data, int n) { must(tuttiRecv(data, count(n), tuttiFloat32, 1 - rank, comm, nullptr)); }
  void allReduce(const float* a, float* b, int n) {
    must(tuttiAllReduce(a, b, count(n), tuttiFloat32, tuttiSum, comm, nullptr));
  }
  void allGather(const float* a, float* b, int n) {
    must(tuttiAllGather(a, b, count(n / 2), tuttiFloat32, comm, nullptr));
  }
  void reduceScatter(const float* a, float* b, int n) {
    must(tuttiReduceScatter(a, b, count(n / 2), tuttiFloat32, tuttiSum, comm, nullptr));
  }
  void allToAll(const float* a, float* b, int n) {
    must(tuttiAllToAll(a, b, count(n / 2), tuttiFloat32, comm, nullptr));
  }
  static size_t count(int n) { return static_cast<size_t>(n); }
};
#endif

struct Buffers {
  float *out, *in;
};

void pingPong(Library& library, const Buffers& b, int n) {
  if (library.rank == 0) library.send(b.out, n);
  library.receive(b.in, n);
  if (library.rank == 1) library.send(b.out, n);
}

void stream(Library& library, const Buffers& b, int n) {
  for (int i = 0; i < kBatch; ++i) library.rank == 0 ? library.send(b.out, n) : library.receive(b.in, n);
  library.rank == 0 ? library.receive(b.in, 1) : library.send(b.out, 1);
}

struct Op {
  const char* name;
  void (*call)(Library&, const Buffers&, int n);
  double parts;  // of one call, of which one is told
  size_t least = 8;
};

constexpr Op kOps[] = {
    {"pingpong", pingPong, 2},
    {"stream", stream, kBatch, 64 << 10},
    {"allreduce", [](Library& l, const Buffers& b, int n) { l.allReduce(b.out, b.in, n); }, 1},
    {"allgather", [](Library& l, const Buffers& b, int n) { l.allGather(b.out, b.in, n); }, 1},
    {"reducescatter", [](Library& l, const Buffers& b, int n) { l.reduceScatter(b.out, b.in, n); }, 1},
    {"alltoall", [](Library& l, const Buffers& b, int n) { l.allToAll(b.out, b.in, n); }, 1},
};

void measure(Library& library, const Op& op, float* const (&outs)[kContents], float* in, size_t bytes) {
  const auto calls = static_cast<int>(std::clamp<size_t>((64 << 20) / (bytes + 12'000), kLeastCalls, 2500));
  const int warm = std::max(2, calls / 10);
  std::vector<double> us;
  for (int i = 0; i < warm + calls; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    op.call(library, {outs[i % kContents], in}, static_cast<int>(bytes / sizeof(float)));
    const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
    if (i >= warm) us.push_back(spent.count() / op.parts);
  }
  std::sort(us.begin(), us.end());
  if (library.rank != 0) return;
  std::printf("%s %zu %.2f %.2f\n", op.name, bytes, us.front(), us[us.size() / 2]);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int first = 1;
  const bool registered = argc > 1 && std::strcmp(argv[1], "registered") == 0;
  if (registered) ++first;
  if (first == argc) die("no sizes: calls [registered] BYTES...");
  Library library;
  for (int i = first; i < argc; ++i) {
    const size_t bytes = std::strtoull(argv[i], nullptr, 10);
    if (bytes < 8 || bytes % 8 != 0) die(std::string(argv[i]) + " is no multiple of 8 bytes");
    float* outs[kContents];
    float* const in = library.memory(bytes, registered);
    std::memset(in, 0, bytes);
    for (int k = 0; k < kContents; ++k) std::memset(outs[k] = library.memory(bytes, registered), 0x40 + k, bytes);
    for (const Op& op : kOps) {
      if (bytes >= op.least) measure(library, op, outs, in, bytes);
    }
  }
  return 0;
}
