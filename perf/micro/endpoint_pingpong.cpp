// One-way latency of shm endpoints: two processes (or, with -t, two threads), each pinned to a cpu of its own, both
// spinning.  Prints half a round trip, the best of several blocks, for sends through slots and for direct messages.
//
//   endpoint_pingpong [-t] [maxBytes]
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "src/base/clock.hpp"
#include "src/device/host/host_memory.hpp"
#include "tools/version.hpp"
#include "transport/shm/shm_transport.hpp"

using namespace tutti;

namespace {

// Both ranks' segments and allocations are served before the fork, so that a table of descriptors does.
class TableExchange final : public FdExchange {
 public:
  Status serve(const std::string& key, int fd) override {
    fds_[key] = fd;
    return {};
  }
  void unserve(const std::string&) override {}
  PendingFd fetch(int, const std::string& key) override {
    return pendingBy<Fd>([this, key]() -> Result<Fd> {
      if (!fds_.contains(key)) return internalError("nobody serves ", key);
      return Fd(fcntl(fds_[key], F_DUPFD_CLOEXEC, 0));
    });
  }

 private:
  std::map<std::string, int> fds_;
};

enum class Way { Send, OfferReceive, OfferPeek };
const char* const kWayNames[] = {"send/receive", "offer/receive", "offer/peek"};

[[noreturn]] void die(const Status& s) {
  std::fprintf(stderr, "endpoint_pingpong: %s\n", s.message().c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> r) {
  if (!r.ok()) die(r.status());
  return std::move(r).value();
}

inline void pauseCpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

struct Side {
  Endpoint* endpoint;
  std::byte* out;
  std::byte* in;
};

void sendOne(const Side& s, Way way, size_t bytes, const Fingerprint& call) {
  if (way == Way::Send) {
    while (!must(s.endpoint->send(s.out, bytes, call))) pauseCpu();
    return;
  }
  Request request = 0;
  while ((request = must(s.endpoint->postSend(s.out, bytes, call))) == 0) pauseCpu();
}

void receiveOne(const Side& s, Way way, size_t bytes, const Fingerprint& call) {
  const Expect expect{bytes, call};
  if (way != Way::OfferPeek) {
    while (!must(s.endpoint->receive(s.in, expect))) pauseCpu();
    return;
  }
  while (must(s.endpoint->peek(expect)) == nullptr) pauseCpu();
  s.endpoint->release();
}

// ns of one way, best block.
double measure(const Side& s, int rank, Way way, size_t bytes) {
  const Fingerprint call{1, bytes};
  const int rounds = static_cast<int>(std::clamp<size_t>(40'000'000 / (bytes * 4 + 4000), 20, 4000));
  double best = 1e18;
  for (int block = 0; block < 8; ++block) {
    const int64_t begin = nowNs();
    for (int i = 0; i < rounds; ++i) {
      if (rank == 0) sendOne(s, way, bytes, call);
      receiveOne(s, way, bytes, call);
      if (rank == 1) sendOne(s, way, bytes, call);
    }
    best = std::min(best, static_cast<double>(nowNs() - begin) / (2.0 * rounds));
  }
  return best;
}

void pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

struct Place {
  const char* name;
  std::byte* out;
  std::byte* in;
};

void run(int rank, Transport& mine, const Address& peer, size_t maxBytes, const std::vector<Place>& memories) {
  pin(rank);
  std::unique_ptr<Endpoint> endpoint = must(awaitEndpoint(mine, 1 - rank, peer, 0, Deadline::inMs(5000)));
  for (const Place& m : memories) {
    for (const Way way : {Way::Send, Way::OfferReceive, Way::OfferPeek}) {
      if (way == Way::Send && &m != &memories.front()) continue;
      if (way != Way::Send) {
        // The peer says during its beginConnect() whether it can read us.
        for (int i = 0; i < 1000 && !endpoint->canOffer(m.out, 64); ++i) usleep(1000);
      }
      if (rank == 0)
        std::printf("\n%s, %s\n%10s %12s %10s\n", kWayNames[int(way)], m.name, "bytes", "one way ns", "GB/s");
      for (size_t bytes = way == Way::Send ? 0 : 1024; bytes <= std::min(maxBytes, endpoint->maxDirectBytes());
           bytes = bytes == 0 ? 8 : bytes * 2) {
        const double ns = measure({endpoint.get(), m.out, m.in}, rank, way, bytes);
        if (rank == 0) std::printf("%10zu %12.0f %10.2f\n", bytes, ns, static_cast<double>(bytes) / ns);
      }
    }
  }
  std::fflush(stdout);
}

std::byte* touched(size_t bytes) {
  auto* p = static_cast<std::byte*>(std::aligned_alloc(4096, bytes));
  std::memset(p, 1, bytes);
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  const bool threads = argc > 1 && std::strcmp(argv[1], "-t") == 0;
  const size_t maxBytes = argc > (threads ? 2 : 1) ? std::strtoull(argv[threads ? 2 : 1], nullptr, 0) : 1 << 20;
  static TableExchange exchange;
  std::unique_ptr<Transport> transports[2];
  std::vector<Place> memories[2];
  for (int rank = 0; rank < 2; ++rank) {
    PeerInfo self;
    self.rank = rank;
    self.processId = threads ? 7 : static_cast<uint64_t>(rank) + 1;
    transports[rank] = must(createShmTransport(must(ShmConfig::fromEnvironment(self, 2)), exchange));
    memories[rank].push_back({"malloc", touched(maxBytes), touched(maxBytes)});
    auto* out = static_cast<std::byte*>(must(hostAlloc(maxBytes)));
    auto* in = static_cast<std::byte*>(must(hostAlloc(maxBytes)));
    const AllocationId id = hostLookup(out, 1)->id;
    static std::vector<Fd> keep;
    keep.push_back(must(hostShare(id)));
    (void)exchange.serve(cat("mem:", toHex(&id, sizeof id)), keep.back().get());
    if (!threads) memories[rank].push_back({"tuttiMemAlloc", out, in});
  }
  std::printf("# %s\n", threads ? "threads" : "processes");
  std::fflush(stdout);
  if (threads) {
    std::thread other([&] { run(1, *transports[1], transports[0]->address(), maxBytes, memories[1]); });
    run(0, *transports[0], transports[1]->address(), maxBytes, memories[0]);
    other.join();
    return 0;
  }
  // The child's address must carry the child's pid: it is made after the fork and comes back through a pipe.
  int pipes[2];
  if (pipe(pipes) != 0) return 1;
  const Address parent = transports[0]->address();
  const pid_t child = fork();
  if (child == 0) {
    const Address mine = transports[1]->address();
    if (write(pipes[1], mine.data(), mine.size()) < 0) _exit(1);
    run(1, *transports[1], parent, maxBytes, memories[1]);
    _exit(0);
  }
  Address theirs(parent.size(), '\0');
  if (read(pipes[0], theirs.data(), theirs.size()) < 0) return 1;
  run(0, *transports[0], theirs, maxBytes, memories[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}
