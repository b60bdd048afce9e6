// Endpoints of tcp with the relay between them, under every misdeed by seed: right bytes, or an error that says why.
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <mutex>
#include <thread>

#include "tests/conformance/traffic.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/thorough.hpp"
#include "tools/chaos/relay.hpp"
#include "transport/tcp/transport.hpp"

using namespace tutti;
using namespace tutti::chaos;
using namespace tutti::conformance;

namespace {

constexpr int kAcceptMs = 20'000;

/// Streams between two ranks of this process, all through one relay.
class RelayedStreams {
 public:
  explicit RelayedStreams(const Misdeeds& misdeeds) {
    SocketAddress any = *parseAddress("127.0.0.1:1");
    any.setPort(0);
    target_ = any;
    listener_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const bool listens =
        ::bind(listener_.get(), any.raw(), any.bytes) == 0 && ::listen(listener_.get(), 16) == 0 &&
        ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&target_.storage), &target_.bytes) == 0;
    REQUIRE(listens);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    in_ = Fd(ends[0]);
    out_ = Fd(ends[1]);
    RelayOptions options{
        .listen = any, .to = target_, .misdeeds = misdeeds, .only = {}, .most = 20, .commands = {in_.get()}, .log = {}};
    options.log = [this](const std::string& line) { count(line); };
    auto relay = Relay::open(std::move(options));
    REQUIRE(relay.ok());
    relay_ = std::move(*relay);
    thread_ = std::thread([this] { (void)relay_->run(); });
  }
  ~RelayedStreams() {
    (void)!::write(out_.get(), "quit\n", 5);
    thread_.join();
  }

  Result<Fd> open(int rank, int peer, StreamIndex index) {
    if (Fd mine = opened(rank, index); mine.valid()) return mine;
    Fd dialed(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(dialed.get(), relay_->address().raw(), relay_->address().bytes) != 0)
      return errnoError(errno, "connect");
    pollfd one{listener_.get(), POLLIN, 0};
    if (::poll(&one, 1, kAcceptMs) <= 0) return systemError("nobody comes through the relay");
    Fd accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    for (const int fd : {dialed.get(), accepted.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    const std::lock_guard lock(mutex_);
    waiting_.emplace(std::pair(peer, index), std::move(accepted));
    return dialed;
  }
  Fd opened(int rank, StreamIndex index) {
    const std::lock_guard lock(mutex_);
    const auto mine = waiting_.find({rank, index});
    if (mine == waiting_.end()) return {};
    Fd fd = std::move(mine->second);
    waiting_.erase(mine);
    return fd;
  }
  /// Flips, closes and resets so far.
  int deeds() {
    const std::lock_guard lock(mutex_);
    return deeds_;
  }

  class Of : public StreamExchange {
   public:
    Of(RelayedStreams& streams, int rank) : streams_(streams), rank_(rank) {}
    PendingFd open(int peer, StreamIndex index) override {
      return pendingBy<Fd>([=, this] { return streams_.open(rank_, peer, index); });
    }
    Result<Fd> opened(int, StreamIndex index) override { return streams_.opened(rank_, index); }
    DirectionKeys keysOf(int, StreamIndex index) override {
      const auto low = static_cast<unsigned char>(index), high = static_cast<unsigned char>(index >> 8);
      const Secret keys[] = {{1, low, high}, {2, low, high}};
      return {keys[rank_], keys[1 - rank_]};
    }

   private:
    RelayedStreams& streams_;
    int rank_;
  };

 private:
  void count(const std::string& line) {
    const std::lock_guard lock(mutex_);
    for (const char* word : {" flipped", ": closed in", ": reset"}) {
      if (line.find("byte ") != std::string::npos && line.find(word) != std::string::npos) ++deeds_;
    }
  }

  Fd listener_, in_, out_;
  SocketAddress target_;
  std::unique_ptr<Relay> relay_;
  std::thread thread_;
  std::mutex mutex_;
  std::map<std::pair<int, StreamIndex>, Fd> waiting_;
  int deeds_ = 0;
};

class Relayed : public Harness {
 public:
  Relayed(const Misdeeds& misdeeds, const TcpOptions& options)
      : streams_(misdeeds), views_{{streams_, 0}, {streams_, 1}} {
    for (const int rank : {0, 1}) {
      auto made = TcpTransport::create(views_[rank], rank, options);
      REQUIRE(made.ok());
      transports_[rank] = std::move(*made);
    }
  }
  Result<Pair> open(int lane) override { return connectBoth(transports_, lane); }
  Transport* transport(int rank) override { return transports_[rank].get(); }
  RelayedStreams& streams() { return streams_; }

 private:
  RelayedStreams streams_;
  RelayedStreams::Of views_[2];
  std::unique_ptr<Transport> transports_[2];
};

/// "" or what went wrong, of messages both ways; *deeds: flips, closes and resets.
std::string traffic(const Misdeeds& misdeeds, const TcpOptions& options, int messages, int* deeds) {
  Relayed harness(misdeeds, options);
  Result<Pair> pair = harness.open(0);
  if (!pair.ok()) return pair.status().message();
  std::string why;
  {
    const auto there = randomMessages(misdeeds.seed, messages, options.slotBytes, 0);
    const auto back = randomMessages(misdeeds.seed + 100, messages, options.slotBytes, 0);
    Sender sendThere(pair->first(), there, 1), sendBack(pair->second(), back, 2);
    Receiver receiveThere(pair->second(), there, 1), receiveBack(pair->first(), back, 2);
    Actor* const actors[] = {&sendThere, &receiveThere, &sendBack, &receiveBack};
    why = drive(harness, actors);
  }
  *deeds = harness.streams().deeds();
  return why;
}

const TcpOptions kPlain{.nSockets = 2, .slotBytes = 100'000};
const TcpOptions kResuming{.nSockets = 2, .slotBytes = 100'000, .reconnect = Reconnect::All, .windowBytes = 256 << 10};

/// The same under tags and under encryption, and without a connection that is made again.
std::vector<TcpOptions> sealed(Reconnect reconnect) {
  if (!Gcm::available().ok()) return {};
  std::vector<TcpOptions> all(2, kResuming);
  all[0].protection = tcp::Protection::Tags;
  all[1].protection = tcp::Protection::Encryption;
  for (TcpOptions& options : all) options.reconnect = reconnect;
  all[0].hostId = 0;
  return all;
}

}  // namespace

TEST_CASE("what only makes bytes late or cuts them differently changes nothing, with and without records") {
  for (const Misdeeds& misdeeds :
       {Misdeeds{.delayMs = 1, .jitterMs = 2}, Misdeeds{.splitBytes = 1500}, Misdeeds{.coalesceBytes = 60'000},
        Misdeeds{.bandwidth = 20'000'000}, Misdeeds{.stallEvery = 500'000, .stallMs = 20}}) {
    for (const TcpOptions& options : {kPlain, kResuming}) {
      CAPTURE(misdeeds.text(), options.reconnect == Reconnect::All);
      int deeds = 0;
      CHECK(traffic(misdeeds, options, 25, &deeds) == "");
    }
  }
}

TEST_CASE("connections that are reset, closed and damaged are made again, without a byte lost, doubled or wrong",
          "[thorough]") {
  int all = 0;
  for (const uint64_t seed : testSeeds(1, tutti::test::kThorough ? 6 : 2)) {
    for (const Misdeeds& misdeeds :
         {Misdeeds{.seed = seed, .resetEvery = 300'000}, Misdeeds{.seed = seed, .closeEvery = 300'000},
          Misdeeds{.seed = seed, .flipEvery = 300'000},
          Misdeeds{
              .seed = seed, .splitBytes = 3000, .flipEvery = 600'000, .closeEvery = 600'000, .resetEvery = 600'000}}) {
      CAPTURE(seed, misdeeds.text());
      int deeds = 0;
      CHECK(traffic(misdeeds, kResuming, 60, &deeds) == "");
      all += deeds;
    }
  }
  CHECK(all > 8);
}

TEST_CASE("under tags and encryption connections are made again as well", "[thorough]") {
  int all = 0;
  for (const uint64_t seed : testSeeds(1, tutti::test::kThorough ? 3 : 1)) {
    for (const TcpOptions& options : sealed(Reconnect::All)) {
      for (const Misdeeds& misdeeds :
           {Misdeeds{.seed = seed, .flipEvery = 200'000}, Misdeeds{.seed = seed, .resetEvery = 300'000}}) {
        CAPTURE(seed, misdeeds.text(), static_cast<int>(options.protection));
        int deeds = 0;
        CHECK(traffic(misdeeds, options, 60, &deeds) == "");
        all += deeds;
      }
    }
  }
  if (Gcm::available().ok()) CHECK(all > 4);
}

TEST_CASE("encrypted connections that are not to be made again end with a reason") {
  for (const TcpOptions& options : sealed(Reconnect::None)) {
    if (options.protection != tcp::Protection::Encryption) continue;  // both ranks are on one host
    int deeds = 0;
    const std::string why = traffic(Misdeeds{.seed = 5, .flipEvery = 100'000}, options, 60, &deeds);
    CAPTURE(why);
    // The end that notices closes the connection, which may be what the other end's call tells first.
    CHECK_THAT(why, Catch::Contains("are not as sent") || Catch::Contains("the connection was closed"));
    CHECK_THAT(why, Catch::Contains("is not made again (TUTTI_RECONNECT=none)"));
  }
}

TEST_CASE("where nothing is made again, a reset or a close is an error that names the rank") {
  for (const Misdeeds& misdeeds :
       {Misdeeds{.seed = 3, .resetEvery = 100'000}, Misdeeds{.seed = 3, .closeEvery = 100'000}}) {
    CAPTURE(misdeeds.text());
    int deeds = 0;
    const std::string why = traffic(misdeeds, kPlain, 60, &deeds);
    CAPTURE(why);
    CHECK(why.find("rank ") != std::string::npos);
    CHECK(why.find("nothing moves") == std::string::npos);
  }
}
