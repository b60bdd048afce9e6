// What the planner is told of this communicator, and what it is asked.
#include <algorithm>
#include <cstdio>
#include <map>

#include "src/base/config.hpp"
#include "src/base/copy.hpp"
#include "src/base/log.hpp"
#include "src/calibrate/measure.hpp"
#include "src/calibrate/probes.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/cuda/costs.hpp"
#include "src/exec/one_pass.hpp"
#include "src/plan/device_prices.hpp"
#include "src/plan/fit.hpp"
#include "src/plan/machine_levels.hpp"

namespace tutti {
namespace {

constexpr int kMostChannels = 8;

/// The slowest kinds inside processes, inside nodes and between them.  Of a group of ranks those to its first tell:
/// where ranks differ in what joins them, some differ from the first.
LinkUse linkUse(const Links& links, const std::vector<int>& nodes, const LinkKinds& kinds) {
  const auto place = [&](const LinkProfile& link) {
    return std::ranges::find(kinds, link, &LinkDescription::profile) - kinds.begin();
  };
  const auto add = [&](int a, int b, std::optional<LinkProfile>* slowest) {
    const std::optional<LinkProfile> link = links.linkBetween(a, b);
    if (link && (!*slowest || place(*link) > place(**slowest))) *slowest = link;
  };
  LinkUse use;
  std::map<std::pair<int, uint64_t>, int> firstOfProcess;
  std::map<int, int> firstOfNode;
  for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
    const int node = nodes[static_cast<size_t>(rank)];
    const uint64_t process = links.cards()[static_cast<size_t>(rank)].info.processId;
    const auto [ofProcess, newProcess] = firstOfProcess.try_emplace({node, process}, rank);
    const auto [ofNode, newNode] = firstOfNode.try_emplace(node, rank);
    if (!newProcess) add(ofProcess->second, rank, &use.process);
    if (!newNode) add(ofNode->second, rank, &use.intra);
    if (newNode && rank > 0) add(0, rank, &use.inter);
  }
  return use;
}

double worstRanksPerCore(const std::vector<RankCard>& cards) {
  std::map<uint64_t, int> ranks;
  for (const RankCard& card : cards) ++ranks[card.info.hostId];
  double worst = 1;
  for (const auto& [host, count] : ranks) worst = std::max(worst, ranksPerCore(count, cpusOfHost(cards, host)));
  return worst;
}

}  // namespace

Status addMeasurements(int nRanks, TransportTable table, RankCard* card) {
  const MachineIdentity machine = thisMachine();
  const LinkKinds kinds = linkKinds(table);
  const auto measure = [&](const MachineIdentity& of) -> Result<Calibration> {
    return measureCalibration(of, kinds, machineProbes(table));
  };
  TUTTI_ASSIGN(const Calibration calibration, loadOrMeasure(machine, kinds, measure));
  card->calibration = toText(calibration);
  Tuning tuning = keptTuning(machine);
  std::erase_if(tuning.sets, [&](const Tuning::Set& set) { return set.ranks.nRanks != nRanks; });
  card->tuning = toText(tuning);
  return {};
}

// All ranks use rank 0's figures: so they choose alike.
Status Comm::setUpPlanner() {
  const auto& cards = links_->cards();
  TUTTI_ASSIGN(planner_.calibration, parseCalibration(cards[0].calibration));
  TUTTI_ASSIGN(planner_.tuning, parseTuning(cards[0].tuning));
  planner_.overrides.nChannels = settings_.nChannels;
  if (planner_.overrides.nChannels == 0 && settings_.minChannels > 1) {
    planner_.overrides.nChannels = std::min({settings_.minChannels, settings_.maxChannels, kMostChannels});
    planner_.overrides.nearestChannels = true;
  }
  setStreamingThreshold(static_cast<size_t>(planner_.calibration.streamFromBytes));
  TUTTI_ASSIGN(const int64_t explain, configInteger("TUTTI_EXPLAIN"));
  planner_.explain = explain != 0 && rank() == 0;
  planner_.links = linkUse(*links_, nodes_, linkKinds(settings_.table));
  setUpDeviceCosts();
  if (!anyCuda()) planner_.ranks = ::tutti::tunedRanks(planRequest(shapeOf(Call{}, PlanKey{})));
  walks_ = sharedWalks(planRequest(shapeOf(Call{}, PlanKey{})), planner_.calibration);
  if (planner_.blocks) blockWalks_ = sharedWalks(planRequest(shapeOf(Call{}, PlanKey{}), true), planner_.calibration);
  return {};
}

// Where devices do the work, cores of the host are shared by nobody.
void Comm::setUpDeviceCosts() {
  const auto& cards = links_->cards();
  const bool onDevice = cudaWay_ == CudaWay::Stream || cudaWay_ == CudaWay::Resident;
  planner_.links.ranksPerCore = onDevice ? 1 : worstRanksPerCore(cards);
  planner_.levels = machineLevels(machine_.graph, machine_.levels, planner_.links);
  if (cudaWay_ == CudaWay::Proxy) planner_.device = proxyCosts(cards);
  if (!onDevice) return;
  planner_.device = cudaCosts(DeviceWay::Streams, cards, machine_);
  if (cudaWay_ == CudaWay::Resident) planner_.blocks = cudaCosts(DeviceWay::Blocks, cards, machine_);
  planner_.levels = deviceLevels(planner_.device->links);
}

Walks* Comm::walksFor(bool resident) const { return resident ? blockWalks_.get() : walks_.get(); }

PlanRequest Comm::planRequest(const Shape& shape, bool resident) const {
  PlanRequest request;
  request.shape = shape;
  request.shape.rank = 0;
  request.shape.inPlace = false;  // differs between ranks where only the root is in place
  request.links = planner_.links;
  request.levels = &planner_.levels;
  const std::optional<DeviceCosts>& device = resident ? planner_.blocks : planner_.device;
  if (device) request.device = &*device;
  const bool reads = !anyCuda() && planner_.links.intra && planner_.links.intra->lends();
  request.directPossible = resident ? onOneDevice(links_->cards()) : reads;
  request.mostChannels =
      planner_.overrides.nChannels > 0 ? kMostChannels : std::min(kMostChannels, settings_.maxChannels);
  // A channel is a block there, as many as are worth it, if nobody sets a limit.
  const bool limited = planner_.overrides.nChannels > 0 || settings_.maxChannels < CommSettings().maxChannels;
  if (resident && !limited) request.mostChannels = residentLanes_;
  request.boardBytes = !anyCuda() && links_->hasBoards() ? kBoardBytes : 0;
  // Ranks that do not know the sizes of others' blocks cannot agree on what fits a message.  Blocks on a device, whose
  // messages cost little, do not gather.
  const bool knowsSizes = !shape.uneven || everyoneKnowsBlocks(shape.collective);
  request.joinBytes = !resident && knowsSizes ? mostJoinedBytes(planner_.links, sliceBytes_, request.device) : 0;
  request.mostLanes = mostLanes(resident);
  if (!anyCuda()) request.tuning = &planner_.tuning;
  request.overrides = planner_.overrides;
  foreignPlans_.offer(&request);
  return request;
}

Result<Choice> Comm::choosePlan(const Shape& shape, const Call& call, bool resident) {
  PlanRequest request = planRequest(shape, resident);
  request.wholeTable = planner_.explain;
  TUTTI_ASSIGN(Choice choice, ::tutti::plan(request, planner_.calibration, walksFor(resident)));
  if (planner_.explain) {
    const std::string table = cat("tutti: plan for ", callName(call), "\n", explain(request, choice));
    std::fwrite(table.data(), 1, table.size(), stderr);
  }
  tellUnmet(choice.unmet, shape, describe(choice));
  return choice;
}

// Rank 0 speaks for all, which have come to the same.
void Comm::tellUnmet(const std::vector<Unmet>& unmet, const Shape& shape, const std::string& taken) {
  if (rank() != 0) return;
  Shape call = shape;
  call.inPlace = false;
  for (const Unmet& one : unmet) {
    const char* of = one.ofCollective ? collectiveKey(shape.collective) : "";
    if (!told_.insert(cat(of, " ", one.asked, " ", one.reason)).second) continue;
    TUTTI_WARN("plan", "rank ", rank(), ": ", sentence(one, call), "; chosen by cost: ", taken);
  }
}

// Which algorithm it is depends on no count, as the ranks know none in common.
Result<bool> Comm::needsAllCounts(const Call& call, bool resident) {
  if (!call.counts || call.collective != Collective::AllToAll) return false;
  std::optional<bool>& forwards = forwardsBlocks_[resident ? 1 : 0];
  if (!forwards) {
    TUTTI_ASSIGN(const Choice choice, ::tutti::plan(planRequest(shapeOf(call, keyOf(call)), resident),
                                                    planner_.calibration, walksFor(resident)));
    forwards = choice.algorithm != nullptr && choice.algorithm->forwards;
  }
  return *forwards;
}

Result<CallEstimate> Comm::estimate(const Call& call) const {
  if (call.kind != CallKind::Collective) return estimateMessage(call.root, call.count * dataTypeBytes(call.dtype));
  Shape shape = shapeOf(call, keyOf(call));
  const bool resident = planner_.blocks.has_value();
  PlanKey key = keyOf(call);
  key.resident = resident;
  TUTTI_ASSIGN(const std::optional<Honoured> pass, inOnePass(key, shape));
  if (pass) {
    const auto bytes = static_cast<double>(passTraffic(passOf(shape), nRanks()));
    return CallEstimate{onePassUs(*planner_.blocks, bytes), "onepass", Protocol::Direct, 1};
  }
  PlanRequest request = planRequest(shape, resident);
  TUTTI_ASSIGN(const Choice choice, ::tutti::plan(request, planner_.calibration, walksFor(resident)));
  request.overrides = choice.overrides;
  CallEstimate estimate{choice.costUs, choice.name(), choice.protocol, choice.nChannels, choice.joined};
  if (shape.uneven && choice.algorithm != nullptr) {  // chosen for any size, but this is the size
    shape.bytes = largestBlock(call) * dataTypeBytes(call.dtype);
    shape.parts = choice.parts;
    estimate.timeUs = choice.algorithm->costUs(shape, costModel(request, planner_.calibration, choice.protocol));
    if (request.device != nullptr) estimate.timeUs += request.device->callUs;
  }
  return estimate;
}

bool Comm::lends(int peer, size_t bytes) const {
  if (anyCuda()) return false;
  if (planner_.overrides.protocol) return *planner_.overrides.protocol == Protocol::Direct;
  const LinkProfile& link = links_->linkTo(peer);
  return link.lends() && messageTo(link, bytes).protocol == Protocol::Direct;
}

// What the sender lends is read in one go, and what it does not goes in pieces of a slot.
size_t Comm::sliceBytesTo(int peer) const {
  const bool pulls = !anyCuda() && links_->linkTo(peer).directReads == DirectReads::SystemCalls;
  return pulls ? pullBytes_ : sliceBytes_;
}

MessageCost Comm::messageTo(const LinkProfile& link, size_t bytes) const {
  if (link.lends() && planner_.ranks && planner_.ranks->intra == link.key) {
    if (const auto tuned = tunedSend(planner_.tuning, *planner_.ranks, bytes)) return {tuned->protocol, tuned->us};
  }
  // Both ends of a message are busy with it, so ranks that share a core take turns.
  MessageCost message = messageCost(link, bytes, link.lends(), planner_.calibration);
  message.costUs *= planner_.links.ranksPerCore;
  return message;
}

CallEstimate Comm::estimateMessage(int peer, size_t bytes) const {
  const Calibration& costs = planner_.calibration;
  const double copyGBps = planner_.device ? planner_.device->memoryGBps / 2 : costs.copyGBps;
  if (peer == rank()) return {static_cast<double>(bytes) / (copyGBps * 1e3), "send", Protocol::Direct, 1};
  const MessageCost message = messageTo(links_->linkTo(peer), bytes);
  if (!planner_.device) return {message.costUs, "send", message.protocol, 1};
  // Sends and receives go by streams, or by proxies, which add what they do to the host's link.
  const std::vector<int>& devices = planner_.device->links.deviceOf;
  const bool same = !devices.empty() && devices[static_cast<size_t>(peer)] == devices[static_cast<size_t>(rank())];
  const bool proxy = planner_.device->way == DeviceWay::Proxy;
  const double us = deviceMessageUs(*planner_.device, same, bytes, sliceBytes_);
  return {proxy ? us + message.costUs : us, "send", proxy ? message.protocol : Protocol::Slots, 1};
}

}  // namespace tutti
