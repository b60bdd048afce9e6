// Which links between hosts are measured without being asked for.
#include "src/comm/host_links.hpp"

#include <catch2/catch.hpp>

#include "src/comm/peer_descriptor.hpp"
#include "transport/tcp/entry.hpp"

using namespace tutti;

TEST_CASE("a link is measured if it is one of sockets between hosts and an end does not know its speed") {
  struct End {
    uint64_t network;
    uint32_t paths, mbps;
  };
  struct Row {
    End a, b;
    bool unknown;
  };
  constexpr LinkProfile kOther = {.key = "other", .betweenHosts = true};
  const auto of = [](const End& end) {
    PeerDescriptor descriptor;
    descriptor.network = end.network;
    descriptor.paths = end.paths;
    descriptor.pathsMbps = end.mbps;
    return descriptor;
  };
  for (const Row& row :
       {Row{{1, 1, 0}, {2, 1, 0}, true}, Row{{1, 1, 1000}, {2, 1, 0}, true}, Row{{1, 1, 1000}, {2, 1, 10000}, false},
        Row{{1, 1, 0}, {1, 1, 0}, false}, Row{{1, 2, 0}, {2, 2, 0}, false}, Row{{1, 2, 0}, {2, 1, 0}, true}}) {
    CAPTURE(row.a.network, row.a.paths, row.a.mbps, row.b.network, row.b.paths, row.b.mbps);
    CHECK(isUnknown(of(row.a), of(row.b), kTcpRemote) == row.unknown);
    CHECK(isUnknown(of(row.b), of(row.a), kTcpRemote) == row.unknown);
    CHECK_FALSE(isUnknown(of(row.a), of(row.b), kOther));
  }
}
