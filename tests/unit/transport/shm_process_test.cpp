// Ranks as processes: what fork() and kill -9 do to them.
#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "src/device/host/host_memory.hpp"
#include "tests/support/fork.hpp"
#include "tests/unit/transport/shm_pair.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

std::set<std::string> namesIn(const char* folder) {
  std::set<std::string> names;
  DIR* dir = opendir(folder);
  if (dir == nullptr) return names;
  while (const dirent* entry = readdir(dir)) names.insert(entry->d_name);
  closedir(dir);
  return names;
}

// Two transports made in this process, of which the child will use rank 1.
struct Family {
  LocalExchange exchange;
  std::unique_ptr<Transport> transport[2];
  bool cma;

  explicit Family(bool allowCma) : cma(allowCma) {
    for (int rank = 0; rank < 2; ++rank) {
      ShmConfig config;
      config.self.rank = rank;
      config.self.processId = static_cast<uint64_t>(rank) + 1;
      config.nRanks = 2;
      config.slotBytes = 8192;
      config.cma = cma;
      config.keepFromChildren = false;  // the child is a rank
      transport[rank] = std::move(*createShmTransport(config, exchange));
    }
  }
  std::unique_ptr<Endpoint> connect(int rank, const Address& peer) {
    return std::move(*awaitEndpoint(*transport[rank], 1 - rank, peer, 0, Deadline::inMs(1000)));
  }
};

// The child's part: gives its address (with its own pid) to `toParent`, then runs.  Returns its pid.
template <class Body>
pid_t forkRank1(Family& family, Address* theirs, Body body) {
  int pipes[2];
  REQUIRE(pipe(pipes) == 0);
  const Address parent = family.transport[0]->address();
  const pid_t child = forkWhenIdle();
  if (child == 0) {
    const Address mine = family.transport[1]->address();
    if (write(pipes[1], mine.data(), mine.size()) < 0) _exit(2);
    auto endpoint = family.connect(1, parent);
    _exit(body(*endpoint));
  }
  theirs->resize(parent.size());
  REQUIRE(read(pipes[0], theirs->data(), theirs->size()) == static_cast<ssize_t>(theirs->size()));
  close(pipes[0]);
  close(pipes[1]);
  return child;
}

template <class Done>
bool eventually(Done done) {
  for (int i = 0; i < 20'000; ++i) {
    if (done()) return true;
    usleep(i < 100 ? 0 : 200);
  }
  return false;
}

// Receives `n` messages of growing size and sends each back; 0 if all was well.
int echo(Endpoint& c, int n, size_t step) {
  for (int i = 0; i < n; ++i) {
    const size_t bytes = static_cast<size_t>(i) * step;
    std::vector<std::byte> data(bytes);
    std::string wrong;
    const Expect expect{bytes, callNumber(static_cast<uint64_t>(i))};
    const bool came = eventually([&] {
      auto got = c.receive(data.data(), expect);
      if (!got.ok()) std::fprintf(stderr, "echo: %s\n", got.status().message().c_str());
      return !got.ok() || *got;
    });
    if (!came || data != pattern(bytes, static_cast<uint64_t>(i))) return 3;
    if (!eventually([&] { return *c.send(data.data(), bytes, expect.call); })) return 4;
  }
  return 0;
}

}  // namespace

TEST_CASE("a process exchanges sent, mapped and pulled messages with its child") {
  struct Row {
    const char* way;
    bool offer, allocated, cma;
  };
  const auto row = GENERATE(
      values<Row>({{"sent", false, false, false}, {"mapped", true, true, false}, {"pulled", true, false, true}}));
  CAPTURE(row.way);
  constexpr int kMessages = 40;
  constexpr size_t kStep = 531;
  Family family(row.cma);
  void* allocated = *hostAlloc(kMessages * kStep);
  std::vector<std::byte> plain(kMessages * kStep);
  std::byte* out = row.allocated ? static_cast<std::byte*>(allocated) : plain.data();
  // The child's exchange is a copy of ours at the fork, so that everything must be served before.
  const AllocationId id = hostLookup(allocated, 1)->id;
  const Fd shared = *hostShare(id);
  REQUIRE(family.exchange.serve(cat("mem:", toHex(&id, sizeof id)), shared.get()).ok());
  Address theirs;
  const pid_t child = forkRank1(family, &theirs, [](Endpoint& c) { return echo(c, kMessages, kStep); });
  auto endpoint = family.connect(0, theirs);
  if (row.offer) REQUIRE(eventually([&] { return endpoint->canOffer(out, 1); }));
  for (int i = 0; i < kMessages; ++i) {
    const size_t bytes = static_cast<size_t>(i) * kStep;
    const auto n = static_cast<uint64_t>(i);
    const auto data = pattern(bytes, n);
    if (bytes != 0) std::memcpy(out, data.data(), bytes);
    Request request = 0;
    REQUIRE(eventually([&] {
      if (!row.offer) return *endpoint->send(out, bytes, callNumber(n));
      return (request = *endpoint->postSend(out, bytes, callNumber(n))) != 0;
    }));
    std::vector<std::byte> back(bytes);
    REQUIRE(eventually([&] { return *endpoint->receive(back.data(), {bytes, callNumber(n)}); }));
    CHECK(back == data);
    CHECK(*endpoint->test(request));
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(hostFree(allocated).ok());
}

TEST_CASE("a child sleeping in the kernel is woken from another process") {
  Family family(false);
  Address theirs;
  const pid_t child = forkRank1(family, &theirs, [&](Endpoint& c) {
    Sleeper& sleeper = *family.transport[1]->sleeper();
    for (int i = 0; i < 50; ++i) {
      sleeper.prepare();
      if (*c.receive(nullptr, {0, callNumber(1)})) {
        sleeper.cancel();
        return 0;
      }
      sleeper.sleep(1'000'000);
    }
    return 5;
  });
  auto endpoint = family.connect(0, theirs);
  usleep(20'000);
  REQUIRE(*endpoint->send(nullptr, 0, callNumber(1)));
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(status == 0);
}

TEST_CASE("nothing is left when a rank is killed, and nothing when all are gone") {
  const auto filesBefore = namesIn("/dev/shm");
  const auto fdsBefore = namesIn("/proc/self/fd");
  {
    Family family(true);
    Address theirs;
    const pid_t child = forkRank1(family, &theirs, [](Endpoint& c) {
      (void)*hostAlloc(100'000);
      while (true) (void)c.peek({8, callNumber(1)});
      return 0;
    });
    auto endpoint = family.connect(0, theirs);
    std::vector<std::byte> memory(1000);
    CHECK(*endpoint->send(memory.data(), 8, callNumber(1)));
    CHECK(kill(child, SIGKILL) == 0);
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(namesIn("/dev/shm") == filesBefore);
    CHECK(*endpoint->send(memory.data(), 8, callNumber(1)));
    endpoint->cancel();
  }
  CHECK(namesIn("/dev/shm") == filesBefore);
  CHECK(namesIn("/proc/self/fd") == fdsBefore);
}
