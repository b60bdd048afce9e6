#include <unistd.h>

#include "src/base/assert.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/unit/transport/local_exchange.hpp"
#include "transport/shm/shm_transport.hpp"

namespace tutti::conformance {
namespace {

struct Kind {
  bool sameProcess;  // else the ranks take each other for processes: segments are mapped twice
  bool cma;
};

class ShmHarness : public Harness {
 public:
  ShmHarness(const Kind& kind, int64_t slots, int64_t slotBytes) {
    for (int rank : {0, 1}) {
      ShmConfig config;
      config.self = {.rank = rank,
                     .hostId = 1,
                     .processId = kind.sameProcess ? 1u : 1u + static_cast<uint64_t>(rank),
                     .pid = getpid(),
                     .uid = getuid()};
      config.nRanks = 2;
      config.lanes = 4;
      config.slots = slots;
      config.slotBytes = slotBytes;
      config.cma = kind.cma;
      auto transport = createShmTransport(config, exchange_);
      TUTTI_ASSERT(transport.ok());
      transports_[rank] = std::move(*transport);
    }
  }

  Result<Pair> open(int lane) override { return connectBoth(transports_, lane); }
  Transport* transport(int rank) override { return transports_[rank].get(); }
  bool noticesClose() const override { return false; }

 private:
  test::LocalExchange exchange_;
  std::unique_ptr<Transport> transports_[2];
};

Row row(std::string name, const Kind& kind, int64_t slots, int64_t slotBytes) {
  return {std::move(name), [=] { return std::make_unique<ShmHarness>(kind, slots, slotBytes); }};
}

}  // namespace

std::vector<Row> shmRows() {
  return {row("shm, threads", {true, false}, 4, 128 << 10), row("shm, threads, small slots", {true, false}, 2, 4096),
          row("shm, processes", {false, false}, 4, 64 << 10),
          row("shm, processes that may read each other", {false, true}, 2, 16 << 10)};
}

}  // namespace tutti::conformance
