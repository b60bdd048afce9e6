#include "tests/conformance/harness.hpp"
#include "tests/support/sim/fabric.hpp"

namespace tutti::conformance {
namespace {

class SimHarness : public Harness {
 public:
  SimHarness(uint64_t seed, const SimOptions& options)
      : world_(seed), fabric_(world_, options, 2), transports_{fabric_.transport(0), fabric_.transport(1)} {}

  Result<Pair> open(int lane) override {
    TUTTI_ASSIGN(auto a, awaitEndpoint(*transports_[0], 1, transports_[1]->address(), lane, Deadline::never()));
    TUTTI_ASSIGN(auto b, awaitEndpoint(*transports_[1], 0, transports_[0]->address(), lane, Deadline::never()));
    return Pair{std::move(a), std::move(b)};
  }
  void pump() override { world_.step(); }
  bool threads() const override { return false; }

 private:
  SimWorld world_;
  SimFabric fabric_;
  std::unique_ptr<Transport> transports_[2];
};

Row row(std::string name, uint64_t seed, SimOptions options) {
  return {std::move(name), [=] { return std::make_unique<SimHarness>(seed, options); }};
}

}  // namespace

std::vector<Row> simRows() {
  return {row("sim", 1, {.slots = 4, .slotBytes = 4096}), row("sim, two slots", 2, {.slots = 2, .slotBytes = 1000}),
          row("sim, no direct", 3, {.slots = 3, .slotBytes = 8192, .maxDirectBytes = 0})};
}

}  // namespace tutti::conformance
