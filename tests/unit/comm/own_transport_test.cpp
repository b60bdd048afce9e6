// A transport joins by one line of a table: here one of the tests' own, which the library has never heard of.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <thread>

#include "src/calibrate/probes.hpp"
#include "src/comm/handle.hpp"
#include "src/control/session/unique_id.hpp"
#include "tests/support/collective_check.hpp"
#include "tests/support/mailbox.hpp"
#include "tests/support/temp_folder.hpp"
#include "tests/support/thread_sanitizer.hpp"
#include "tests/support/variable.hpp"
#include "transport/self/entry.hpp"
#include "transport/shm/entry.hpp"
#include "transport/tcp/entry.hpp"

namespace tutti {
namespace {

using test::Rank;
using test::Variable;

constexpr const TransportEntry* kTable[] = {
    &kSelfEntry,
    &kShmEntry,
    &test::kMailboxEntry,
    &kTcpEntry,
};

/// Mailboxes that rank 1 has none of.
class SomeMailboxes final : public Transport {
 public:
  explicit SomeMailboxes(const TransportContext& context)
      : rank_(context.self.rank), all_(std::move(*test::kMailboxEntry.create(context))) {}
  std::string_view name() const override { return all_->name(); }
  Result<LinkProfile> reach(const PeerInfo& self, const PeerInfo& peer) const override {
    if (rank_ == 1 && (self.rank == 1 || peer.rank == 1)) return invalidUsage("it has no mailbox");
    return all_->reach(self, peer);
  }
  Address address() const override { return rank_ == 1 ? Address() : all_->address(); }
  PendingEndpoint beginConnect(int peer, const Address& peerAddress, int lane) override {
    return all_->beginConnect(peer, peerAddress, lane);
  }
  Result<std::unique_ptr<MemoryRegistration>> registerMemory(const Memory& memory) override {
    return all_->registerMemory(memory);
  }

 private:
  const int rank_;
  const std::unique_ptr<Transport> all_;
};

constexpr LinkDescription kSomeLinks[] = {{test::kMailbox, [] { return test::kMailboxEntry.links[0].builtIn(); }}};
constexpr TransportEntry kSomeMailboxes = {
    .name = "mailbox",
    .links = kSomeLinks,
    .create = [](const TransportContext& context) -> Result<std::unique_ptr<Transport>> {
      return std::unique_ptr<Transport>(std::make_unique<SomeMailboxes>(context));
    },
};

constexpr const TransportEntry* kTableOfSome[] = {&kSelfEntry, &kSomeMailboxes, &kTcpEntry};

/// As of a program that has set `transports`.
CommSettings settings(const std::string& transports, TransportTable table = kTable) {
  CommSettings parent;
  parent.table = table;
  parent.transports = transports;
  const Result<CommSettings> resolved = resolveSettings(nullptr, &parent);
  REQUIRE(resolved.status().message() == "");
  return *resolved;
}

JoinFunction joinBy(const tuttiUniqueId& id, int rank, int nRanks, const CommSettings& settings) {
  return [=](AbortState* abortState) -> Result<std::unique_ptr<Comm>> {
    TUTTI_ASSIGN(std::shared_ptr<Session> session, Session::create());
    TUTTI_ASSIGN(const MeetingPlace place, decodeUniqueId(id));
    JoinRequest request;
    request.commId = place.commId;
    request.secret = place.secret;
    request.rank = rank;
    request.nRanks = nRanks;
    request.self = session->controlAddress();
    request.rendezvous = place.controlAddress;
    return Comm::join(session, std::move(request), settings, abortState);
  };
}

/// test::onRanks() on a communicator with these settings.
std::string onRanks(int nRanks, const CommSettings& settings, const test::RankBody& body) {
  return test::onThreads(nRanks, [&](int rank, const tuttiUniqueId& id) -> std::string {
    tuttiComm_t comm = nullptr;
    const Status joined = startJoin(newHandle(rank, nRanks, settings), joinBy(id, rank, nRanks, settings), &comm);
    if (!joined.ok()) return joined.message();
    std::string complaint = body({rank, nRanks, comm});
    if (complaint.empty()) return test::failed(tuttiCommDestroy(comm), "destroy");
    tuttiCommAbort(comm);
    return complaint;
  });
}

/// What joins this rank to all others; "" if there are none.
Result<std::string> linksOf(const Rank& r) {
  TUTTI_ASSIGN(const CommUse comm, use(r.comm));
  std::string keys;
  for (int peer = 0; peer < r.nRanks; ++peer) {
    const std::string key(comm->links().linkTo(peer).key);
    if (peer != r.rank && keys.find(key) == std::string::npos) keys += key;
  }
  return keys;
}

PeerInfo peer(int rank, uint64_t host, uint64_t process) {
  return {.rank = rank, .hostId = host, .processId = process, .pid = 1, .uid = 1};
}

}  // namespace

TEST_CASE("a communicator that has only a transport of its own does everything, on any number of ranks") {
  const Variable builtIn("TUTTI_CALIBRATION", "off");
  const CommSettings mailbox = settings("mailbox");
  for (const int nRanks : {1, 2, 3, 5, 8}) {
    CAPTURE(nRanks);
    CHECK(onRanks(nRanks, mailbox, [](const Rank& r) -> std::string {
            const Result<std::string> links = linksOf(r);
            RANK_CHECK(links.ok() && *links == (r.nRanks > 1 ? "mailbox" : ""));
            for (const size_t count : {1, 7, 5000, 100000}) {
              for (const bool inPlace : {false, true}) {
                test::CheckOptions o;
                o.count = count;
                o.inPlace = inPlace;
                o.root = r.nRanks - 1;
                if (std::string why = test::checkEverything(r, o); !why.empty()) return why;
              }
            }
            return "";
          }) == "");
  }
}

TEST_CASE("requests use memory that is registered, for as long as it is") {
  const Variable builtIn("TUTTI_CALIBRATION", "off");
  constexpr size_t kCount = 40'000;
  CHECK(onRanks(2, settings("mailbox"), [](const Rank& r) -> std::string {
          std::vector<float> plain(2 * kCount);
          const auto swap = [&](float* data) {
            RANK_TRY(tuttiGroupStart());
            RANK_TRY(tuttiSend(data, kCount, tuttiFloat, 1 - r.rank, r.comm, nullptr));
            RANK_TRY(tuttiRecv(data + kCount, kCount, tuttiFloat, 1 - r.rank, r.comm, nullptr));
            RANK_TRY(tuttiGroupEnd());
            RANK_CHECK(data[2 * kCount - 1] == static_cast<float>(1 - r.rank));
            return std::string();
          };
          // How many messages of both ranks were put into the receiver's memory by `call`.
          const auto putsOf = [&](uint64_t* count, auto call) -> std::string {
            RANK_TRY(tuttiBarrier(r.comm, nullptr));
            const uint64_t before = test::mailboxPuts();
            RANK_TRY(tuttiBarrier(r.comm, nullptr));
            if (std::string why = call(); !why.empty()) return why;
            RANK_TRY(tuttiBarrier(r.comm, nullptr));
            *count = test::mailboxPuts() - before;
            return "";
          };
          std::fill(plain.begin(), plain.end(), static_cast<float>(r.rank));
          uint64_t puts = 0;
          if (std::string why = putsOf(&puts, [&] { return swap(plain.data()); }); !why.empty()) return why;
          RANK_CHECK(puts == 0);
          void* handle = nullptr;
          RANK_TRY(tuttiCommRegister(r.comm, plain.data(), plain.size() * sizeof(float), &handle));
          if (std::string why = putsOf(&puts, [&] { return swap(plain.data()); }); !why.empty()) return why;
          RANK_CHECK(puts > 0);
          RANK_TRY(tuttiCommDeregister(r.comm, handle));
          if (std::string why = putsOf(&puts, [&] { return swap(plain.data()); }); !why.empty()) return why;
          RANK_CHECK(puts == 0);
          // Of tuttiMemAlloc without being asked, and no longer than it lives.
          void* memory = nullptr;
          RANK_TRY(tuttiMemAlloc(&memory, plain.size() * sizeof(float)));
          auto* const floats = static_cast<float*>(memory);
          std::fill_n(floats, plain.size(), static_cast<float>(r.rank));
          if (std::string why = putsOf(&puts, [&] { return swap(floats); }); !why.empty()) return why;
          RANK_CHECK(puts > 0);
          RANK_TRY(tuttiMemFree(memory));
          RANK_TRY(tuttiBarrier(r.comm, nullptr));
          const CommUse comm = *use(r.comm);
          Endpoint* const endpoint = *comm->executor().endpoint(1 - r.rank, kPointToPointLane);
          RANK_CHECK(!endpoint->takes(reinterpret_cast<const std::byte*>(floats), 8));
          return "";
        }) == "");
}

TEST_CASE("collectives on registered memory are the same") {
  const Variable builtIn("TUTTI_CALIBRATION", "off");
  for (const int nRanks : {2, 3, 5}) {
    CAPTURE(nRanks);
    CHECK(onRanks(nRanks, settings("mailbox"), [](const Rank& r) -> std::string {
            for (const size_t count : {1, 5000, 100000}) {
              for (const bool inPlace : {false, true}) {
                test::CheckOptions o{.count = count, .inPlace = inPlace, .memory = test::Memory::Allocated};
                if (std::string why = test::checkEverything(r, o); !why.empty()) return why;
              }
            }
            return "";
          }) == "");
  }
}

TEST_CASE("a rank that waits for a link to come up heeds its deadline and the abort, and names the peer") {
  const Variable builtIn("TUTTI_CALIBRATION", "off");
  CommSettings mailbox = settings("mailbox");
  for (const bool aborts : {false, true}) {
    CAPTURE(aborts);
    mailbox.timeoutMs = aborts ? 60'000 : 300;
    std::atomic<bool> over{false};
    CHECK(onRanks(3, mailbox, [&](const Rank& r) -> std::string {
            if (r.rank != 0) {  // never comes, so that a mailbox never opens
              while (!over) ::usleep(1000);
              return "ok";
            }
            std::thread aborter([&] {
              ::usleep(50'000);
              if (aborts) tuttiCommRevoke(r.comm, 0);
            });
            float data = 0;
            const int64_t start = nowNs();
            const tuttiResult_t result = tuttiSend(&data, 1, tuttiFloat, 2, r.comm, nullptr);
            const std::string why = tuttiGetLastError(r.comm);
            aborter.join();
            over = true;
            RANK_CHECK(result == (aborts ? tuttiRemoteError : tuttiTimeout));
            RANK_CHECK(nowNs() - start < 20'000 * kMs);
            return aborts || why.find("rank 2") != std::string::npos ? "ok" : why;
          }) == "rank 0: ok\nrank 1: ok\nrank 2: ok\n");
  }
}

TEST_CASE("links of a group's communicators come up side by side, in whatever order ranks name them") {
  const Variable builtIn("TUTTI_CALIBRATION", "off");
  constexpr int kComms = 6;
  CHECK(onRanks(3, settings("mailbox"), [](const Rank& r) -> std::string {
          std::vector<tuttiComm_t> comms(kComms);
          for (tuttiComm_t& comm : comms) RANK_TRY(tuttiCommSplit(r.comm, 0, r.rank, &comm, nullptr));
          const std::vector<float> mine(1000, 1);
          std::vector<std::vector<float>> sums(kComms, std::vector<float>(1000));
          RANK_TRY(tuttiGroupStart());
          for (size_t i = 0; i < kComms; ++i) {
            const size_t at = (r.rank == 1 ? kComms - 1 - i : i + static_cast<size_t>(r.rank)) % kComms;
            RANK_TRY(tuttiAllReduce(mine.data(), sums[at].data(), 1000, tuttiFloat, tuttiSum, comms[at], nullptr));
          }
          RANK_TRY(tuttiGroupEnd());
          for (const std::vector<float>& sum : sums) RANK_CHECK(sum == std::vector<float>(1000, 3));
          for (const tuttiComm_t comm : comms) RANK_TRY(tuttiCommDestroy(comm));
          return "";
        }) == "");
}

TEST_CASE("a rank without an address of a transport is joined by the next one, as all ranks know") {
  const Variable builtIn("TUTTI_CALIBRATION", "off");
  CHECK(onRanks(3, settings("", kTableOfSome), [](const Rank& r) -> std::string {
          const Result<CommUse> comm = use(r.comm);
          RANK_CHECK(comm.ok());
          for (int a = 0; a < r.nRanks; ++a) {
            for (int b = 0; b < r.nRanks; ++b) {
              if (a == b) continue;
              const std::optional<LinkProfile> link = (*comm)->links().linkBetween(a, b);
              RANK_CHECK(link && link->key == (a == 1 || b == 1 ? "tcp-local" : "mailbox"));
            }
          }
          return test::checkEverything(r, {.count = 1000});
        }) == "");
  const std::string alone = onRanks(2, settings("mailbox", kTableOfSome), [](const Rank&) { return ""; });
  CAPTURE(alone);
  CHECK(alone.find("rank 1 has no device for it") != std::string::npos);
  CHECK(alone.find("mailbox: it has no mailbox") != std::string::npos);
}

TEST_CASE("children of a communicator have its transports") {
  const Variable builtIn("TUTTI_CALIBRATION", "off");
  CHECK(onRanks(4, settings("^shm,tcp"), [](const Rank& r) -> std::string {
          tuttiComm_t child = nullptr;
          RANK_TRY(tuttiCommSplit(r.comm, r.rank % 2, r.rank, &child, nullptr));
          const Rank half{r.rank / 2, 2, child};
          const Result<std::string> links = linksOf(half);
          RANK_CHECK(links.ok() && *links == "mailbox");
          std::string why = test::checkEverything(half, {.count = 1000});
          RANK_TRY(tuttiCommDestroy(child));
          return why;
        }) == "");
}

TEST_CASE("the order of the table says which transport joins two ranks") {
  const Variable builtIn("TUTTI_CALIBRATION", "off");
  struct Row {
    const char *transports, *key;
  };
  for (const Row& row : {Row{"", "shm-threads"}, Row{"^shm", "mailbox"}, Row{"tcp", "tcp-local"}}) {
    CAPTURE(row.transports);
    CHECK(onRanks(2, settings(row.transports), [&](const Rank& r) -> std::string {
            const Result<std::string> links = linksOf(r);
            RANK_CHECK(links.ok() && *links == row.key);
            return test::checkAllReduce(r, {.count = 1000});
          }) == "");
  }
}

TEST_CASE("links of a transport of its own are planned with, measured and kept") {
  const test::TempFolder folder;
  const std::string path = folder.path() + "/figures";
  const Variable kept("TUTTI_CALIBRATION", path.c_str());
  const auto figuresOf = [&](const char* transports) {
    CHECK(onRanks(2, settings(transports), [](const Rank& r) -> std::string {
            tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
            RANK_TRY(tuttiCommEstimate(r.comm, tuttiCallAllReduce, 1 << 20, tuttiFloat, tuttiSum, 0, &e));
            RANK_CHECK(e.timeUs > 0);
            return "";
          }) == "");
    std::ifstream file(path);
    const auto figures = parseCalibration(std::string(std::istreambuf_iterator<char>(file), {}));
    REQUIRE(figures.status().message() == "");
    return *figures;
  };
  const Calibration one = figuresOf("mailbox"), all = figuresOf("shm,mailbox,tcp");
  for (const LinkDescription& kind : linkKinds(kTable)) {
    CAPTURE(kind.profile.key);
    CHECK(one.at(kind.profile, Protocol::Slots).available == (kind.profile.key == test::kMailbox.key));
    CHECK(all.at(kind.profile, Protocol::Slots).available);  // those that the file lacked were added
  }
  const TransportEntry* const own[] = {&kSelfEntry, &test::kMailboxEntry};
  const auto measure = [&own] {
    return measureCalibration(thisMachine(), linkKinds(own), machineProbes(own), 600'000, /*tooBusy=*/1);
  };
  // However busy this machine is: a probe that takes too long says nothing.
  Calibration measured = measure();
  const auto missed = [&] { return measured.at(test::kMailbox, Protocol::Slots).aloneUs[0] <= 0; };
  for (int again = 0; again < 20 && missed(); ++again) measured = measure();
  REQUIRE(measured.links.size() == 1);
  const LinkCost& slots = measured.at(test::kMailbox, Protocol::Slots);
  CHECK(!(slots == test::kMailboxEntry.links[0].builtIn()[Protocol::Slots]));
  // Both ends are bound to cores that others may have; under the thread sanitizer a probe takes too long.
  CHECK((slots.aloneUs[0] > 0 || measured.disturbed > 0.5 || test::kThreadSanitizer));
  CHECK(!measured.at(test::kMailbox, Protocol::Direct).available);
}

TEST_CASE("settings know the transports of their table, and say which there are") {
  CommSettings parent;
  parent.table = kTable;
  parent.transports = "mailbox,pigeon";
  CHECK(resolveSettings(nullptr, &parent).status().message().find("'pigeon'; known are self, shm, mailbox, tcp") !=
        std::string::npos);
  CHECK(checkTransportList("mailbox", transports()).code() == tuttiInvalidUsage);
  CHECK(checkTransportList("^verbs,mailbox", kTable).ok());
  CHECK(checkTransportList("verbs", kTable).code() == tuttiInvalidUsage);
  parent.transports = "";
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.netName = "tcp";
  CHECK(resolveSettings(&config, &parent).ok());
  config.netName = "mailbox";
  CHECK(resolveSettings(&config, &parent).status().message() ==
        "config.netName = 'mailbox' is not a network transport of this build; there are: tcp");
}

TEST_CASE("ranks that nothing joins are told why of each transport") {
  struct NoExchange : FdExchange, StreamExchange {
    Status serve(const std::string&, int) override { return {}; }
    void unserve(const std::string&) override {}
    PendingFd fetch(int, const std::string&) override { return nothing(); }
    PendingFd open(int, StreamIndex) override { return nothing(); }
    static PendingFd nothing() {
      return pendingBy<Fd>([]() -> Result<Fd> { return internalError("nothing is there"); });
    }
  } exchange;
  const TransportContext context{
      .self = peer(0, 1, 1), .nRanks = 2, .sliceBytes = 4096, .descriptors = exchange, .streams = exchange};
  std::vector<std::unique_ptr<Transport>> three;
  for (const TransportEntry* entry : {&kSelfEntry, &kShmEntry, &test::kMailboxEntry}) {
    auto made = entry->create(context);
    REQUIRE(made.status().message() == "");
    three.push_back(std::move(*made));
  }
  Links links(0, std::move(three));
  std::vector<PeerDescriptor> descriptors(2);
  descriptors[0].info = peer(0, 1, 1);
  descriptors[1].info = peer(1, 2, 2);
  descriptors[1].hostName = "far";
  const Status met = links.meet(descriptors);
  CHECK(met.code() == tuttiInvalidUsage);
  CHECK(met.message() ==
        "no transport that TUTTI_TRANSPORTS allows joins rank 0 and rank 1 (host far): self: it joins a rank with "
        "itself alone; shm: they are on different hosts; mailbox: they are in different processes; add one that does, "
        "or leave TUTTI_TRANSPORTS unset");
}

}  // namespace tutti
