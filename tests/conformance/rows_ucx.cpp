#include <cstdlib>

#include "src/base/assert.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/conformance/loopback.hpp"
#include "transport/ucx/transport.hpp"

namespace tutti::conformance {
namespace {

class UcxHarness : public Harness {
 public:
  explicit UcxHarness(const ucx::Options& options) : streams_(AF_INET, 0), views_{{streams_, 0}, {streams_, 1}} {
    for (int rank : {0, 1}) transports_[rank] = std::make_unique<UcxTransport>(views_[rank], rank, options);
  }

  Result<Pair> open(int lane) override { return connectBoth(transports_, lane); }
  void pump() override { (void)progress(); }
  Transport* transport(int rank) override { return transports_[rank].get(); }
  std::vector<std::unique_ptr<MemoryRegistration>> keep(std::span<std::byte> memory) override {
    std::vector<std::unique_ptr<MemoryRegistration>> kept;
    for (const auto& transport : transports_) {
      if (memory.empty()) continue;
      auto one = transport->registerMemory({MemoryKind::Host, -1, memory.data(), memory.size()});
      TUTTI_ASSERT(one.ok());
      kept.push_back(std::move(*one));
    }
    return kept;
  }

 private:
  LoopbackStreams streams_;
  LoopbackStreams::Of views_[2];
  std::unique_ptr<Transport> transports_[2];
};

using Settings = std::vector<std::pair<std::string, std::string>>;

Row row(std::string name, size_t slots, size_t slotBytes, const Settings& settings) {
  const ucx::Options options{.slots = slots, .slotBytes = slotBytes, .closeMs = 5, .settings = settings};
  return {std::move(name), [=] { return std::make_unique<UcxHarness>(options); }};
}

}  // namespace

// UCX chooses between eager and rendezvous messages by their size: both are wanted, also of small ones.
std::vector<Row> ucxRows() {
  if (!ucx::library().ok()) return {};
  if (std::getenv("UCX_TLS") != nullptr) return {row("ucx", 4, 32 << 10, {}), row("ucx, two slots", 2, 9000, {})};
  return {row("ucx tcp", 4, 32 << 10, {{"TLS", "tcp"}}),
          row("ucx tcp, two slots, rendezvous", 2, 9000, {{"TLS", "tcp"}, {"RNDV_THRESH", "64"}}),
          row("ucx tcp, 256 KiB, eager", 4, 256 << 10, {{"TLS", "tcp"}, {"RNDV_THRESH", "inf"}}),
          row("ucx shm", 4, 32 << 10, {{"TLS", "shm"}}), row("ucx any", 3, 128 << 10, {})};
}

}  // namespace tutti::conformance
