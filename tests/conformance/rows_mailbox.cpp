#include "src/base/assert.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/support/mailbox.hpp"
#include "tests/unit/transport/local_exchange.hpp"

namespace tutti::conformance {
namespace {

struct NoStreams : StreamExchange {
  PendingFd open(int, StreamIndex) override {
    return pendingBy<Fd>([]() -> Result<Fd> { return internalError("a mailbox needs no streams"); });
  }
};

class MailboxHarness : public Harness {
 public:
  MailboxHarness() {
    for (int rank : {0, 1}) {
      auto transport = test::kMailboxEntry.create(
          {.self = {.rank = rank}, .nRanks = 2, .sliceBytes = 32 << 10, .descriptors = exchange_, .streams = streams_});
      TUTTI_ASSERT(transport.ok());
      transports_[rank] = std::move(*transport);
    }
  }

  Result<Pair> open(int lane) override { return connectBoth(transports_, lane); }
  std::vector<std::unique_ptr<MemoryRegistration>> keep(std::span<std::byte> memory) override {
    std::vector<std::unique_ptr<MemoryRegistration>> kept;
    for (const auto& transport : transports_) {
      kept.push_back(std::move(*transport->registerMemory({MemoryKind::Host, -1, memory.data(), memory.size()})));
    }
    return kept;
  }

 private:
  test::LocalExchange exchange_;
  NoStreams streams_;
  std::unique_ptr<Transport> transports_[2];
};

}  // namespace

std::vector<Row> mailboxRows() {
  return {{"mailbox", [] { return std::make_unique<MailboxHarness>(); }}};
}

}  // namespace tutti::conformance
