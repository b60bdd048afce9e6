// From a call to a plan: choose an algorithm, build its schedule, rewrite it, bind it to memory and links.
#include <algorithm>

#include "src/base/log.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/executor.hpp"
#include "src/comm/schedules.hpp"
#include "src/exec/cuda/one_pass.hpp"
#include "src/plan/fit.hpp"
#include "src/plan/request_parts.hpp"
#include "src/schedule/passes.hpp"
#include "src/schedule/stagger.hpp"

namespace tutti {
namespace {

bool isInPlace(const Call& call, int rank) {
  const bool premul = call.custom != nullptr && call.custom->function == nullptr;  // works on a scaled copy
  if (premul || call.sendbuff == nullptr || call.recvbuff == nullptr) return false;
  if (!mayBeInPlace(call.collective, rank, call.root)) return false;
  const auto in = reinterpret_cast<uintptr_t>(call.sendbuff), out = reinterpret_cast<uintptr_t>(call.recvbuff);
  return out - in == inPlaceOffset(call, rank);
}

/// An AllReduce in which every rank sums all of the vector.
bool sumsItself(const Choice& choice, Collective collective) {
  return !choice.ready && collective == Collective::AllReduce && !choice.algorithm->sumsOnce;
}

/// Messages of smaller calls are latency more than bytes.  Bytes of all blocks together.
constexpr double kLeastNarrowBytes = 16 * 1024;

}  // namespace

Shape CallPlanner::shapeOf(const Call& call, const PlanKey& key) const {
  Shape shape;
  shape.collective = call.collective;
  shape.rank = comm_.rank();
  shape.nRanks = comm_.nRanks();
  shape.root = call.root;
  shape.inPlace = key.inPlace;
  shape.bytes = call.count * dataTypeBytes(call.dtype);
  if (call.counts) {
    // The largest block, where all ranks know it; others plan for any size.
    shape.uneven = true;
    const bool known = everyoneKnowsBlocks(call.collective);
    shape.bytes = known ? largestBlock(call) * dataTypeBytes(call.dtype) : 64 * 1024;
  }
  shape.slotBytes = slotBytesFor(sliceUse(call));
  shape.commutative = !key.ordered;
  shape.nodeOf = comm_.layout().nodes;
  shape.inner = comm_.layout().inner;
  shape.railOf = comm_.layout().rails;
  return shape;
}

PlanKey CallPlanner::keyOf(const Call& call) const {
  PlanKey key;
  key.collective = call.collective;
  key.dtype = call.dtype;
  key.root = callIsRooted(call) ? call.root : 0;
  key.count = call.count;
  key.counts = call.counts;
  key.inPlace = isInPlace(call, comm_.rank());
  if (callReduces(call)) {
    const bool sums = call.op == tuttiSum || call.op == tuttiProd || call.op == tuttiAvg || call.op >= tuttiNumOps;
    key.ordered = comm_.settings().reproducible && isFloating(call.dtype) && sums;
    key.ordered = key.ordered || (call.custom != nullptr && !call.custom->commutative);
    key.narrow = mayNarrow(call) && callBytes(shapeOf(call, key)) >= kLeastNarrowBytes;
  }
  return key;
}

// Sums of a type that takes fewer bytes, on several hosts.
bool CallPlanner::mayNarrow(const Call& call) const {
  if (!isNarrower(comm_.settings().wire, call.dtype) || !state_.links.inter) return false;
  if (!state_.links.inter->betweenHosts) return false;
  if (call.op == tuttiSum || call.op == tuttiAvg) return true;
  return call.custom != nullptr && call.custom->function == nullptr;  // PreMulSum
}

Result<std::shared_ptr<const PlanEntry>> CallPlanner::plan(const Call& call, bool resident, uint8_t way) {
  PlanKey key = keyOf(call);
  key.resident = resident;
  key.way = way;
  if (std::shared_ptr<const PlanEntry> found = plans_.find(key)) return found;
  auto making = std::ranges::find(making_, key, &Making::key);
  if (making == making_.end()) {
    TUTTI_ASSIGN(Making begun, beginPlan(call, key));
    making = making_.insert(making, std::move(begun));
  }
  const Result<bool> made = bind(call, &*making);
  if (made.ok() && !*made) return std::shared_ptr<const PlanEntry>();
  PlanEntry entry = std::move(making->entry);
  making_.erase(making);
  TUTTI_TRY(made.status());
  known_.forget();  // the cache may drop a plan now
  return plans_.insert(key, std::move(entry));
}

// Memory of tuttiMemAlloc is read where it lies, whatever was planned for other memory: between processes its owner
// need not do anything (on devices: but register it), and the choice between the two is the sender's alone.
bool CallPlanner::mayLendMapped(const Shape& shape, size_t leastBytes) const {
  const bool maps = comm_.layout().anyCuda() ? comm_.layout().reach.mostPeers() > 0 : pulls();
  return maps && shape.bytes >= leastBytes;
}

size_t CallPlanner::leastMappedBytes() const { return leastMappedBytes(state_.overrides.protocol); }

// An AllReduce in place in which every rank sums for itself writes the memory that peers would read.  A rank would have
// to sum elsewhere, wait for them and copy the sum; a copy to begin with is faster (2 ranks, 16 KiB 5.0 us -> 1.9).
size_t CallPlanner::leastMappedBytes(const Choice& choice, const PlanKey& key) const {
  const bool writesWhatIsRead = rewrites(key) && !comm_.layout().anyCuda() && sumsItself(choice, key.collective);
  if (choice.copied || writesWhatIsRead) return SIZE_MAX;
  return leastMappedBytes(choice.overrides.protocol);
}

size_t CallPlanner::leastMappedBytes(const std::optional<Protocol>& asked) const {
  if (asked && *asked != Protocol::Direct) return SIZE_MAX;
  return state_.links.ranksPerCore > 1 ? kLeastMappedBytesOnSharedCores : kLeastMappedBytes;
}

bool CallPlanner::pulls() const {
  return state_.links.intra && state_.links.intra->directReads == DirectReads::SystemCalls;
}

size_t CallPlanner::slotBytesFor(SliceUse use) const {
  const bool sockets = state_.links.intra && state_.links.intra->systemCalls && !state_.links.inter;
  return sockets && !comm_.layout().anyCuda() ? comm_.layout().socketSlices.of(use) : comm_.layout().sliceBytes;
}

// Reading another process's memory costs by the message, and larger ones are faster by a third (4 MiB on two ranks).
// Operands of a reduction lie in slots, or pass through the cache in pieces of one.
size_t CallPlanner::sliceBytesFor(const Choice& choice, const Call& call) const {
  const bool direct = choice.protocol == Protocol::Direct && pulls();
  if (comm_.layout().anyCuda() || !direct || state_.links.inter || callReduces(call))
    return slotBytesFor(sliceUse(call));
  return comm_.layout().pullBytes;
}

// The plan is chosen with as many lanes as its messages and its bandwidth need (lanesForMessages).
void CallPlanner::fitToBlocks(Choice* choice, size_t lanesOfOne, int mostLanes) {
  if (choice->overrides.nChannels > 0 || lanesOfOne == 0) return;
  const int most = std::max(1, mostLanes / static_cast<int>(lanesOfOne));
  choice->nChannels = std::clamp(choice->nChannels, 1, most);
}

size_t CallPlanner::ranksOnHost() const {
  return static_cast<size_t>(std::count(comm_.layout().nodes.begin(), comm_.layout().nodes.end(),
                                        comm_.layout().nodes[static_cast<size_t>(comm_.rank())]));
}

// An AllReduce in place writes what its peers would read, and does so in every call.  Another process then gets each
// line from the cache of this core, which has to ask for it again to write there: sent through endpoints it takes half
// the time or less (2 ranks, 32 KiB 11.5 -> 3.8 us, 2 MiB 527 -> 270).  Threads need no system call for it, and have no
// other copy.
bool CallPlanner::rewrites(const PlanKey& key) const {
  return key.inPlace && key.collective == Collective::AllReduce && pulls();
}

// Where one launch has the buffers of all ranks.  Blocks of different sizes lie where only their owners know, sums that
// have to be reproducible follow a tree, and a program that asks for an algorithm that fits gets it.  Channels are none
// of its business.
Result<std::optional<Honoured>> CallPlanner::inOnePass(const PlanKey& key, const Shape& shape) const {
  const std::optional<Honoured> no;
  if (!key.resident || !comm_.layout().oneLaunch || key.ordered || key.counts) return no;
  PlanRequest request = planRequest(shape, true);
  request.overrides.nChannels = 0;
  if (!request.ready.empty()) return no;
  TUTTI_ASSIGN(Honoured honoured, honour(request, state_.calibration));
  const Overrides& left = honoured.overrides;
  if (left.protocol || left.of(key.collective) != nullptr || !left.readyOf(key.collective).empty()) return no;
  return std::optional(std::move(honoured));
}

bool CallPlanner::goesInOnePass(const Call& call) const {
  PlanKey key = keyOf(call);
  key.resident = true;
  const Result<std::optional<Honoured>> pass = inOnePass(key, shapeOf(call, key));
  return pass.ok() && pass->has_value();
}

kernels::PassCall CallPlanner::passOf(const Shape& shape) {
  return passCall(shape.collective, shape.bytes, shape.root, shape.nRanks);
}

PlanEntry CallPlanner::onePass(const Call& call, const Shape& shape) const {
  PlanEntry entry;
  entry.pass = passOf(shape);
  if (state_.explain) {
    const std::string text =
        cat("tutti: plan for ", callName(call), "\nplan ", formatBytes(shape.bytes), " on ", comm_.nRanks(),
            " ranks: one kernel passes over the buffers of all ranks, which share a launch; "
            "TUTTI_ALGO or TUTTI_PROTO would have blocks walk a plan instead\n");
    std::fwrite(text.data(), 1, text.size(), stderr);
  }
  return entry;
}

Shape CallPlanner::shapeFor(const Choice& choice, Shape shape) const {
  shape.parts = choice.parts;
  if (choice.joined) shape.messageBytes = planRequest(shape).joinBytes;
  return shape;
}

Rewrites CallPlanner::rewritesFor(const Choice& choice, const Shape& shape, const PlanKey& key) const {
  const size_t leastMapped = leastMappedBytes(choice, key);
  // Blocks read what others lend where it lies, and messages that they would rather send inline they do.
  const bool residentDirect = key.resident && comm_.layout().oneLaunch && leastMapped < SIZE_MAX;
  const bool mapped = !key.resident && mayLendMapped(shape, leastMapped);
  const bool lends = !comm_.layout().anyCuda() && choice.protocol == Protocol::Direct;
  // Several chunks are gathered into a message: nothing is read where it lies.
  const auto puts = [](const std::optional<LinkProfile>& link) { return link && link->puts; };
  const bool posts = puts(state_.links.process) || puts(state_.links.intra) || puts(state_.links.inter);
  // An op rounds a sum of 16-bit numbers once, however many operands it has.  Where every rank sums for itself, at a
  // place of its own in the row, all must therefore round behind every operand, or they would end with other bits.
  const bool byTwo = sumsItself(choice, shape.collective) && isFloating(key.dtype) && dataTypeBytes(key.dtype) <= 2;
  return {key.ordered, !choice.joined && (residentDirect || mapped || lends || posts), byTwo};
}

/// choice->nChannels becomes what the schedule has.  shape: with shapeFor().
Result<Schedule> CallPlanner::scheduleFor(const Call& call, const PlanKey& key, const Shape& shape, Choice* choice) {
  PlanRequest chosenBy = planRequest(shape);
  chosenBy.overrides = choice->overrides;
  Schedule schedule = buildSchedule(*choice, shape, rewritesFor(*choice, shape, key), call);
  if (!choice->ready && !key.ordered && publishes(chosenBy, *choice->algorithm)) schedule = publish(schedule);
  if (key.resident) fitToBlocks(choice, schedule.lanes.size(), comm_.layout().residentLanes);
  if (choice->nChannels > 1) schedule = replicate(schedule, choice->nChannels);
  schedule.staggered = staggers(*choice, shape, schedule);
  if (choice->wire != WireFormat::Full && shape.collective == Collective::AllReduce) schedule = roundResults(schedule);
  if (schedule.lanes.size() <= static_cast<size_t>(mostLanes(key.resident))) return schedule;
  return invalidUsage(ErrorCode::AlgorithmDoesNotFit, "algorithm ", choice->name(), " with ", choice->nChannels,
                      " channels needs ", schedule.lanes.size(), " lanes; there are ", mostLanes(key.resident));
}

Result<CallPlanner::Making> CallPlanner::beginPlan(const Call& call, const PlanKey& key) {
  Making making{.key = key, .choice = {}, .entry = {}, .schedule = {}};
  Shape shape = shapeOf(call, key);
  TUTTI_ASSIGN(const std::optional<Honoured> pass, inOnePass(key, shape));
  if (pass) {
    tellUnmet(pass->unmet, shape, "onepass");
    making.entry = onePass(call, shape);
    return making;
  }
  TUTTI_ASSIGN(making.choice, choosePlan(shape, call, key));
  Choice& choice = making.choice;
  if (choice.ready && key.inPlace && choice.ready->inPlace == nullptr) {
    shape.inPlace = false;
    making.entry.copiedBytes = extentsOf(call, comm_.rank(), comm_.nRanks()).sendBytes;
    TUTTI_TRY(asStatus(comm_.executor().workspace(making.entry.copiedBytes)));
  }
  TUTTI_ASSIGN(making.schedule, scheduleFor(call, key, shapeFor(choice, shape), &choice));
  making.entry.algorithm = choice.name();
  making.entry.protocol = choice.protocol;
  making.entry.nChannels = choice.nChannels;
  const Schedule& made = making.schedule;
  making.sliceBytes = made.staggered ? staggeredBytes(chunkBytes(shape, made), made.nChannels, shape.slotBytes)
                                     : sliceBytesFor(choice, call);
  return making;
}

/// False while endpoints come up, which all begin to.
Result<bool> CallPlanner::bind(const Call& call, Making* making) {
  PlanEntry& entry = making->entry;
  if (entry.pass) return true;
  const bool resident = making->key.resident;
  const bool boards = making->schedule.published;
  const WireCode code{making->choice.wire, call.dtype};
  bool complete = true;
  if (boards) {
    TUTTI_ASSIGN(complete, comm_.links().openBoards(BoardUse::Values));
    if (!complete) return false;
  }
  const EndpointFinder find = [&](int peer, int lane) -> Result<Endpoint*> {
    if (resident) return static_cast<Endpoint*>(nullptr);
    if (boards) return comm_.links().board(BoardUse::Values, peer);
    TUTTI_ASSIGN(Endpoint * endpoint, code.format == WireFormat::Full ? comm_.executor().endpoint(peer, lane)
                                                                      : comm_.executor().narrowed(peer, lane, code));
    complete = complete && endpoint != nullptr;
    return endpoint;
  };
  const Layout layout = layoutOf(making->schedule, call);
  TUTTI_ASSIGN(entry.plan, bindPlan(std::move(making->schedule), layout, dataTypeBytes(call.dtype), making->sliceBytes,
                                    find, comm_.executor().scratch(), ranksOnHost()));
  if (!complete) {
    making->schedule = std::move(entry.plan->schedule);
    return false;
  }
  entry.plan->wire = code;
  entry.plan->lendsAll =
      making->choice.protocol == Protocol::Direct && !comm_.layout().anyCuda() && !rewrites(making->key);
  entry.plan->leastMappedBytes = leastMappedBytes(making->choice, making->key);
  entry.plan->posts = comm_.executor().postings();
  TUTTI_TRY(comm_.executor().equip(&entry, resident));
  return true;
}

}  // namespace tutti
