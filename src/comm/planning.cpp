// What the planner is told of this communicator, and what it is asked.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>

#include "src/base/config.hpp"
#include "src/base/copy.hpp"
#include "src/base/log.hpp"
#include "src/calibrate/measure.hpp"
#include "src/calibrate/probes.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/cuda/costs.hpp"
#include "src/comm/host_links.hpp"
#include "src/exec/cuda/one_pass.hpp"
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
    const uint64_t process = links.descriptors()[static_cast<size_t>(rank)].info.processId;
    const auto [ofProcess, newProcess] = firstOfProcess.try_emplace({node, process}, rank);
    const auto [ofNode, newNode] = firstOfNode.try_emplace(node, rank);
    if (!newProcess) add(ofProcess->second, rank, &use.process);
    if (!newNode) add(ofNode->second, rank, &use.intra);
    if (newNode && rank > 0) add(0, rank, &use.inter);
  }
  return use;
}

/// How the ranks share cores; hosts may be parts of one machine.
void addCores(const std::vector<PeerDescriptor>& descriptors, LinkUse* use) {
  std::map<uint64_t, int> ranks;
  for (const PeerDescriptor& descriptor : descriptors) ++ranks[descriptor.kernel];
  for (const auto& [kernel, count] : ranks)
    use->ranksPerCore = std::max(use->ranksPerCore, ranksPerCore(count, cpusOfMachine(descriptors, kernel)));
  use->nodesShareCores = ranks.size() == 1 && use->inter && use->ranksPerCore > 1;
}

}  // namespace

// The other ranks wait meanwhile: whatever the machine does, for less than half of their deadline.
Status addMeasurements(int nRanks, const CommSettings& settings, PeerDescriptor* descriptor) {
  constexpr int kBudgetMs = 200;
  const int timeoutMs = settings.timeoutMs;
  std::vector<const TransportEntry*> table;  // the others would take time, and may warn that they cannot be used
  for (const TransportEntry* entry : settings.table)
    if (isAllowed(*entry, settings)) table.push_back(entry);
  const int budgetMs = timeoutMs <= 0 ? kBudgetMs : std::min(kBudgetMs, std::max(timeoutMs / 20, 1));
  const MachineIdentity machine = thisMachine();
  const LinkKinds kinds = linkKinds(table);
  static std::atomic<bool> measured = false;  // by this process, whose next communicators do not wait for the rest
  Measuring measuring;
  measuring.measure = [&](const MachineIdentity& of) -> Result<Calibration> {
    measured = true;
    return measureCalibration(of, kinds, machineProbes(table), budgetMs);
  };
  if (!measured) {
    measuring.later = [&](const Calibration& first) -> Result<Calibration> {
      measured = true;
      return measureLater(first, machineProbes(table), budgetMs);
    };
  }
  TUTTI_ASSIGN(const Calibration calibration, loadOrMeasure(machine, kinds, measuring, glanceAtMachine(table)));
  descriptor->calibration = toText(calibration);
  Tuning tuning = keptTuning(machine);
  std::erase_if(tuning.sets, [&](const Tuning::Set& set) { return set.ranks.nRanks != nRanks; });
  descriptor->tuning = toText(tuning);
  return {};
}

void CallPlanner::take(ForeignPlans plans, const Overrides& overrides) {
  foreignPlans_ = std::move(plans);
  state_.overrides = overrides;
}

// All ranks use rank 0's figures: so they choose alike.
Status CallPlanner::setUp() {
  const auto& descriptors = comm_.links().descriptors();
  TUTTI_ASSIGN(state_.calibration, parseCalibration(descriptors[0].calibration));
  TUTTI_ASSIGN(state_.tuning, parseTuning(descriptors[0].tuning));
  if (choosesByBuiltIns()) {
    state_.calibration = defaultCalibration(state_.calibration.machine, linkKinds(comm_.settings().table));
    state_.tuning = {};
  }
  state_.overrides.nChannels = comm_.settings().nChannels;
  if (state_.overrides.nChannels == 0 && comm_.settings().minChannels > 1) {
    state_.overrides.nChannels = std::min({comm_.settings().minChannels, comm_.settings().maxChannels, kMostChannels});
    state_.overrides.nearestChannels = true;
  }
  setCopyLoops(state_.calibration.copyLoops);
  setStreamingThreshold(static_cast<size_t>(state_.calibration.streamFromBytes));
  TUTTI_ASSIGN(const int64_t explain, configInteger("TUTTI_EXPLAIN"));
  state_.explain = explain != 0 && comm_.rank() == 0;
  state_.links = linkUse(comm_.links(), comm_.layout().nodes, linkKinds(comm_.settings().table));
  priceHostLinks();
  setUpDeviceCosts();
  TUTTI_TRY(setUpLearning());
  if (!comm_.layout().anyCuda()) state_.ranks = ::tutti::tunedRanks(planRequest(shapeOf(Call{}, PlanKey{})));
  estimates_ = sharedEstimates(planRequest(shapeOf(Call{}, PlanKey{})), state_.calibration);
  if (state_.blocks)
    blockEstimates_ = sharedEstimates(planRequest(shapeOf(Call{}, PlanKey{}), true), state_.calibration);
  return {};
}

// The way of a call decides the bits of its result if messages are rounded.  Reproducible results therefore must not
// depend on measured figures, which the next run may measure anew.
bool CallPlanner::choosesByBuiltIns() const {
  return comm_.settings().reproducible && comm_.settings().wire != WireFormat::Full;
}

// Ranks on CUDA devices enqueue calls, and nobody on the host hears how long one took.
Status CallPlanner::setUpLearning() {
  constexpr int kMostRanks = 64;
  TUTTI_ASSIGN(const int64_t level, configInteger("TUTTI_LEARN"));
  const bool can = !comm_.layout().anyCuda() && comm_.nRanks() > 1 && comm_.nRanks() <= kMostRanks;
  if (level == 0 || !can || comm_.settings().reproducible) return {};
  // Measured on 2, 4 and 8 ranks: a rank works a tenth of a millisecond for each rank that its schedules are about
  // (perf/results/learning-2core-vm.txt), and the ranks of a core do so one after the other.
  constexpr double kPlanNsPerRank = 1e5;
  const double perCore = state_.links.ranksPerCore;
  Learning::Prices prices{.planNs = static_cast<int64_t>(kPlanNsPerRank * comm_.nRanks() * perCore),
                          .nRanks = comm_.nRanks()};
  // A call takes each rank a message of its part (of a vector, or of all blocks) at the least, one after the other on a
  // core that they share.
  if (const auto& link = state_.links.inter ? state_.links.inter : state_.links.intra) {
    const LinearCost& cost = state_.calibration.at(*link, Protocol::Slots).cost;
    prices.callNs = 1e3 * cost(0) * perCore;
    prices.nsPerByte = perCore / cost.bandwidthGBps / comm_.nRanks();
  }
  std::optional<Comparison> comparison;
  if (comm_.links().hasBoards()) comparison.emplace(comm_.links(), comm_.rank());
  learning_ = std::make_unique<Learning>(level == 1 ? Learning::Among::SameBits : Learning::Among::All, prices,
                                         std::move(comparison));
  TUTTI_DEBUG("plan", "calls that are made often try several ways", level == 1 ? " of the same bits" : "");
  return {};
}

void CallPlanner::priceHostLinks() {
  if (!state_.links.inter || choosesByBuiltIns()) return;
  const PathUse use = pathUse(comm_.links());
  if (use.mbps > 0) {
    constexpr double kPayloadShare = 0.94;  // with 1500-byte frames
    const LinkProfile& link = *state_.links.inter;
    for (const Protocol protocol : kAllProtocols) {
      state_.calibration.at(link, protocol).cost.bandwidthGBps = use.mbps / 8e3 * kPayloadShare;
    }
    if (comm_.rank() == 0)
      TUTTI_INFO("plan", "links between hosts go by ", use.paths, use.paths == 1 ? " interface" : " interfaces", " of ",
                 use.mbps, use.paths == 1 ? " Mbit/s" : " Mbit/s together");
  }
  if (hostLinks_) applyHostLink(*hostLinks_, *state_.links.inter, &state_.calibration);
}

// Where devices do the work, cores of the host are shared by nobody.
void CallPlanner::setUpDeviceCosts() {
  const auto& descriptors = comm_.links().descriptors();
  const bool onDevice = comm_.layout().onDevices();
  if (!onDevice) addCores(descriptors, &state_.links);
  state_.levels = machineLevels(comm_.layout().machine.graph, comm_.layout().machine.levels, state_.links);
  if (comm_.layout().executor == ExecutorKind::Proxy)
    state_.device = proxyCosts(descriptors, comm_.layout().reach, comm_.layout().machine);
  if (!onDevice) return;
  state_.device = cudaCosts(DeviceExecutor::Streams, descriptors, comm_.layout().machine);
  if (comm_.layout().executor == ExecutorKind::Resident)
    state_.blocks = cudaCosts(DeviceExecutor::Blocks, descriptors, comm_.layout().machine);
  state_.levels = deviceLevels(state_.device->links);
}

int CallPlanner::mostLanes(bool resident) const {
  if (resident) return comm_.layout().residentLanes;
  if (comm_.layout().mixesEdges()) return comm_.layout().deviceLanes;
  return comm_.layout().onDevices() ? kMostCudaLanes : kPointToPointLane;
}

Estimates* CallPlanner::estimatesFor(bool resident) const {
  return resident ? blockEstimates_.get() : estimates_.get();
}

PlanRequest CallPlanner::planRequest(const Shape& shape, bool resident) const {
  PlanRequest request;
  request.shape = shape;
  request.shape.rank = 0;
  request.shape.inPlace = false;  // differs between ranks where only the root is in place
  request.links = state_.links;
  request.levels = &state_.levels;
  const std::optional<DeviceCosts>& device = resident ? state_.blocks : state_.device;
  if (device) request.device = &*device;
  const bool reads = !comm_.layout().anyCuda() && state_.links.intra && state_.links.intra->lends();
  request.directPossible = resident ? comm_.layout().oneLaunch : reads;
  request.overrides = state_.overrides;
  if (advice_) advice_->addTo(shape, &request.overrides);
  request.mostChannels =
      state_.overrides.nChannels > 0 ? kMostChannels : std::min(kMostChannels, comm_.settings().maxChannels);
  // A channel is a block there, as many as are worth it, if nobody sets a limit.
  const bool limited = state_.overrides.nChannels > 0 || comm_.settings().maxChannels < CommSettings().maxChannels;
  if (resident && !limited) request.mostChannels = comm_.layout().residentLanes;
  request.boardBytes = !comm_.layout().anyCuda() && comm_.links().hasBoards() ? kBoardBytes : 0;
  // Ranks that do not know the sizes of others' blocks cannot agree on what fits a message.  Blocks on a device, whose
  // messages cost little, do not gather.
  const bool knowsSizes = !shape.uneven || everyoneKnowsBlocks(shape.collective);
  request.joinBytes =
      !resident && knowsSizes ? mostJoinedBytes(state_.links, comm_.layout().sliceBytes, request.device) : 0;
  request.mostLanes = mostLanes(resident);
  if (!comm_.layout().anyCuda()) request.tuning = &state_.tuning;
  foreignPlans_.offer(&request);
  return request;
}

// What was measured to be the fastest was measured in full.
PlanRequest CallPlanner::callRequest(const Shape& shape, const PlanKey& key) const {
  PlanRequest request = planRequest(shape, key.resident);
  request.elementBytes = dataTypeBytes(key.dtype);
  if (!key.narrow) return request;
  narrow(&request, comm_.settings().wire, key.dtype);
  request.tuning = nullptr;
  return request;
}

Result<bool> CallPlanner::hearAdvice(const Call& call) {
  if (advice_ == nullptr || call.kind != CallKind::Collective) return true;
  const Shape shape = shapeOf(call, keyOf(call));
  return advice_->learn(shape, [&] {
    const bool resident = state_.blocks.has_value();
    PlanRequest request = planRequest(shape, resident);
    request.wholeTable = true;
    return ::tutti::plan(request, state_.calibration, estimatesFor(resident));
  });
}

Result<Choice> CallPlanner::choosePlan(const Shape& shape, const Call& call, const PlanKey& key) {
  if (key.way > 0) return chooseWay(call, learning_->kindOf(call)->ways[key.way]);
  const bool resident = key.resident;
  PlanRequest request = callRequest(shape, key);
  request.wholeTable = state_.explain;
  TUTTI_ASSIGN(Choice choice, ::tutti::plan(request, state_.calibration, estimatesFor(resident)));
  if (state_.explain) {
    const std::string table = cat("tutti: plan for ", callName(call), "\n", explain(request, choice));
    std::fwrite(table.data(), 1, table.size(), stderr);
  }
  tellUnmet(choice.unmet, shape, describe(choice));
  return choice;
}

// Rank 0 speaks for all, which have come to the same.
void CallPlanner::tellUnmet(const std::vector<Unmet>& unmet, const Shape& shape, const std::string& taken) {
  if (comm_.rank() != 0) return;
  Shape call = shape;
  call.inPlace = false;
  for (const Unmet& one : unmet) {
    const char* of = one.ofCollective ? collectiveKey(shape.collective) : "";
    if (!told_.insert(cat(of, " ", one.asked, " ", one.reason)).second) continue;
    TUTTI_WARN("plan", "rank ", comm_.rank(), ": ", sentence(one, call), "; chosen by cost: ", taken);
  }
}

// Which algorithm it is depends on no count, as the ranks know none in common.
Result<bool> CallPlanner::needsAllCounts(const Call& call, bool resident) {
  if (!call.counts || call.collective != Collective::AllToAll) return false;
  std::optional<bool>& forwards = forwardsBlocks_[resident ? 1 : 0];
  if (!forwards) {
    TUTTI_ASSIGN(const Choice choice, ::tutti::plan(planRequest(shapeOf(call, keyOf(call)), resident),
                                                    state_.calibration, estimatesFor(resident)));
    forwards = choice.algorithm != nullptr && choice.algorithm->forwards;
  }
  return *forwards;
}

Result<CallEstimate> CallPlanner::estimate(const Call& call) const {
  if (call.kind != CallKind::Collective) return estimateMessage(call.root, call.count * dataTypeBytes(call.dtype));
  Shape shape = shapeOf(call, keyOf(call));
  const bool resident = state_.blocks.has_value();
  PlanKey key = keyOf(call);
  key.resident = resident;
  TUTTI_ASSIGN(const std::optional<Honoured> pass, inOnePass(key, shape));
  if (pass) {
    const auto bytes = static_cast<double>(passTraffic(passOf(shape), comm_.nRanks()));
    return CallEstimate{onePassUs(*state_.blocks, bytes), "onepass", Protocol::Direct, 1};
  }
  PlanRequest request = callRequest(shape, key);
  if (const auto way = learning_ ? learning_->taken(call) : std::nullopt)
    way->addTo(shape.collective, &request.overrides);
  TUTTI_ASSIGN(const Choice choice, ::tutti::plan(request, state_.calibration, estimatesFor(resident)));
  request.overrides = choice.overrides;
  CallEstimate estimate{choice.costUs, choice.name(), choice.protocol, choice.nChannels, choice.joined};
  if (shape.uneven && choice.algorithm != nullptr) {  // chosen for any size, but this is the size
    shape.bytes = largestBlock(call) * dataTypeBytes(call.dtype);
    shape.parts = choice.parts;
    estimate.timeUs = choice.algorithm->costUs(shape, costModel(request, state_.calibration, choice.protocol));
    if (request.device != nullptr) estimate.timeUs += request.device->callUs;
  }
  return estimate;
}

bool CallPlanner::lends(int peer, size_t bytes) const {
  if (comm_.layout().anyCuda()) return false;
  if (state_.overrides.protocol) return *state_.overrides.protocol == Protocol::Direct;
  const LinkProfile& link = comm_.links().linkTo(peer);
  return link.lends() && messageTo(link, bytes).protocol == Protocol::Direct;
}

SendProtocolChooser* CallPlanner::sendChooser(int peer, size_t bytes, bool inGroup) {
  const bool twoProtocols = bytes >= kLeastPulledBytes && !comm_.layout().anyCuda() && !state_.overrides.protocol &&
                            peer != comm_.rank() && comm_.links().linkTo(peer).lends();
  if (learning_ == nullptr || !twoProtocols) return nullptr;
  const auto plan = [&] {
    const double us = state_.calibration.at(comm_.links().linkTo(peer), Protocol::Inline).cost(0);
    return PlannedSend{lends(peer, bytes), static_cast<int64_t>(us * 1e3)};
  };
  return sendLearning_.kindOf({peer, bytes, inGroup}, plan);
}

// What the sender lends is read in one go, and what it does not goes in pieces of a slot.
size_t CallPlanner::sliceBytesTo(int peer) const {
  if (peer == comm_.rank()) return comm_.layout().selfSliceBytes;
  const bool pulls = !comm_.layout().anyCuda() && comm_.links().linkTo(peer).directReads == DirectReads::SystemCalls;
  return pulls ? comm_.layout().pullBytes : slotBytesFor(SliceUse::Copied);
}

MessageCost CallPlanner::messageTo(const LinkProfile& link, size_t bytes) const {
  if (link.lends() && state_.ranks && state_.ranks->intra == link.key) {
    if (const auto tuned = tunedSend(state_.tuning, *state_.ranks, bytes)) return {tuned->protocol, tuned->us};
  }
  // Both ends of a message are busy with it, so ranks that share a core take turns.
  MessageCost message = messageCost(link, bytes, link.lends(), state_.calibration);
  message.costUs *= state_.links.ranksPerCore;
  return message;
}

CallEstimate CallPlanner::estimateMessage(int peer, size_t bytes) const {
  const Calibration& costs = state_.calibration;
  const double copyGBps = state_.device ? state_.device->memoryGBps / 2 : costs.copyGBps;
  if (peer == comm_.rank()) return {static_cast<double>(bytes) / (copyGBps * 1e3), "send", Protocol::Direct, 1};
  const MessageCost message = messageTo(comm_.links().linkTo(peer), bytes);
  if (!state_.device) return {message.costUs, "send", message.protocol, 1};
  // Sends and receives go by streams, or by proxies, which add what they do to the host's link.
  const std::vector<int>& devices = state_.device->links.deviceOf;
  const bool same =
      !devices.empty() && devices[static_cast<size_t>(peer)] == devices[static_cast<size_t>(comm_.rank())];
  const bool proxy = state_.device->way == DeviceExecutor::Proxy;
  const double us = deviceMessageUs(*state_.device, same, bytes, comm_.layout().sliceBytes);
  return {proxy ? us + message.costUs : us, "send", proxy ? message.protocol : Protocol::Slots, 1};
}

}  // namespace tutti
