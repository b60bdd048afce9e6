// Segments, their layout and memory, connecting, and what a peer gone wild may have written.
#include <sys/mman.h>

#include "src/device/host/host_memory.hpp"
#include "src/device/host/shared_memory.hpp"
#include "tests/support/resident_bytes.hpp"
#include "tests/unit/transport/shm_pair.hpp"
#include "transport/shm/segment.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

/// A test's own handle on the segment of rank 1, where rank 0's messages land.
std::shared_ptr<shm::Segment> segmentOfReceiver(const ShmPair& p, size_t slotBytes) {
  shm::SegmentId id;
  std::memcpy(&id, p.transport[1]->address().data() + sizeof(uint64_t), sizeof id);
  const auto cannotFetch = []() -> Result<Fd> { return internalError("no such segment"); };
  return *shm::Segment::open(id, 1, *shm::Layout::fit(2, 3, 4, slotBytes), cannotFetch);
}

}  // namespace

TEST_CASE("a segment that is not as it should be is refused") {
  using namespace tutti::shm;
  const Layout layout = *Layout::fit(2, 3, 4, 1000);
  const auto made = *Segment::create(1, layout);
  const auto openCopy = [&](auto change) {
    // Another file with the same first page: the table of this process does not know its id.
    Fd fd = *createSharedMemory(layout.totalBytes());
    Mapping mapping = *Mapping::of(fd.get(), layout.totalBytes());
    std::memcpy(mapping.data(), &made->header(), sizeof(SegmentHeader));
    auto* header = reinterpret_cast<SegmentHeader*>(mapping.data());
    header->id.low ^= 1;
    const SegmentId id = header->id;
    change(*header);
    return Segment::open(id, 1, layout, [&]() -> Result<Fd> { return std::move(fd); }).status();
  };
  CHECK(openCopy([](SegmentHeader&) {}).message() == "");
  CHECK(openCopy([](SegmentHeader& h) { h.magic++; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.version++; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.rank = 0; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.layout.slots = 5; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.layout.slotBytes = 1 << 30; }).code() == tuttiRemoteError);
  CHECK(openCopy([](SegmentHeader& h) { h.id.high++; }).code() == tuttiRemoteError);

  const auto openFd = [&](Fd fd) {
    return Segment::open({1, 2}, 1, layout, [&]() -> Result<Fd> { return std::move(fd); }).status();
  };
  CHECK(openFd(*createSharedMemory(4096)).message().find("TUTTI_SLOT") != std::string::npos);
  Fd unsealed(memfd_create("test", MFD_CLOEXEC));
  CHECK(openFd(std::move(unsealed)).code() == tuttiRemoteError);
}

TEST_CASE("a message carries the credits of the other direction, and nonsense in their place gives no room") {
  using namespace tutti::shm;
  ShmPair p(Ends::Threads, 2);
  const std::byte data[8] = {};
  CHECK(passOne(p.a(), p.b(), data, 8, 1, false) == "");
  CHECK(passOne(p.a(), p.b(), data, 8, 2, true) == "");
  CHECK(passOne(p.b(), p.a(), data, 8, 1, false) == "");
  SegmentId id;
  std::memcpy(&id, p.transport[0]->address().data() + sizeof(uint64_t), sizeof id);
  const auto cannotFetch = []() -> Result<Fd> { return internalError("no such segment"); };
  const auto segment = *Segment::open(id, 0, *Layout::fit(2, 3, 2, 1000), cannotFetch);
  CHECK(segment->inbox(1, 0).line(0).sequence == (uint64_t{2} << 32 | 1));

  // The second message back says that far more was consumed than a has sent.
  CHECK(*p.b().send(data, 8, callNumber(2)));
  segment->inbox(1, 0).line(1).sequence = uint64_t{1000} << 32 | 2;
  std::byte got[8];
  CHECK(*p.a().receive(got, {8, callNumber(2)}));
  uint32_t underWay = 0;
  while (underWay < 2 * kLines && *p.a().send(data, 8, callNumber(3))) ++underWay;
  CHECK((underWay > 0 && underWay <= kLines));
}

TEST_CASE("a message that the receiver has waited for is filled in steps, another is written whole before") {
  using namespace tutti::shm;
  ShmPair p(Ends::Threads, 4, 65536);
  const auto segment = segmentOfReceiver(p, 65536);
  const auto data = pattern(65536, 5);
  std::vector<std::byte> got(data.size());
  uint64_t n = 0;
  for (const size_t bytes : {size_t{8192}, kLeastStreamBytes, size_t{50'001}, size_t{65536}}) {
    for (const bool waits : {false, true, false}) {
      const Expect expect{bytes, callNumber(n)};
      for (int look = 0; look < (waits ? 20 : 2); ++look) REQUIRE(!*p.b().receive(got.data(), expect));
      CHECK(*p.a().send(data.data(), bytes, callNumber(n)));
      const uint64_t word = segment->inbox(0, 0).line(static_cast<uint32_t>(n)).kindAndBytes;
      CHECK(static_cast<Kind>(word >> kBytesBits) ==
            (waits && bytes >= kLeastStreamBytes ? Kind::Stream : Kind::Small));
      REQUIRE(*p.b().receive(got.data(), expect));
      CHECK(std::memcmp(got.data(), data.data(), bytes) == 0);
      ++n;
    }
  }
}

TEST_CASE("of a message that is being written can be read what is there") {
  using namespace tutti::shm;
  ShmPair p(Ends::Threads, 4, 65536);
  const auto segment = segmentOfReceiver(p, 65536);
  const Inbox inbox = segment->inbox(0, 0);
  const auto data = pattern(50'001, 5);
  const DirectPayload place{0, 0, 2};
  const Expect expect{data.size(), callNumber(1)};
  CHECK(p.b().peekPart(expect)->data() == nullptr);
  ControlLine& line = inbox.line(0);
  line.kindAndBytes = (static_cast<uint64_t>(Kind::Stream) << kBytesBits) | data.size();
  line.callHead = callNumber(1).head;
  line.callCount = callNumber(1).count;
  std::memcpy(line.payload, &place, sizeof place);
  line.sequence = 1;
  CHECK(*p.b().peek(expect) == nullptr);
  size_t written = 0;
  for (const size_t filled : {size_t{0}, size_t{1}, size_t{16384}, size_t{16384}, data.size()}) {
    std::memcpy(inbox.data(2) + written, data.data() + written, filled - written);
    inbox.head().filled = written = filled;
    const std::span<const std::byte> part = *p.b().peekPart(expect);
    CHECK(part.data() == inbox.data(2));
    REQUIRE(part.size() == filled);
    CHECK(std::memcmp(part.data(), data.data(), filled) == 0);
  }
  CHECK(inbox.head().consumed == 0);
  p.b().release();
  CHECK(inbox.head().consumed == 1);
  CHECK(passOne(p.b(), p.a(), data.data(), data.size(), 2, true) == "");
}

TEST_CASE("a control line that cannot be is refused") {
  using namespace tutti::shm;
  const auto scribble = [](ShmPair& p, Kind kind, uint64_t bytes, DirectPayload place) {
    const auto segment = segmentOfReceiver(p, 1000);
    ControlLine& line = segment->inbox(0, 0).line(0);
    line.kindAndBytes = (static_cast<uint64_t>(kind) << 56) | bytes;
    line.callHead = callNumber(1).head;
    line.callCount = callNumber(1).count;
    std::memcpy(line.payload, &place, sizeof place);
    line.sequence = 1;
    return p.b().peek({bytes, callNumber(1)}).status().code();
  };
  void* memory = *hostAlloc(5000);
  const AllocationId id = hostLookup(memory, 1)->id;
  struct Row {
    Ends ends;
    Kind kind;
    uint64_t bytes;
    DirectPayload place;
  };
  for (const Row& row :
       {Row{Ends::Threads, Kind::Inline, 97, {}}, Row{Ends::Threads, Kind::Slot, 1001, {}},
        Row{Ends::Threads, Kind::Slot, 10, {0, 0, 4}}, Row{Ends::Threads, Kind::Stream, 10, {0, 0, ~uint64_t{0}}},
        Row{Ends::Threads, Kind::Small, 100, {0, 0, kRingBytes - 99}},
        Row{Ends::Threads, Kind::Small, kRingBytes + 1, {}}, Row{Ends::Threads, Kind::Piece, 2000, {0, 0, 4}},
        Row{Ends::Threads, Kind::Piece, 1000, {}}, Row{Ends::Threads, Kind{0}, 1, {}},
        Row{Ends::Threads, Kind{200}, 1, {}}, Row{Ends::Processes, Kind::Address, 1, {0, 0, 8}},
        Row{Ends::Threads, Kind::Pull, 1, {0, 0, 8}}, Row{Ends::Processes, Kind::Pull, 1, {0, 0, 8}},
        Row{Ends::Threads, Kind::Shared, 1001, {}}, Row{Ends::Threads, Kind::Shared, 9, {0, 0, 20480}},
        Row{Ends::Processes, Kind::Shared, 0, {0, 0, ~uint64_t{0}}},
        Row{Ends::Processes, Kind::Mapped, 5000, {id.high, id.low, 4000}},
        Row{Ends::Processes, Kind::Mapped, 50, {id.high, id.low, ~uint64_t{0} - 10}}}) {
    CAPTURE(static_cast<int>(row.kind), row.bytes);
    ShmPair p(row.ends);
    Fd fd = *hostShare(id);
    REQUIRE(p.exchange.serve(cat("mem:", toHex(&id, sizeof id)), fd.get()).ok());
    CHECK(scribble(p, row.kind, row.bytes, row.place) == tuttiRemoteError);
  }
  CHECK(hostFree(memory).ok());
}

TEST_CASE("connecting to what is not there fails by its deadline, and each lane connects once") {
  ShmPair p;
  auto again = awaitEndpoint(*p.transport[0], 1, p.transport[1]->address(), 0, Deadline::inMs(100));
  CHECK(again.status().code() == tuttiInternalError);
  CHECK(awaitEndpoint(*p.transport[0], 0, p.transport[0]->address(), 1, Deadline::inMs(100)).status().code() !=
        tuttiSuccess);
  CHECK(awaitEndpoint(*p.transport[0], 1, "short", 1, Deadline::inMs(100)).status().code() == tuttiRemoteError);
  CHECK(awaitEndpoint(*p.transport[0], 1, p.transport[1]->address(), 3, Deadline::inMs(100)).status().code() !=
        tuttiSuccess);
  ShmPair other;
  Address nowhere = other.transport[1]->address();
  nowhere[8] = static_cast<char>(nowhere[8] ^ 1);
  CHECK(awaitEndpoint(*other.transport[0], 1, nowhere, 1, Deadline::inMs(20)).status().message() == "");  // known peer
  ShmConfig config;
  config.nRanks = 2;
  config.lanes = 3;
  config.slotBytes = 1000;
  auto lonely = *createShmTransport(config, other.exchange);
  CHECK(awaitEndpoint(*lonely, 1, nowhere, 1, Deadline::inMs(20)).status().code() == tuttiTimeout);
}

TEST_CASE("transports reach ranks of the same host and user") {
  ShmPair p;
  const PeerInfo self{.rank = 0, .hostId = 5, .processId = 1, .pid = 2, .uid = 3};
  struct Row {
    PeerInfo peer;
    std::string_view link;  // its key, or why there is none
  };
  for (const Row& row :
       {Row{{1, 5, 1, 2, 3}, "shm-threads"}, Row{{1, 5, 9, 9, 3}, "shm-processes"},
        Row{{1, 6, 1, 2, 3}, "they are on different hosts"}, Row{{1, 5, 1, 2, 4}, "they run as users 3 and 4"},
        Row{{0, 5, 1, 2, 3}, "a rank is not its own peer"}}) {
    const Result<LinkProfile> link = p.transport[0]->reach(self, row.peer);
    CHECK((link.ok() ? link->key : std::string_view(link.status().message())) == row.link);
  }
}

TEST_CASE("only what is used of a segment takes memory") {
  LocalExchange exchange;
  ShmConfig config;
  config.nRanks = 256;
  const uint64_t before = residentBytes();
  auto first = *createShmTransport(config, exchange);
  config.self.rank = 1;
  auto second = *createShmTransport(config, exchange);
  const uint64_t idle = residentBytes() - before;
  auto a = *awaitEndpoint(*first, 1, second->address(), 0, Deadline::inMs(100));
  auto b = *awaitEndpoint(*second, 0, first->address(), 0, Deadline::inMs(100));
  const uint64_t connected = residentBytes() - before;
  const auto data = pattern(a->slotBytes(), 1);
  for (uint64_t i = 0; i < 8; ++i) {
    CHECK(passOne(*a, *b, data.data(), data.size(), i, true) == "");
    CHECK(passOne(*b, *a, data.data(), data.size(), i, true) == "");
  }
  const uint64_t used = residentBytes() - before;
  WARN("256 ranks: segment of " << formatBytes(shm::Layout::fit(256, 64, 4, 128 << 10)->totalBytes() >> 20 << 20)
                                << "; resident: two segments " << (idle >> 10) << " KiB, a connected pair "
                                << (connected >> 10) << " KiB, in full use " << (used >> 10) << " KiB");
  CHECK(connected < (1 << 20));
  CHECK(used < (16 << 20));
}

TEST_CASE("settings that cannot be laid out are refused") {
  using shm::Layout;
  CHECK(Layout::fit(2, 64, 4, 128 << 10)->lanes == 64);
  CHECK(Layout::fit(200, 64, 64, 1 << 26)->lanes == 1);
  CHECK(Layout::fit(1024, 64, 64, 1 << 26).status().code() == tuttiInvalidUsage);
  CHECK(Layout::fit(2, 64, 0, 1000).status().code() == tuttiInvalidUsage);
  CHECK(Layout::fit(2, 64, 4, 0).status().code() == tuttiInvalidUsage);
}
