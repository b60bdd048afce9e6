#include "src/base/assert.hpp"
#include "tests/conformance/harness.hpp"
#include "tests/conformance/loopback.hpp"
#include "tests/support/net_plugin/net_plugin.hpp"
#include "transport/ncclnet/transport.hpp"

namespace tutti::conformance {
namespace {

class NcclnetHarness : public Harness {
 public:
  explicit NcclnetHarness(const ncclnet::Options& options)
      : streams_(AF_INET, 0), views_{{streams_, 0}, {streams_, 1}} {
    for (int rank : {0, 1}) transports_[rank] = std::make_unique<NcclnetTransport>(views_[rank], rank, options);
  }

  Result<Pair> open(int lane) override { return connectBoth(transports_, lane); }
  void pump() override { (void)progress(); }
  Transport* transport(int rank) override { return transports_[rank].get(); }

 private:
  LoopbackStreams streams_;
  LoopbackStreams::Of views_[2];
  std::unique_ptr<Transport> transports_[2];
};

Row row(std::string name, const std::string& plugin, size_t slots, size_t slotBytes) {
  const ncclnet::Options options{.plugins = plugin, .device = {}, .slots = slots, .slotBytes = slotBytes, .closeMs = 5};
  return {std::move(name), [=] { return std::make_unique<NcclnetHarness>(options); }};
}

}  // namespace

std::vector<Row> ncclnetRows() {
  std::vector<Row> out;
  for (const int version : {8, 9, 10, 12})
    out.push_back(row(cat("ncclnet v", version), test::netPluginPath(version), 4, 9000));
  out.push_back(row("ncclnet v11", test::netPluginPath(11), 4, 128 << 10));
  out.push_back(row("ncclnet v11, two slots", test::netPluginPath(11), 2, 33'000));
  // The circle closed: tcp, as a plugin.
  out.push_back(row("ncclnet over libnccl-net-tutti", TUTTI_NET_PLUGIN_FILE, 4, 128 << 10));
  out.push_back(row("ncclnet over libnccl-net-tutti, two slots", TUTTI_NET_PLUGIN_FILE, 2, 9000));
  return out;
}

}  // namespace tutti::conformance
