// Rows of small messages, and the congestion control of connections.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "src/base/clock.hpp"
#include "src/base/congestion.hpp"
#include "tests/conformance/loopback.hpp"
#include "tests/conformance/traffic.hpp"
#include "transport/tcp/endpoint.hpp"

using namespace tutti;
using namespace tutti::tcp;
using conformance::callNumber;

namespace {

int optionOf(int fd, int name) {
  int value = -1;
  socklen_t bytes = sizeof value;
  REQUIRE(::getsockopt(fd, IPPROTO_TCP, name, &value, &bytes) == 0);
  return value;
}

bool gathers(int fd) { return optionOf(fd, TCP_NODELAY) == 0; }
// What Linux says for this option: it does not wait for an answer to acknowledge along with.
bool acknowledgesAtOnce(int fd) { return optionOf(fd, TCP_QUICKACK) == 1; }

int portOf(int fd) {
  sockaddr_in name = {};
  socklen_t bytes = sizeof name;
  REQUIRE(::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &bytes) == 0);
  return name.sin_port;
}

std::string controlOf(const Fd& fd) {
  char name[16] = {};
  socklen_t bytes = sizeof name - 1;
  REQUIRE(::getsockopt(fd.get(), IPPROTO_TCP, TCP_CONGESTION, name, &bytes) == 0);
  return name;
}

/// One end of a connection over the loopback interface, and its socket.
struct End {
  int fd;
  TcpEndpoint endpoint;

  End(Fd socket, int peer, std::shared_ptr<Reopener> reopener = nullptr)
      : fd(socket.get()),
        endpoint(peer, 0, listOf(std::move(socket)), kSlotBytes, nullptr, std::make_shared<EmptyLooks>(),
                 std::move(reopener)) {}
  static std::vector<Fd> listOf(Fd socket) {
    std::vector<Fd> fds;
    fds.push_back(std::move(socket));
    return fds;
  }
  static constexpr size_t kSlotBytes = 1 << 16;

  void send(size_t bytes = 8) {
    const std::vector<std::byte> data(bytes, std::byte{7});
    for (bool gone = false; !gone;) {
      const Result<bool> sent = endpoint.send(data.data(), bytes, callNumber(sent_));
      REQUIRE(sent.ok());
      gone = *sent;
    }
    ++sent_;
  }
  void take(size_t bytes = 8) {
    std::vector<std::byte> got(bytes);
    for (bool came = false; !came;) {
      const Result<bool> result = endpoint.receive(got.data(), {bytes, callNumber(taken_)});
      REQUIRE(result.ok());
      came = *result;
      REQUIRE(endpoint.progress().ok());
    }
    CHECK(got == std::vector<std::byte>(bytes, std::byte{7}));
    ++taken_;
  }

 private:
  uint32_t sent_ = 0;
  uint32_t taken_ = 0;
};

/// Reopeners of ends whose connection has records.  They make nothing again.
struct Records {
  std::shared_ptr<Reopener> of(bool records, int rank) {
    return records ? std::make_shared<Reopener>(none, rank, Reopener::Settings{.again = false}) : nullptr;
  }
  conformance::LoopbackStreams streams{AF_INET, 0};
  conformance::LoopbackStreams::Of none{streams, 0};
};

struct Both {
  explicit Both(bool withRecords)
      : left(std::move(sockets.first), 1, records.of(withRecords, 0)),
        right(std::move(sockets.second), 0, records.of(withRecords, 1)) {}

  Records records;
  std::pair<Fd, Fd> sockets = std::move(*conformance::loopbackPair(AF_INET, 0));
  End left;
  End right;
};

constexpr size_t kLarge = kMostPackedBytes + 1000;

}  // namespace

TEST_CASE("a row is small messages without a wait between them, and an answer or a large one ends it") {
  SmallRow row;
  for (int i = 0; i < 15; ++i) CHECK_FALSE(row.next(true, false, 0));
  CHECK(row.next(true, false, 0));
  CHECK(row.next(true, false, 6));  // one wait does not end it
  CHECK(row.next(true, false, 6));
  CHECK_FALSE(row.next(false, false, 6));
  for (int i = 0; i < 40; ++i) row.next(true, false, 6);
  CHECK(row.next(true, false, 6));
  CHECK_FALSE(row.next(true, true, 6));
  for (int i = 0; i < 40; ++i) row.next(true, false, 6);
  int stillRow = 0;
  for (uint64_t i = 0; i < 10; ++i) stillRow += row.next(true, false, 7 + i) ? 1 : 0;
  CHECK(stillRow == 3);
  for (uint64_t i = 0; i < 100; ++i) CHECK_FALSE(row.next(true, false, 20 + i));  // between waits: no row
}

TEST_CASE("what a sender leaves behind in a row comes without its help") {
  Both both(GENERATE(false, true));
  for (const int messages : {1, 15, 16, 17, 100, 1000}) {
    CAPTURE(messages);
    for (int i = 0; i < messages; ++i) both.left.send();
    for (int i = 0; i < messages; ++i) both.right.take();
  }
  CHECK(gathers(both.left.fd));
}

TEST_CASE("a receiver that has answered acknowledges a row at once, so that nothing waits for its next answer") {
  Both both(GENERATE(false, true));
  // What makes a connection interactive, to Linux: answers soon behind questions.
  for (int i = 0; i < 50; ++i) {
    both.left.send();
    both.right.take();
    both.right.send();
    both.left.take();
  }
  CHECK_FALSE(gathers(both.left.fd));
  if (acknowledgesAtOnce(both.right.fd)) WARN("this kernel took the connection for one-sided: a weaker test");
  for (int i = 0; i < 100; ++i) both.left.send();
  CHECK(gathers(both.left.fd));
  for (int i = 0; i < 100; ++i) both.right.take();
  CHECK(acknowledgesAtOnce(both.right.fd));
}

TEST_CASE("rows on both ways at once, answers and large messages between them: all comes in order") {
  Both both(GENERATE(false, true));
  for (const int row : {40, 3, 200, 17}) {
    CAPTURE(row);
    for (int i = 0; i < row; ++i) {
      both.left.send();
      both.right.send(24);
    }
    for (int i = 0; i < row; ++i) both.right.take();
    for (int i = 0; i < row; ++i) both.left.take(24);
    for (int i = 0; i < row; ++i) both.left.send();
    both.left.send(kLarge);
    CHECK_FALSE(gathers(both.left.fd));  // and what was held back has left before it
    for (int i = 0; i < row; ++i) both.right.take();
    both.right.take(kLarge);
  }
}

TEST_CASE("who ends behind a row has still said all of it") {
  const bool withRecords = GENERATE(false, true);
  Records records;
  auto sockets = std::move(*conformance::loopbackPair(AF_INET, 0));
  End right(std::move(sockets.second), 0, records.of(withRecords, 1));
  {
    End left(std::move(sockets.first), 1, records.of(withRecords, 0));
    for (int i = 0; i < 300; ++i) left.send();
    CHECK(gathers(left.fd));
  }
  for (int i = 0; i < 300; ++i) right.take();
}

TEST_CASE("a connection that is made again in the middle of a row gathers on") {
  const bool rowGoesOn = GENERATE(true, false);
  conformance::LoopbackStreams streams(AF_INET, 0);
  conformance::LoopbackStreams::Of views[] = {{streams, 0}, {streams, 1}};
  const StreamIndex index = streamIndex(0, 0, 1, 1);
  std::vector<std::unique_ptr<Sockets>> ends;
  for (const int rank : {0, 1}) {
    auto reopener = std::make_shared<Reopener>(views[rank], rank, Reopener::Settings());
    ends.push_back(std::make_unique<Sockets>(1 - rank, 0, End::listOf(std::move(*streams.open(rank, 1 - rank, index))),
                                             std::move(reopener)));
  }
  const int before = portOf(ends[0]->fd(0));
  ends[0]->gather(true);
  REQUIRE(gathers(ends[0]->fd(0)));
  REQUIRE(::shutdown(ends[0]->fd(0), SHUT_RDWR) == 0);
  ends[0]->serve();
  if (!rowGoesOn) ends[0]->gather(false);
  const Deadline deadline = Deadline::inMs(20'000);
  for (bool isBack = false; !isBack && !deadline.passed();) {
    isBack = true;
    for (const auto& end : ends) {
      std::byte none;
      CHECK(end->read(0, {&none, 1}).ok());
      end->serve();
      const bool away = end->tick(nowNs());
      isBack = isBack && !away && end->fd(0) >= 0;
    }
    isBack = isBack && portOf(ends[0]->fd(0)) != before;
  }
  REQUIRE_FALSE(deadline.passed());
  CHECK(gathers(ends[0]->fd(0)) == rowGoesOn);
  CHECK_FALSE(gathers(ends[1]->fd(0)));
}

TEST_CASE("connections begin without a pace of their own; those that leave the host get the system's control") {
  const Fd fresh(::socket(AF_INET, SOCK_STREAM, 0));
  const std::string system = controlOf(fresh);
  CAPTURE(system);
  beginUnpaced(fresh.get());
  CHECK_FALSE(controlOf(fresh).starts_with("bbr"));
  if (!system.starts_with("bbr")) CHECK(controlOf(fresh) == system);
  CHECK_FALSE(isNear(fresh.get()));  // of no round trip
  followSystemPace(fresh.get());
  CHECK(controlOf(fresh) == system);
}

TEST_CASE("a connection to another host nearby has no pace either") {
  const auto sockets = std::move(*conformance::loopbackPair(AF_INET, 0));
  for (const Fd* end : {&sockets.first, &sockets.second}) {
    beginUnpaced(end->get());
    followSystemPace(end->get());
    tcp_info info = {};
    socklen_t bytes = sizeof info;
    REQUIRE(getsockopt(end->get(), IPPROTO_TCP, TCP_INFO, &info, &bytes) == 0);
    CAPTURE(info.tcpi_rtt);
    if (info.tcpi_rtt < kNearUs) CHECK_FALSE(controlOf(*end).starts_with("bbr"));
  }
}

TEST_CASE("a congestion control that is asked for is had, or the error says which there are") {
  const Fd fresh(::socket(AF_INET, SOCK_STREAM, 0));
  CHECK(checkCongestionControl("reno").ok());  // part of every kernel and open to every user
  REQUIRE(setCongestionControl(fresh.get(), "reno").ok());
  CHECK(controlOf(fresh) == "reno");
  // The system cuts names after 15 letters.
  for (const char* name : {"carrier_pigeon", "reno_with_a_very_long_tail"}) {
    const Status has = setCongestionControl(fresh.get(), name);
    CAPTURE(name, has.message());
    CHECK(has.code() == tuttiInvalidUsage);
    CHECK(has.message().find(std::string("'") + name + "'; it has: ") != std::string::npos);
    CHECK(has.message().find("reno") != std::string::npos);
    CHECK(controlOf(fresh) == "reno");
  }
}
