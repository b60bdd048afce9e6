#include "src/base/assert.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/conformance/loopback.hpp"
#include "transport/verbs/transport.hpp"

namespace tutti::conformance {
namespace {

class VerbsHarness : public Harness {
 public:
  explicit VerbsHarness(const verbs::Options& options) : streams_(AF_INET, 0), views_{{streams_, 0}, {streams_, 1}} {
    for (int rank : {0, 1}) transports_[rank] = std::make_unique<VerbsTransport>(views_[rank], rank, options);
  }

  Result<Pair> open(int lane) override { return connectBoth(transports_, lane); }
  Sleeper* sleeper(int rank) override { return transports_[rank]->sleeper(); }
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

Row row(std::string name, const verbs::Options& options) {
  return {std::move(name), [=] { return std::make_unique<VerbsHarness>(options); }};
}

}  // namespace

std::vector<Row> verbsRows() {
  const verbs::Options usual{.slotBytes = 32 << 10};
  static const bool there = verbs::Device::open(usual).ok();
  if (!there) return {};
  std::vector<Row> rows{row("verbs", usual), row("verbs, two small slots", {.slots = 2, .slotBytes = 9000}),
                        row("verbs, three queue pairs in turn", {.queuePairs = 3, .slotBytes = 64 << 10}),
                        row("verbs, split over three queue pairs",
                            {.queuePairs = 3, .splits = true, .adaptiveRouting = 1, .slotBytes = 64 << 10})};
  if (verbs::Device::open({.rails = 2}).value().size() == 2) {
    rows.push_back(row("verbs, two rails", {.rails = 2, .slotBytes = 64 << 10}));
    rows.push_back(row("verbs, two rails of two queue pairs",
                       {.rails = 2, .queuePairs = 2, .splits = true, .slotBytes = 128 << 10}));
  }
  return rows;
}

}  // namespace tutti::conformance
