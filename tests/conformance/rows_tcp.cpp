#include "src/base/assert.hpp"
#include "src/base/clock.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/conformance/loopback.hpp"
#include "transport/tcp/transport.hpp"

namespace tutti::conformance {
namespace {

// Long enough for a connection that was made again to carry something before it is cut, on any machine.
constexpr int64_t kBetweenCutsNs = 2 * kMs;

class TcpHarness : public Harness {
 public:
  TcpHarness(int family, const TcpOptions& options, int bufferBytes, size_t cutEvery)
      : streams_(family, bufferBytes),
        views_{{streams_, 0}, {streams_, 1}},
        resumes_(options.reconnect != Reconnect::None),
        cutEvery_(cutEvery) {
    if (cutEvery > 0) streams_.remember();
    for (int rank : {0, 1}) {
      auto transport = TcpTransport::create(views_[rank], rank, options);
      TUTTI_ASSERT(transport.ok());
      transports_[rank] = std::move(*transport);
    }
  }

  Result<Pair> open(int lane) override { return connectBoth(transports_, lane); }
  void pump() override {
    if (cutEvery_ == 0 || ++pumps_ < cutEvery_ || nowNs() < nextCutNs_) return;
    pumps_ = 0;
    nextCutNs_ = nowNs() + kBetweenCutsNs;
    streams_.cutOne(++cuts_);
  }
  Transport* transport(int rank) override { return transports_[rank].get(); }
  bool showsArrival() const override { return !resumes_; }

 private:
  LoopbackStreams streams_;
  LoopbackStreams::Of views_[2];
  std::unique_ptr<Transport> transports_[2];
  const bool resumes_;
  const size_t cutEvery_;  // so many calls of pump() at least; 0: never
  size_t pumps_ = 0;       // since the last cut
  size_t cuts_ = 0;
  int64_t nextCutNs_ = 0;
};

Row row(std::string name, int family, TcpOptions options, int bufferBytes, size_t cutEvery = 0) {
  return {std::move(name), [=] { return std::make_unique<TcpHarness>(family, options, bufferBytes, cutEvery); }};
}

}  // namespace

std::vector<Row> tcpRows() {
  std::vector<Row> out;
  if (hasFamily(AF_INET)) {
    out.push_back(row("tcp IPv4", AF_INET, {.nSockets = 2, .slotBytes = 256 << 10}, 0));
    out.push_back(row("tcp IPv4, small buffers", AF_INET, {.nSockets = 1, .slotBytes = 512 << 10}, 64 << 10));
  }
  if (hasFamily(AF_INET6)) out.push_back(row("tcp IPv6", AF_INET6, {.nSockets = 2, .slotBytes = 128 << 10}, 0));
  // Every message comes in many parts.  Not tcp, which with such buffers waits for its timers.
  out.push_back(row("tcp's code over local sockets, tiny buffers", AF_UNIX, {.nSockets = 1, .slotBytes = 60'000}, 1));
  out.push_back(row("tcp's code over three local sockets", AF_UNIX, {.nSockets = 3, .slotBytes = 200'000}, 1));
  const TcpOptions resuming{.nSockets = 2, .slotBytes = 200'000, .reconnect = Reconnect::All, .windowBytes = 256 << 10};
  out.push_back(row("tcp's code over local sockets that are made again", AF_UNIX, resuming, 0));
  if (hasFamily(AF_INET)) out.push_back(row("tcp that is cut and made again", AF_INET, resuming, 0, 40));
  return out;
}

}  // namespace tutti::conformance
