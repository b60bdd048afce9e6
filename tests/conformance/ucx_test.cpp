// What is particular to ucx: what is said where UCX cannot be used, how ends find each other, rendezvous, and how the
// end of a peer shows that only UCX can tell.
#include <spawn.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "tests/conformance/each.hpp"
#include "tests/conformance/loopback.hpp"
#include "tests/support/variable.hpp"
#include "transport/ucx/entry.hpp"
#include "transport/ucx/transport.hpp"

extern char** environ;

namespace tutti::conformance::ucx_test {

using tutti::test::Variable;

namespace {

constexpr PeerInfo kHere{.rank = 0, .hostId = 1}, kBeside{.rank = 1, .hostId = 1}, kThere{.rank = 2, .hostId = 2};
constexpr size_t kSlot = 64 << 10;

ucx::Options with(const std::string& transports, size_t slots = 4, size_t slotBytes = kSlot) {
  return {.slots = slots, .slotBytes = slotBytes, .closeMs = 5, .settings = {{"TLS", transports}}};
}

struct Two {
  LoopbackStreams streams{AF_INET, 0};
  LoopbackStreams::Of views[2] = {{streams, 0}, {streams, 1}};
  std::unique_ptr<Transport> transports[2];
  explicit Two(const ucx::Options& options) : Two(options, options) {}
  Two(const ucx::Options& a, const ucx::Options& b) {
    transports[0] = std::make_unique<UcxTransport>(views[0], 0, a);
    transports[1] = std::make_unique<UcxTransport>(views[1], 1, b);
  }
  void progress() {
    for (const auto& transport : transports) (void)transport->progress();
  }
};

/// What the two ends of an endpoint that does not come up say.
Status refusal(const ucx::Options& a, const ucx::Options& b) {
  Two two(a, b);
  return connectBoth(two.transports, 0).status();
}

/// Why there is no UCX here; "" if there is.
const std::string& lacking() {
  static const std::string why = ucx::library().status().message();
  return why;
}

#define NEEDS_UCX()                                          \
  if (!lacking().empty()) {                                  \
    WARN("skipped, as UCX cannot be loaded: " << lacking()); \
    return;                                                  \
  }

std::vector<std::byte> pattern(size_t bytes, uint32_t number) {
  std::vector<std::byte> out(bytes);
  fillPattern(out, 1, number);
  return out;
}

Answer until(Two& two, const std::function<Result<bool>()>& ask) {
  const Deadline deadline = Deadline::inMs(10'000);
  while (!deadline.passed()) {
    Result<bool> result = ask();
    if (!result.ok() || *result) return result;
    two.progress();
  }
  return Result<bool>(false);
}

/// Memory that both ranks have registered.
struct Kept {
  std::vector<std::byte> bytes;
  std::unique_ptr<MemoryRegistration> registrations[2];
  Kept(Two& two, std::vector<std::byte> what) : bytes(std::move(what)) {
    for (const int rank : {0, 1})
      registrations[rank] =
          std::move(two.transports[rank]->registerMemory({MemoryKind::Host, -1, bytes.data(), bytes.size()}).value());
  }
};

/// Streams that the caller has opened.
class Given : public StreamExchange {
 public:
  explicit Given(int fd) : fd_(fd) {}
  PendingFd open(int, StreamIndex) override {
    return pendingBy<Fd>([this]() -> Result<Fd> { return Fd(dup(fd_)); });
  }

 private:
  const int fd_;
};

void writeAll(int fd, const std::string& text) {
  const auto bytes = static_cast<uint32_t>(text.size());
  REQUIRE(write(fd, &bytes, sizeof bytes) == sizeof bytes);
  REQUIRE(write(fd, text.data(), bytes) == static_cast<ssize_t>(bytes));
}

std::string readAll(int fd) {
  uint32_t bytes = 0;
  REQUIRE(read(fd, &bytes, sizeof bytes) == sizeof bytes);
  std::string text(bytes, 0);
  REQUIRE(read(fd, text.data(), bytes) == static_cast<ssize_t>(bytes));
  return text;
}

std::unique_ptr<Endpoint> openTo(Transport& transport, int peer, int addresses) {
  writeAll(addresses, transport.address());
  auto endpoint = awaitEndpoint(transport, peer, readAll(addresses), 0, Deadline::inMs(20'000));
  REQUIRE(endpoint.status().message() == "");
  return std::move(*endpoint);
}

struct SocketPair {
  int fds[2];
  SocketPair() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0); }
  ~SocketPair() {
    for (const int fd : fds) close(fd);
  }
};

}  // namespace

TEST_CASE("a rank whose UCX finds nothing says why, has no address, and judges others' links all the same") {
  NEEDS_UCX();
  LoopbackStreams streams(AF_INET, 0);
  LoopbackStreams::Of view(streams, 0);
  UcxTransport without(view, 0, with("nonsense"));
  const Result<LinkProfile> link = without.reach(kHere, kBeside);
  REQUIRE_FALSE(link.ok());
  CHECK(link.status().code() == tuttiInvalidUsage);
  for (const char* word : {"UCX 1.", "transport 'nonsense' is not available", "UCX_TLS"}) {
    CAPTURE(link.status().message(), word);
    CHECK(link.status().message().find(word) != std::string::npos);
  }
  CHECK(without.address().empty());
  CHECK(without.sleeper() == nullptr);
  CHECK_FALSE(without.progress());
  CHECK(without.reach(kBeside, kThere).value().key == "ucx-remote");
  CHECK_FALSE(without.reach(kBeside, kBeside).ok());
  CHECK(without.beginConnect(1, "ucx1 x", 0)->poll().status().message() == link.status().message());
  CHECK(without.registerMemory({}).status().message() == link.status().message());
}

TEST_CASE("a rank with UCX reaches others of its host and of others") {
  NEEDS_UCX();
  Two two(with("tcp"));
  CHECK(two.transports[0]->reach(kHere, kBeside).value().key == "ucx-local");
  CHECK(two.transports[0]->reach(kHere, kThere).value().key == "ucx-remote");
  CHECK(two.transports[0]->beginConnect(1, "verbs1 x", 0)->poll().status().message() ==
        "rank 1 gave no address of ucx");
}

TEST_CASE("ranks whose UCX is not set alike hear by which variable") {
  NEEDS_UCX();
  const Status slots = refusal(with("tcp"), with("tcp", 5));
  CHECK(slots.code() == tuttiInvalidUsage);
  CHECK(slots.message() == "TUTTI_SLOTS is 5 here and 4 on rank 0; it must be the same on all ranks");
  CHECK(refusal(with("tcp"), with("tcp", 4, 9000)).message().starts_with("TUTTI_SLOT_BYTES is 9000 here and 65536"));
  const Status nowhere = refusal(with("tcp"), with("shm"));
  CAPTURE(nowhere.message());
  CHECK(nowhere.code() == tuttiSystemError);
  CHECK(nowhere.message().starts_with("UCX has no way to rank 0: "));
  CHECK(nowhere.message().find("UCX_TLS") != std::string::npos);
}

TEST_CASE("a peer that goes while its connection comes up is named") {
  NEEDS_UCX();
  const ucx::Options options = with("tcp");
  SocketPair stream;
  Given view(stream.fds[0]);
  UcxTransport here(view, 0, options), there(view, 1, options);
  const PendingEndpoint opening = here.beginConnect(1, there.address(), 0);
  REQUIRE(opening->poll().ok());
  shutdown(stream.fds[1], SHUT_RDWR);
  CHECK(opening->poll().status().message() == "rank 1 has gone while its ucx connection came up");
}

/// Moves what one end of a stream has to the other.
void relay(int from, int to) {
  char some[512];
  const ssize_t n = recv(from, some, sizeof some, MSG_DONTWAIT);
  if (n > 0) REQUIRE(send(to, some, static_cast<size_t>(n), 0) == n);
}

TEST_CASE("a peer that says what cannot be of the messages between two ends is not believed") {
  NEEDS_UCX();
  using ucx::Note;
  for (const Note& note :
       {Note{Note::kHasAll, 0, 2}, Note{Note::kEnds, 1, 2}, Note{Note::kEnds, 0, 0}, Note{7, 1, 0}}) {
    CAPTURE(note.what, note.sent, note.taken);
    SocketPair ours, theirs;
    Given view(ours.fds[0]), other(theirs.fds[0]);
    UcxTransport here(view, 0, with("tcp")), there(other, 1, with("tcp"));
    const PendingEndpoint opening = here.beginConnect(1, there.address(), 0);
    const PendingEndpoint answering = there.beginConnect(0, here.address(), 0);
    std::unique_ptr<Endpoint> end, peer;
    const Deadline deadline = Deadline::inMs(20'000);
    while ((end == nullptr || peer == nullptr) && !deadline.passed()) {
      relay(ours.fds[1], theirs.fds[1]);
      relay(theirs.fds[1], ours.fds[1]);
      if (end == nullptr) end = std::move(opening->poll()).value();
      if (peer == nullptr) peer = std::move(answering->poll()).value();
    }
    REQUIRE((end != nullptr && peer != nullptr));
    // A message each way: more than one was not sent by either.
    std::byte one{1};
    for (Endpoint* const from : {end.get(), peer.get()}) {
      Endpoint* const to = from == end.get() ? peer.get() : end.get();
      REQUIRE(awaitValue([&] { return from->send(&one, 1, callNumber(0)); }, deadline, "room").ok());
      const auto comes = [&] {
        here.progress();
        there.progress();
        return to->receive(&one, {1, callNumber(0)});
      };
      REQUIRE(awaitValue(comes, deadline, "a message").ok());
    }
    REQUIRE(send(ours.fds[1], &note, sizeof note, 0) == sizeof note);
    const Status trouble = awaitValue(
                               [&] {
                                 return end->receive(&one, {1, callNumber(1)});
                               },
                               deadline, "trouble")
                               .status();
    CHECK(trouble.code() == tuttiRemoteError);
    CHECK(trouble.message().ends_with(" says what cannot be of the messages between the two ends"));
  }
}

TEST_CASE("a posted send is done when its receiver has fetched it, and not before; a small one at once") {
  NEEDS_UCX();
  ucx::Options options = with("tcp");
  options.settings.emplace_back("RNDV_THRESH", "16k");
  Two two(options);
  Result<Pair> pair = connectBoth(two.transports, 0);
  REQUIRE(pair.status().message() == "");
  Kept small(two, pattern(100, 0)), large(two, pattern(kSlot, 1)), in(two, std::vector<std::byte>(kSlot));
  CHECK(pair->a->takes(large.bytes.data() + 1, kSlot - 1));
  CHECK_FALSE(pair->a->takes(large.bytes.data() + 1, kSlot));
  CHECK(pair->a->postSend(large.bytes.data() + 1, kSlot, callNumber(0)).status().code() == tuttiInvalidUsage);

  const Request first = *pair->a->postSend(small.bytes.data(), 100, callNumber(0));
  const Request second = *pair->a->postSend(large.bytes.data(), kSlot, callNumber(1));
  REQUIRE(*until(two, [&] { return pair->a->test(first); }));
  for (int i = 0; i < 200; ++i) two.progress();
  CHECK_FALSE(*pair->a->test(second));
  // The first is taken by a call, the second by a request.
  REQUIRE(*until(two, [&] { return pair->b->receive(in.bytes.data(), {100, callNumber(0)}); }));
  const Request receive = *pair->b->postReceive(in.bytes.data(), {kSlot, callNumber(1)});
  REQUIRE(*until(two, [&] { return pair->b->test(receive); }));
  CHECK(in.bytes == large.bytes);
  CHECK(*until(two, [&] { return pair->a->test(second); }));
  // And by calls alone.
  const Request third = *pair->a->postSend(large.bytes.data(), kSlot, callNumber(2));
  std::vector<std::byte> out(kSlot);
  REQUIRE(*until(two, [&] { return pair->b->receive(out.data(), {kSlot, callNumber(2)}); }));
  CHECK(out == large.bytes);
  CHECK(*until(two, [&] { return pair->a->test(third); }));
}

namespace {

/// A device whose memory is the host's.
struct SomeDevice : AdapterAccess {
  std::string busId() const override { return "0000:1b:00.0"; }
  Status check(Needs) const override { return {}; }
  bool ordersWrites() const override { return true; }
  bool byAddress() const override { return false; }
  Result<DmaBuf> dmaBuf(const Memory&) const override { return invalidUsage("the device has none"); }
};

/// Rank 0 is on a device, rank 1 is not.
struct OnDevice : Two {
  explicit OnDevice(const ucx::Options& options) : Two(options) {
    transports[0] = std::make_unique<UcxTransport>(views[0], 0, options, std::make_shared<SomeDevice>());
  }
};

}  // namespace

TEST_CASE("memory of devices is UCX's to read and write where UCX takes it, in messages of any size and way") {
  NEEDS_UCX();
  ucx::Options options = with("tcp");
  options.settings.emplace_back("RNDV_THRESH", "16k");
  std::vector<std::byte> memory(2 * kSlot), host(kSlot);
  const Memory device{MemoryKind::Device, 0, memory.data(), memory.size()};
  {  // As UCX is here.
    OnDevice two(options);
    if (!ucx::Worker::create(options).value()->takes(UCS_MEMORY_TYPE_CUDA)) {
      CHECK_FALSE(two.transports[0]->reach(kHere, kThere)->memory.device);
      CHECK(two.transports[0]->registerMemory(device).status().message() ==
            "UCX does not take memory of the rank's device");
    }
  }
  options.deviceMemory = UCS_MEMORY_TYPE_HOST;
  OnDevice two(options);
  CHECK(two.transports[0]->reach(kHere, kThere)->memory.device);
  CHECK_FALSE(two.transports[1]->reach(kHere, kThere)->memory.device);
  CHECK(two.transports[1]->registerMemory(device).status().code() == tuttiInvalidUsage);
  const auto registered = std::move(two.transports[0]->registerMemory(device)).value();
  Result<Pair> pair = connectBoth(two.transports, 0);
  REQUIRE(pair.status().message() == "");
  REQUIRE(pair->a->takes(memory.data(), memory.size()));
  std::byte* const out = memory.data() + kSlot;
  uint32_t number = 0;
  for (const size_t bytes : {size_t{1}, size_t{700}, kSlot}) {
    CAPTURE(bytes);
    const auto there = pattern(bytes, number), back = pattern(bytes, number + 7);
    const Fingerprint call = callNumber(number), answer = callNumber(number + 1);
    number += 2;
    // From the device to the host, whose call copies; and from a slot of the host's into the device.
    std::copy(there.begin(), there.end(), memory.begin());
    const Request sent = *pair->a->postSend(memory.data(), bytes, call);
    REQUIRE(*until(two, [&] { return pair->b->receive(host.data(), {bytes, call}); }));
    CHECK(std::equal(there.begin(), there.end(), host.begin()));
    CHECK(*until(two, [&] { return pair->a->test(sent); }));
    const Request wanted = *pair->a->postReceive(out, {bytes, answer});
    REQUIRE(*until(two, [&] { return pair->b->send(back.data(), bytes, answer); }));
    CHECK(*until(two, [&] { return pair->a->test(wanted); }));
    CHECK(std::equal(back.begin(), back.end(), out));
  }
  const Request nothing = *pair->a->postReceive(out, {0, callNumber(number)});
  REQUIRE(*until(two, [&] { return pair->b->send(nullptr, 0, callNumber(number)); }));
  CHECK(*until(two, [&] { return pair->a->test(nothing); }));
}

TEST_CASE("UCX's shared memory alone is refused for memory of devices, by the variable that says so") {
  NEEDS_UCX();
  ucx::Options options = with("shm");
  options.deviceMemory = UCS_MEMORY_TYPE_HOST;
  OnDevice two(options);
  const Status status = connectBoth(two.transports, 0).status();
  CAPTURE(status.message());
  // UCX's later versions tell the end of a peer there, too.
  if (!status.ok()) CHECK(status.message().find("is not for memory of devices; UCX_TLS says") != std::string::npos);
}

TEST_CASE("endpoints that come up in different orders are joined by their lanes, and end on their own") {
  NEEDS_UCX();
  Two two(with("tcp"));
  std::unique_ptr<Endpoint> ends[2][3];
  PendingEndpoint opening[2][3];
  for (const int lane : {0, 1, 2})
    opening[0][lane] = two.transports[0]->beginConnect(1, two.transports[1]->address(), lane);
  for (const int lane : {2, 0, 1})
    opening[1][lane] = two.transports[1]->beginConnect(0, two.transports[0]->address(), lane);
  REQUIRE(*until(two, [&]() -> Result<bool> {
    bool up = true;
    for (const int rank : {1, 0}) {
      for (const int lane : {0, 1, 2}) {
        if (ends[rank][lane] == nullptr) {
          TUTTI_ASSIGN(ends[rank][lane], opening[rank][lane]->poll());
        }
        up = up && ends[rank][lane] != nullptr;
      }
    }
    return up;
  }));
  const auto carries = [&](int lane) {
    const auto message = pattern(3000, static_cast<uint32_t>(lane));
    std::vector<std::byte> out(3000);
    const Fingerprint call = callNumber(static_cast<uint32_t>(lane));
    CHECK(*until(two, [&] { return ends[0][lane]->send(message.data(), 3000, call); }));
    CHECK(*until(two, [&] { return ends[1][lane]->receive(out.data(), {3000, call}); }));
    CHECK(out == message);
  };
  for (const int lane : {0, 1, 2}) carries(lane);
  ends[0][0].reset();
  const Result<bool> next = until(two, [&] { return ends[1][0]->receive(nullptr, {0, callNumber(9)}); });
  CHECK(next.status().code() == tuttiRemoteError);
  ends[1][0].reset();
  for (const int lane : {1, 2}) carries(lane);
}

// The other end of the next test, in a process of its own: rank 1 sends a message, and then waits for its death.
TEST_CASE("the rank that is killed", "[.ucx-killed]") {
  const char* const fds = std::getenv("TUTTI_TEST_UCX_FDS");
  REQUIRE(fds != nullptr);
  const auto numbers = split(fds, ',');
  const int addresses = std::stoi(numbers[0]);
  Given view(std::stoi(numbers[1]));
  UcxTransport transport(view, 1, with("tcp"));
  const auto endpoint = openTo(transport, 0, addresses);
  const std::byte one{1};
  while (true) {
    const Result<bool> sent = endpoint->send(&one, 1, callNumber(0));
    if (!sent.ok() || *sent) break;
  }
  while (true) pause();
}

TEST_CASE("the death of a process that only UCX can tell of is told by it") {
  NEEDS_UCX();
  SocketPair addresses, stream;  // this process keeps both ends of the stream: its end does not show
  const Variable fds("TUTTI_TEST_UCX_FDS", cat(addresses.fds[1], ",", stream.fds[1]));
  std::string program = "/proc/self/exe", which = "[.ucx-killed]";
  char* const arguments[] = {program.data(), which.data(), nullptr};
  pid_t child = 0;
  REQUIRE(posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) == 0);
  Given view(stream.fds[0]);
  UcxTransport transport(view, 0, with("tcp"));
  const auto endpoint = openTo(transport, 1, addresses.fds[0]);
  const Deadline deadline = Deadline::inMs(20'000);
  std::byte got{};
  const auto receive = [&](uint32_t number) {
    return awaitValue([&] { return endpoint->receive(&got, {1, callNumber(number)}); }, deadline, "a message");
  };
  CHECK(receive(0).status().message() == "");
  CHECK(got == std::byte{1});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const Status end = receive(1).status();
  CAPTURE(end.message());
  CHECK(end.code() == tuttiRemoteError);
  CHECK(end.message().starts_with("rank 1 over ucx (tcp/"));
  CHECK(endpoint->send(&got, 1, callNumber(0)).status().message() == end.message());
}

}  // namespace tutti::conformance::ucx_test
