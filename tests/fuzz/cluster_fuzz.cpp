// Any bytes as a description of a cluster: refused with a sentence, or one that is sound; small ones are simulated.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/require.hpp"
#include "tools/cluster/simulate.hpp"

using namespace tutti;
using namespace tutti::sim;
using tutti::test::require;

namespace {

constexpr int kMostSimulated = 24;  // ranks, to keep a run short

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto cluster = parseCluster(text, "input", /*files=*/false);
  require(cluster.ok() || cluster.status().message().starts_with("input"));
  if (!cluster.ok() || cluster->nRanks() > kMostSimulated) return 0;
  require(!describe(*cluster).empty());
  const auto network = Network::make(*cluster);
  require(network.ok() || !network.status().message().empty());
  if (!network.ok()) return 0;
  Task task;
  task.algorithm = findAlgorithm(Collective::AllReduce, "ring");
  task.bytes = 4096;
  const auto outcome = simulate(*network, task, {.detail = Detail::Fewest, .mostLoops = 3});
  require(outcome.ok() ? outcome->us >= 0 : !outcome.status().message().empty());
  return 0;
}
