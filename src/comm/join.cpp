// How a communicator comes up: join the control plane, exchange descriptors, open transports, agree on settings.
#include <unistd.h>

#include <algorithm>
#include <set>

#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/cuda/costs.hpp"
#include "src/comm/cuda/side.hpp"
#include "src/comm/launch.hpp"
#include "transport/table.hpp"

namespace tutti {
namespace {

// A rank that is merely late must not flood the others with questions: larger communicators ask later.
int firstLookMs(int nRanks) { return std::max(20, nRanks); }

PeerDescriptor ownDescriptor(int rank) {
  PeerDescriptor descriptor;
  descriptor.info.rank = rank;
  descriptor.info.hostId = hostIdentity();
  descriptor.info.processId = processIdentity();
  descriptor.info.pid = getpid();
  descriptor.info.uid = getuid();
  char host[64] = "?";
  (void)gethostname(host, sizeof host - 1);
  descriptor.hostName = host;
  descriptor.cpus = allowedCpus();
  return descriptor;
}

/// What the other ranks hear of one.
Status failedJoining(int rank, const std::string& why) {
  return remoteError("rank ", rank, " failed while ranks were joining: ", why);
}

/// Blocks of kernels that a rank may have on its device; 0: any number.
int blocksOfRank(const CommSettings& settings) {
  if (settings.nChannels > 0) return settings.nChannels;
  return settings.maxChannels < CommSettings().maxChannels ? settings.maxChannels : 0;
}

const char* nameOf(CudaWay way) {
  switch (way) {
    case CudaWay::Stream: return "streams";
    case CudaWay::Resident: return "resident kernels";
    case CudaWay::Proxy: return "proxies";
    case CudaWay::None: break;
  }
  return "nobody";
}

/// What all ranks must have set alike, as a sentence that can be compared and shown.
Result<std::string> commonSettings(const CommSettings& settings) {
  std::string text;
  for (const char* name : {"TUTTI_ALGO", "TUTTI_PROTO", "TUTTI_JOIN", "TUTTI_ALGO_STRICT", "TUTTI_SLOT_BYTES",
                           "TUTTI_SLOTS", "TUTTI_NSOCKETS", "TUTTI_CUDA_EXECUTOR"}) {
    text += cat(name, "=", configText(name), configIsSet(name) ? " " : " (default) ");
  }
  return text + cat("transports=", settings.transports, " reproducible=", settings.reproducible,
                    " nChannels=", settings.nChannels, " minChannels=", settings.minChannels,
                    " maxChannels=", settings.maxChannels);
}

bool isAllowed(const TransportEntry& entry, const CommSettings& settings) {
  return entry.links.empty() || transportAllowed(settings.transports, entry.name);
}

// Over sockets every slice is a call on both sides and a wait, so larger ones pay until the slices of all ranks no
// longer share the cache; that comes at once where ranks share cores.  A function of what all ranks know alike.
Result<size_t> chooseSliceBytes(const std::vector<PeerDescriptor>& descriptors, const CommSettings& settings) {
  constexpr size_t kSocketSliceBytes = 256 << 10;
  TUTTI_ASSIGN(const int64_t slotBytes, configInteger("TUTTI_SLOT_BYTES"));
  const auto slots = static_cast<size_t>(slotBytes) / kCacheLineBytes * kCacheLineBytes;
  if (configIsSet("TUTTI_SLOT_BYTES")) return slots;
  const bool sharedMemory = std::ranges::any_of(settings.table, [&](const TransportEntry* entry) {
    return entry->sharesMemory() && isAllowed(*entry, settings);
  });
  std::set<uint64_t> hosts;
  for (const PeerDescriptor& descriptor : descriptors) {
    if (oversubscribed(descriptors, descriptor.info.hostId)) return slots;
    if (!hosts.insert(descriptor.info.hostId).second && sharedMemory) return slots;
  }
  return kSocketSliceBytes;
}

}  // namespace

Result<std::unique_ptr<Comm>> Comm::join(std::shared_ptr<Session> session, JoinRequest request,
                                         const CommSettings& settings, AbortState* abortState) {
  std::unique_ptr<Comm> comm(new Comm(settings, abortState));
  TUTTI_TRY(comm->comeUp(std::move(session), std::move(request)));
  return comm;
}

/// What this rank brings along, and tells the others of.
Status Comm::prepare(int rank, int nRanks, PeerDescriptor* descriptor) {
  if (settings_.cudaDevice >= 0) {
    TUTTI_ASSIGN(const int64_t slots, configInteger("TUTTI_SLOTS"));
    Result<std::unique_ptr<CudaSide>> side =
        CudaSide::create(settings_.cudaDevice, rank, nRanks, static_cast<uint32_t>(slots));
    if (!side.ok()) {
      descriptor->trouble = cat("it cannot use its device: ", side.status().message());
      return side.status();
    }
    cuda_ = std::move(*side);
    cuda_->describe(descriptor);
  }
  TUTTI_ASSIGN(descriptor->settings, commonSettings(settings_));
  return rank == 0 ? addMeasurements(nRanks, settings_.table, descriptor) : Status();
}

// A rank in trouble joins all the same: the others would wait for it, and nobody would tell them why.
Status Comm::comeUp(std::shared_ptr<Session> session, JoinRequest request) {
  PeerDescriptor descriptor = ownDescriptor(request.rank);
  trouble_ = prepare(request.rank, request.nRanks, &descriptor);
  if (!trouble_.ok() && descriptor.trouble.empty()) descriptor.trouble = trouble_.message();
  request.info = encodeDescriptor(descriptor);
  Result<std::unique_ptr<Control>> joined =
      session->join(std::move(request), Deadline::inMs(settings_.timeoutMs), abortState_.word(),
                    [this](const Failure& failure) { onFailure(failure); });
  if (!joined.ok()) return trouble_.ok() ? cause(joined.status()) : trouble_;
  control_ = std::move(*joined);
  return tellIfFirst(setUp(), descriptor.trouble);
}

/// `up`, which the others hear of (as `trouble`, where that was known before) if nothing else has broken this
/// communicator; else what that was.  Mistakes in settings are found by all ranks, each for itself.
Status Comm::tellIfFirst(const Status& up, const std::string& trouble) {
  if (up.ok()) return up;
  const bool first = !abortState_.ended() && control_->failure().ok();
  if (first) control_->reportFailure({rank(), failedJoining(rank(), trouble.empty() ? up.message() : trouble)});
  const bool mistake = up.code() == tuttiInvalidUsage || up.code() == tuttiInvalidArgument;
  return first || mistake ? up : cause(up);
}

Status Comm::hearOfTrouble(const std::vector<PeerDescriptor>& descriptors) const {
  TUTTI_TRY(trouble_);
  for (const PeerDescriptor& descriptor : descriptors) {
    if (!descriptor.trouble.empty()) return failedJoining(descriptor.info.rank, descriptor.trouble);
  }
  return {};
}

Status Comm::setUp() {
  control_->setState([this] { return log_.state(); });
  sendsTo_.resize(static_cast<size_t>(nRanks()));
  receivesFrom_.resize(static_cast<size_t>(nRanks()));
  std::vector<PeerDescriptor> descriptors;
  for (int r = 0; r < nRanks(); ++r) {
    TUTTI_ASSIGN(PeerDescriptor descriptor, decodeDescriptor(r, control_->infos()[static_cast<size_t>(r)]));
    descriptors.push_back(std::move(descriptor));
  }
  TUTTI_TRY(hearOfTrouble(descriptors));
  for (const PeerDescriptor& descriptor : descriptors) {
    const PeerDescriptor& mine = descriptors[static_cast<size_t>(rank())];
    if (descriptor.settings == mine.settings) continue;
    return invalidUsage("rank ", descriptor.info.rank, " has other settings than rank ", rank(), ": [",
                        descriptor.settings, "] and [", mine.settings, "]; set them alike on all ranks");
  }
  TUTTI_ASSIGN(layout_.sliceBytes, chooseSliceBytes(descriptors, settings_));
  TUTTI_ASSIGN(const int64_t slots, configInteger("TUTTI_SLOTS"));
  if (cuda_) TUTTI_TRY(cuda_->serveReaders(*control_));
  const bool given = configIsSet("TUTTI_SLOT_BYTES");
  const size_t ofBlocks = given ? layout_.sliceBytes : blockSliceBytes(descriptors, static_cast<uint32_t>(slots));
  layout_.residentLanes = residentLanes(descriptors, ofBlocks, static_cast<uint32_t>(slots));
  TUTTI_ASSIGN(layout_.reach, deviceReach(descriptors));
  const std::string& obstacle = layout_.reach.obstacle();
  TUTTI_ASSIGN(layout_.way, cudaWay(descriptors, layout_.residentLanes, obstacle));
  if (layout_.way == CudaWay::Proxy && asksForProxy()) layout_.reach = {};
  if (layout_.anyCuda() && rank() == 0)
    TUTTI_INFO("cuda", "calls of CUDA ranks are carried out by ", nameOf(layout_.way));
  if (layout_.way == CudaWay::Proxy && rank() == 0 && !obstacle.empty()) {
    TUTTI_INFO("cuda", layout_.mixesEdges() ? "device memory passes through the host between some ranks: "
                                            : "device memory passes through the host: ", obstacle);
  }
  if (layout_.mixesEdges())
    layout_.deviceLanes = lanesOfMixedEdges(layout_.reach, layout_.sliceBytes, static_cast<uint32_t>(slots));
  if (cuda_) TUTTI_TRY(cuda_->meet(layout_.way, layout_.reach, descriptors));
  if (layout_.way == CudaWay::Resident) layout_.sliceBytes = ofBlocks;
  TUTTI_TRY(openTransports(&descriptors));
  if (layout_.way == CudaWay::Stream && !given) {
    const DeviceCosts costs = cudaCosts(DeviceWay::Streams, descriptors, layout_.machine);
    layout_.sliceBytes = deviceSliceBytes(costs, nRanks(), static_cast<uint32_t>(slots));
  }
  layout_.pullBytes = std::clamp(kPullBytes, layout_.sliceBytes, layout_.sliceBytes * static_cast<size_t>(slots));
  TUTTI_TRY(links_->meet(std::move(descriptors)));
  control_->setOnArrival([links = links_.get()] { links->ring(); });
  if (layout_.way == CudaWay::Resident) {
    TUTTI_TRY(cuda_->openEnds(rank(), links_->descriptors(), *links_, blocksOfRank(settings_), deadline()));
    abortState_.onEnd([memory = cuda_->residentMemory()] {
      if (memory != nullptr) memory->leave();
    });
  }
  if (cuda_ && layout_.mixesEdges()) TUTTI_TRY(cuda_->openSlots(links_->descriptors(), deadline()));
  if (cuda_) cuda_->lendOver([this, side = cuda_.get()] { return settle(*side); });
  layout_.nodes = nodesOf(links_->descriptors());
  TUTTI_TRY(planner_.setUp());
  TUTTI_ASSIGN(const int64_t spinUs, configInteger("TUTTI_SPIN_US"));
  waitPolicy_.mode = settings_.waitMode;
  waitPolicy_.spin =
      !oversubscribed(links_->descriptors(), links_->descriptors()[static_cast<size_t>(rank())].info.hostId);
  waitPolicy_.spinUs = static_cast<int>(spinUs);
  TUTTI_ASSIGN(const int64_t sliceUs, configInteger("TUTTI_SLICE_US"));
  waitPolicy_.sliceUs = static_cast<int>(sliceUs);
  waitPolicy_.firstLookMs = firstLookMs(nRanks());
  TUTTI_DEBUG("comm", "rank ", rank(), ": waits ", waitModeName(waitPolicy_.mode), ", spin ", waitPolicy_.spinUs,
              " us (-1: by load), slices of ", waitPolicy_.sliceUs, " us");
  std::function<bool()> launches;
  if (std::shared_ptr<LaunchWatch> watch = cuda_ ? cuda_->launchWatch() : nullptr; watch != nullptr) {
    launches = [watch] { return watch->look(); };
  }
  strayWatch_ = std::make_unique<StrayWatch>(*control_, log_, *links_, std::move(launches));
  ownBatch_ = std::make_unique<Batch>(*this);
  watchNeighbours();
  return {};
}

// Where processes need each other's memory they try whether it can be had, and tell each other.
Result<DeviceReach> Comm::deviceReach(const std::vector<PeerDescriptor>& descriptors) {
  DeviceReach reach(descriptors);
  if (asksForProxy() || !reach.crossesProcesses()) return reach;
  const Refusals refusals = cuda_ ? cuda_->tryIpc(reach, descriptors, deadline()) : Refusals();
  TUTTI_ASSIGN(const std::vector<std::string> all, control_->allGather(encodeRefusals(refusals), deadline()));
  for (size_t r = 0; r < all.size(); ++r) TUTTI_TRY(cutRefused(static_cast<int>(r), all[r], descriptors, &reach));
  return reach;
}

// In order of preference.  Every rank opens the same ones, so their addresses can travel as one list.
Status Comm::openTransports(std::vector<PeerDescriptor>* descriptors) {
  const PeerInfo& self = (*descriptors)[static_cast<size_t>(rank())].info;
  std::vector<std::unique_ptr<Transport>> transports;
  const TransportContext context = {.self = self,
                                    .nRanks = nRanks(),
                                    .sliceBytes = layout_.sliceBytes,
                                    .sharedCores = oversubscribed(*descriptors, self.hostId),
                                    .descriptors = *control_,
                                    .streams = *control_};
  for (const TransportEntry* entry : settings_.table) {
    if (!isAllowed(*entry, settings_)) continue;
    TUTTI_ASSIGN(std::unique_ptr<Transport> made, entry->create(context));
    transports.push_back(std::move(made));
  }
  links_ = std::make_unique<Links>(rank(), std::move(transports));
  PeerDescriptor addresses;
  addresses.transports = links_->addresses();
  addresses.machine = machineReport(*descriptors, rank());
  if (layout_.way == CudaWay::Resident)
    TUTTI_TRY(cuda_->makeEnds(nRanks(), layout_.residentLanes, layout_.sliceBytes, &addresses));
  if (cuda_ && layout_.mixesEdges())
    TUTTI_TRY(cuda_->makeSlots(layout_.deviceLanes, layout_.sliceBytes, &addresses));
  Result<ForeignPlans> plans = ForeignPlans::read(nRanks());
  const Result<Overrides> overrides =
      plans.ok() ? overridesFromEnvironment(plans->names()) : Result<Overrides>(Overrides());
  addresses.plans = planReport(plans, overrides);
  TUTTI_ASSIGN(const std::vector<std::string> all, control_->allGather(encodeDescriptor(addresses), deadline()));
  std::vector<std::string> reports, planReports;
  for (size_t r = 0; r < all.size(); ++r) {
    TUTTI_ASSIGN(PeerDescriptor theirs, decodeDescriptor(static_cast<int>(r), all[r]));
    (*descriptors)[r].transports = std::move(theirs.transports);
    (*descriptors)[r].ends = std::move(theirs.ends);
    reports.push_back(std::move(theirs.machine));
    planReports.push_back(std::move(theirs.plans));
  }
  TUTTI_TRY(comparePlanReports(planReports));
  for (const std::string& why : plans->refused()) {
    if (rank() == 0) TUTTI_WARN("plan", "TUTTI_PLAN_DIR: left out ", why);
  }
  planner_.take(std::move(*plans), *overrides);
  return setUpMachine(*descriptors, reports);
}

Status Comm::setUpMachine(const std::vector<PeerDescriptor>& descriptors, const std::vector<std::string>& reports) {
  TUTTI_ASSIGN(layout_.machine, mergeReports(descriptors, reports));
  layout_.inner = innerLevels(layout_.machine);
  if (layout_.onDevices()) addDeviceGroups(descriptors, &layout_.inner);
  layout_.rails = railsOf(layout_.machine);
  if (rank() != 0) return {};
  TUTTI_INFO("topology", "the ranks are in ", describeLevels(layout_.machine));
  for (const std::string& note : layout_.machine.notes) TUTTI_INFO("topology", note);
  return dumpMachine(layout_.machine);
}

// A death spreads from those who watch: the overlay's neighbours of this host.
void Comm::watchNeighbours() {
  std::vector<int> pids(static_cast<size_t>(nRanks()), 0);
  const std::vector<PeerDescriptor>& descriptors = links_->descriptors();
  const PeerInfo& self = descriptors[static_cast<size_t>(rank())].info;
  for (int skip = 1; skip < nRanks(); skip *= 2) {
    for (const int peer : {(rank() + skip) % nRanks(), (rank() - skip + nRanks()) % nRanks()}) {
      const PeerInfo& info = descriptors[static_cast<size_t>(peer)].info;
      const bool otherProcess = info.hostId == self.hostId && info.processId != self.processId;
      if (otherProcess) pids[static_cast<size_t>(peer)] = info.pid;
    }
  }
  control_->watchProcesses(pids);
}

}  // namespace tutti
