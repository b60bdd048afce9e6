#include "src/base/assert.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/support/mailbox.hpp"
#include "tests/unit/transport/local_exchange.hpp"

namespace tutti::conformance {
namespace {

struct NoStreams : StreamExchange {
  Result<Fd> open(int, int, Deadline) override { return internalError("a mailbox needs no streams"); }
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

  Result<Pair> open(int lane) override {
    const Deadline deadline = Deadline::inMs(10'000);
    TUTTI_ASSIGN(auto a, transports_[0]->connect(1, transports_[1]->address(), lane, deadline));
    TUTTI_ASSIGN(auto b, transports_[1]->connect(0, transports_[0]->address(), lane, deadline));
    return Pair{std::move(a), std::move(b)};
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
