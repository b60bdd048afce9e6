#include "tools/nccl_model/predict.hpp"

#include <algorithm>

#include "tools/nccl_model/estimate.hpp"

namespace tutti::nccl_model {
namespace {

WayTime timeOf(const Call& call, Way way, Protocol protocol) {
  switch (way) {
    case Way::Ring: return ringTime(call, protocol);
    case Way::Tree: return treeTime(call, protocol);
    case Way::Nvls:
    case Way::NvlsTree:
    case Way::NvlsSharp: return switchTime(call, way);
    case Way::Pairs: return pairsTime(call, protocol);
  }
  return {};
}

/// The least estimate, where the adapters' plugin does not choose itself.
void choose(const Call& call, Prediction* prediction) {
  const Machine& m = call.machine;
  const std::vector<Candidate>& all = prediction->candidates;
  const Region* region = m.perNode == 8 && call.allReduce() ? regionOf(*m.net, m.nodes, call.bytes) : nullptr;
  const auto tuned = std::ranges::find_if(all, [&](const Candidate& c) {
    return region != nullptr && c.way == region->way && c.protocol == region->protocol;
  });
  prediction->byPlugin = tuned != all.end();
  const auto best = prediction->byPlugin ? tuned : std::ranges::min_element(all, {}, &Candidate::estimateUs);
  prediction->chosen = static_cast<size_t>(best - all.begin());
}

Status check(const Machine& machine, Collective collective, const Settings& settings) {
  constexpr int kOldest = 218, kNewest = 230;
  if (settings.release < kOldest || settings.release > kNewest) {
    return invalidArgument("--nccl-release: figures are of 2.18 to 2.30");
  }
  if (settings.gpusPerProcess < 1 || settings.gpusPerProcess > machine.perNode) {
    return invalidArgument("--gpus-per-process ", settings.gpusPerProcess, ": 1 to the ", machine.perNode,
                           " GPUs of a node");
  }
  switch (collective) {
    case Collective::AllReduce:
    case Collective::AllGather:
    case Collective::ReduceScatter:
    case Collective::Broadcast:
    case Collective::Reduce:
    case Collective::AllToAll: return {};
    default: break;
  }
  return invalidArgument("--as nccl: ", collectiveKey(collective),
                         " is not modelled; allreduce, allgather, "
                         "reducescatter, broadcast, reduce and alltoall are");
}

}  // namespace

Result<Prediction> predict(const Machine& machine, Collective collective, double bytes, const Settings& settings,
                           const Fitted& fitted) {
  TUTTI_TRY(check(machine, collective, settings));
  const Call call{machine, ringsOf(machine), collective, bytes, settings, fitted};
  Prediction prediction;
  for (const Way way : kWays) {
    for (const Protocol protocol : kProtocols) {
      if (!considers(call, way, protocol)) continue;
      prediction.candidates.push_back({way, protocol, estimateUs(call, way, protocol), timeOf(call, way, protocol)});
    }
  }
  if (prediction.candidates.empty()) {
    return invalidArgument("--as nccl: no algorithm is left by --algorithm ", settings.ways, " --protocol ",
                           settings.protocols, " for ", collectiveKey(collective), " on this machine");
  }
  choose(call, &prediction);
  prediction.launchUs = settings.gpusPerProcess * kernelLaunchUs();
  if (settings.alone) prediction.aloneUs = fitted.aloneUs;
  return prediction;
}

}  // namespace tutti::nccl_model
