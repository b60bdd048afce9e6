#include "tests/conformance/harness.hpp"
#include "transport/self/self_transport.hpp"

namespace tutti::conformance {
namespace {

class SelfHarness : public Harness {
 public:
  Result<Pair> open(int lane) override {
    TUTTI_ASSIGN(auto endpoint, awaitEndpoint(*transport_, 0, transport_->address(), lane, Deadline::inMs(10'000)));
    return Pair{std::move(endpoint), nullptr};
  }
  bool threads() const override { return false; }
  bool hasTwoEnds() const override { return false; }

 private:
  std::unique_ptr<Transport> transport_ = createSelfTransport(0, 32 << 10);
};

}  // namespace

std::vector<Row> selfRows() {
  return {{"self", [] { return std::make_unique<SelfHarness>(); }}};
}

}  // namespace tutti::conformance
