// How a communicator comes up: join the control plane, exchange descriptors, open transports, agree on settings.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "src/base/caught.hpp"
#include "src/base/config.hpp"
#include "src/base/log.hpp"
#include "src/base/release.hpp"
#include "src/comm/comm.hpp"
#include "src/comm/cuda/costs.hpp"
#include "src/comm/cuda/executor.hpp"
#include "src/comm/host_executor.hpp"
#include "src/comm/host_links.hpp"
#include "src/comm/launch.hpp"
#include "src/comm/result_checks.hpp"
#include "src/comm/slices.hpp"
#include "transport/table.hpp"

namespace tutti {
namespace {

// A rank that is merely late must not flood the others with questions: larger communicators ask later.
int firstLookMs(int nRanks) { return std::max(20, nRanks); }

/// Different from all others.
uint64_t newCommunicator() {
  static std::atomic<uint64_t> number{0};
  return hashText(cat(processIdentity(), "/", ++number));
}

PeerDescriptor ownDescriptor(int rank) {
  PeerDescriptor descriptor;
  descriptor.info = {
      .rank = rank, .hostId = hostIdentity(), .processId = processIdentity(), .pid = getpid(), .uid = getuid()};
  descriptor.release = releaseText();
  descriptor.network = networkIdentity();
  descriptor.kernel = kernelIdentity();
  char host[64] = "?";
  (void)gethostname(host, sizeof host - 1);
  descriptor.hostName = host;
  descriptor.cpus = allowedCpus();
  if (rank == 0) descriptor.communicator = newCommunicator();
  return descriptor;
}

/// What the other ranks hear of one.
Status failedJoining(int rank, const std::string& why) {
  return remoteError(ErrorCode::CannotJoin, "rank ", rank, " failed while ranks were joining: ", why);
}

/// What all ranks must have set alike, as a sentence that can be compared and shown.
Result<std::string> commonSettings(const CommSettings& settings) {
  std::string text;
  for (const char* name : {"TUTTI_ALGO", "TUTTI_PROTO", "TUTTI_JOIN", "TUTTI_ALGO_STRICT", "TUTTI_SLOT_BYTES",
                           "TUTTI_SLOTS", "TUTTI_NSOCKETS", "TUTTI_ENCRYPT", "TUTTI_CHECK_RESULTS", "TUTTI_RETRY",
                           "TUTTI_CUDA_EXECUTOR", "TUTTI_TUNER_PLUGIN", "TUTTI_LINK_PROBE", "TUTTI_LEARN"}) {
    text += cat(name, "=", configText(name), configIsSet(name) ? " " : " (default) ");
  }
  return text + cat("transports=", settings.transports, " reproducible=", settings.reproducible,
                    " wire=", wireFormatName(settings.wire), " nChannels=", settings.nChannels,
                    " minChannels=", settings.minChannels, " maxChannels=", settings.maxChannels);
}

}  // namespace

/// Brings one communicator up.
class Joining {
 public:
  explicit Joining(Comm& comm) : comm_(comm), layout_(comm.layout_) {}
  Status run(std::shared_ptr<Session> session, JoinRequest request);

 private:
  Status prepare(int rank, int nRanks, PeerDescriptor* descriptor);
  Status tellIfFirst(const Status& up, const std::string& trouble);
  Status setUp();
  Status takeDescriptors();
  void nameRanks();
  Status chooseExecutor();
  Result<DeviceReach> deviceReach();
  Status openTransports();
  Status tellAddresses();
  Status setUpMachine(const std::vector<std::string>& reports);
  Status openLinks();
  void useAllPaths();
  Status priceHostLinks();
  Status startWatching();
  void watchNeighbours();
  Status openRecorder();
  Status openProfiler();
  Status openTuner();

  int rank() const { return comm_.rank(); }
  const PeerDescriptor& mine() const { return descriptors_[static_cast<size_t>(rank())]; }
  Executor& executor() { return *comm_.executor_; }

  Comm& comm_;
  RankLayout& layout_;
  Status trouble_;  // why this rank cannot take part, known before it has met the others
  std::vector<PeerDescriptor> descriptors_;
  uint32_t slots_ = 0;
  size_t blockSliceBytes_ = 0;  // of plans that blocks walk
  std::function<bool()> alsoLook_;
};

Result<std::unique_ptr<Comm>> Comm::join(std::shared_ptr<Session> session, JoinRequest request,
                                         const CommSettings& settings, AbortState* abortState) {
  std::unique_ptr<Comm> comm(new Comm(settings, abortState));
  TUTTI_TRY(Joining(*comm).run(std::move(session), std::move(request)));
  return comm;
}

/// What this rank brings along, and tells the others of.
Status Joining::prepare(int rank, int nRanks, PeerDescriptor* descriptor) {
  const CommSettings& settings = comm_.settings_;
  TUTTI_TRY(checkEncryption(settings));
  TUTTI_ASSIGN(const int64_t slots, configInteger("TUTTI_SLOTS"));
  slots_ = static_cast<uint32_t>(slots);
  if (settings.cudaDevice >= 0) {
    Result<std::unique_ptr<Executor>> executor = CudaExecutor::create(comm_, nRanks, slots_, descriptor);
    if (!executor.ok()) {
      descriptor->trouble = cat("it cannot use its device: ", executor.status().text());
      return executor.status();
    }
    comm_.executor_ = std::move(*executor);
  } else {
    comm_.executor_ = std::make_unique<HostExecutor>(comm_);
  }
  TUTTI_ASSIGN(descriptor->settings, commonSettings(settings));
  descriptor->hostLinks = settings.hostLinks;
  return rank == 0 ? addMeasurements(nRanks, settings, descriptor) : Status();
}

// A rank in trouble joins all the same: the others would wait for it, and nobody would tell them why.
Status Joining::run(std::shared_ptr<Session> session, JoinRequest request) {
  PeerDescriptor descriptor = ownDescriptor(request.rank);
  trouble_ = caught([&] { return prepare(request.rank, request.nRanks, &descriptor); });
  if (!trouble_.ok() && descriptor.trouble.empty()) descriptor.trouble = trouble_.text();
  request.info = encodeDescriptor(descriptor);
  Result<std::unique_ptr<Control>> joined = session->join(
      std::move(request), Deadline::inMs(comm_.settings_.timeoutMs), comm_.abortState().word(),
      [comm = &comm_](const Failure& failure) { comm->onFailure(failure); },
      [comm = &comm_] { return comm->abortState().reason(); });
  if (!joined.ok()) return trouble_.ok() ? comm_.watchdog_.cause(joined.status()) : trouble_;
  comm_.control_ = std::move(*joined);
  return tellIfFirst(caught([this] { return setUp(); }), descriptor.trouble);
}

/// `up`, which the others hear of (as `trouble`, where that was known before) if nothing else has broken this
/// communicator; else what that was.  Mistakes in settings are found by all ranks, each for itself.
Status Joining::tellIfFirst(const Status& up, const std::string& trouble) {
  if (up.ok()) return up;
  const bool untold = comm_.control_->failure().ok(), ended = comm_.abortState().ended();
  const bool first = untold && !ended;
  if (first) comm_.control_->reportFailure({rank(), failedJoining(rank(), trouble.empty() ? up.text() : trouble)});
  // The parent's end, say: new ranks of a Grow hear it from nobody else, and would see this one leave.
  if (const Status why = comm_.abortState().reason(); untold && ended && !why.ok())
    comm_.control_->reportFailure({-1, why});
  const bool mistake = up.code() == tuttiInvalidUsage || up.code() == tuttiInvalidArgument;
  return first || mistake ? up : comm_.watchdog_.cause(up);
}

Status Joining::setUp() {
  CallNumbers& numbers = comm_.callOrder().numbers();
  numbers.resize(comm_.nRanks());
  comm_.control_->setState([watchdog = &comm_.watchdog_, &numbers] {
    RankState state = watchdog->state();  // first: a wait that is told of began after its messages were counted
    state.pairs = numbers.pairs();
    return state;
  });
  TUTTI_TRY(takeDescriptors());
  TUTTI_ASSIGN(layout_.sliceBytes, chooseSliceBytes(descriptors_, comm_.settings_));
  TUTTI_TRY(chooseExecutor());
  TUTTI_TRY(openRecorder());
  TUTTI_TRY(openTransports());
  TUTTI_ASSIGN(comm_.attached_.resultChecks, ResultChecks::fromConfig(*comm_.control_, layout_.anyCuda()));
  TUTTI_ASSIGN(comm_.attached_.retry,
               Retry::fromConfig(*comm_.control_, comm_.abortState().stopWord(), layout_.anyCuda()));
  TUTTI_TRY(openProfiler());
  TUTTI_TRY(openTuner());
  TUTTI_TRY(tellAddresses());
  TUTTI_TRY(openLinks());
  TUTTI_TRY(priceHostLinks());
  TUTTI_TRY(comm_.planner_.setUp());
  TUTTI_TRY(startWatching());
  comm_.calls_.batch = executor().newBatch();
  watchNeighbours();
  TUTTI_ASSIGN(const int64_t monitored, configInteger("TUTTI_MONITOR"));
  if (monitored != 0 && rank() == 0) comm_.attached_.monitorSeat = MonitorSeat::take(&comm_);
  return {};
}

/// Decodes all ranks' descriptors.  Errors: a rank is in trouble; two ranks have different settings.
Status Joining::takeDescriptors() {
  for (int r = 0; r < comm_.nRanks(); ++r) {
    TUTTI_ASSIGN(PeerDescriptor descriptor, decodeDescriptor(r, comm_.control_->infos()[static_cast<size_t>(r)]));
    descriptors_.push_back(std::move(descriptor));
  }
  nameRanks();
  TUTTI_TRY(trouble_);
  for (const PeerDescriptor& descriptor : descriptors_)
    if (!descriptor.trouble.empty()) return failedJoining(descriptor.info.rank, descriptor.trouble);
  TUTTI_TRY(compareReleases(descriptors_, rank()));
  for (const PeerDescriptor& descriptor : descriptors_) {
    if (descriptor.settings == mine().settings) continue;
    const std::string both = cat(": [", descriptor.settings, "] and [", mine().settings, "]");
    return invalidUsage(ErrorCode::SettingsDiffer, "rank ", descriptor.info.rank, " has other settings than rank ",
                        rank(), both, "; set them alike on all ranks");
  }
  return {};
}

/// For what the control plane says of them.
void Joining::nameRanks() {
  std::vector<HostOfRank> hosts;
  for (const PeerDescriptor& descriptor : descriptors_) hosts.push_back({descriptor.info.hostId, descriptor.hostName});
  const std::string& name = comm_.settings_.name;
  const std::string which = name.empty() ? toHex(descriptors_[0].communicator) : cat("'", name, "'");
  comm_.control_->setNames(cat("communicator ", which, " (process ", mine().info.pid, " on ", mine().hostName, ")"),
                           std::move(hosts));
}

/// Chooses the executor of ranks on CUDA devices, and the pairs of ranks that have device links.
Status Joining::chooseExecutor() {
  const bool given = configIsSet("TUTTI_SLOT_BYTES");
  blockSliceBytes_ = given ? layout_.sliceBytes : blockSliceBytes(descriptors_, slots_);
  layout_.residentLanes = residentLanes(descriptors_, blockSliceBytes_, slots_);
  TUTTI_ASSIGN(layout_.reach, deviceReach());
  const std::string obstacle = layout_.reach.obstacle();
  TUTTI_ASSIGN(layout_.executor, executorKind(descriptors_, layout_.residentLanes, obstacle));
  if (layout_.executor == ExecutorKind::Proxy && asksForProxy()) layout_.reach = {};
  if (layout_.anyCuda()) TUTTI_TRY(checkWireOnDevices(comm_.settings().wire));
  if (layout_.anyCuda() && rank() == 0)
    TUTTI_INFO("cuda", "calls of CUDA ranks are carried out by ", nameOf(layout_.executor));
  if (layout_.executor == ExecutorKind::Proxy && rank() == 0 && !obstacle.empty()) {
    TUTTI_INFO("cuda", "device memory passes through the host", layout_.mixesEdges() ? " between some ranks: " : ": ",
               obstacle);
  }
  if (layout_.mixesEdges()) layout_.deviceLanes = lanesOfMixedEdges(layout_.reach, layout_.sliceBytes, slots_);
  if (layout_.executor == ExecutorKind::Resident) {
    layout_.sliceBytes = blockSliceBytes_;
    layout_.oneLaunch = onOneDevice(descriptors_);
  }
  return {};
}

// Processes try to open each other's memory, and tell each other the result.
Result<DeviceReach> Joining::deviceReach() {
  DeviceReach reach(descriptors_);
  TUTTI_ASSIGN(const Refusals refusals, executor().tryReach(reach, descriptors_));
  if (asksForProxy() || !reach.crossesProcesses()) return reach;
  TUTTI_ASSIGN(const std::vector<std::string> all,
               comm_.control_->allGather(encodeRefusals(refusals), comm_.deadline()));
  for (size_t r = 0; r < all.size(); ++r) TUTTI_TRY(cutRefused(static_cast<int>(r), all[r], descriptors_, &reach));
  return reach;
}

// In order of preference.  Every rank opens the same ones, so their addresses can travel as one list.
Status Joining::openTransports() {
  std::vector<std::unique_ptr<Transport>> transports;
  const auto before = std::span(descriptors_).first(static_cast<size_t>(rank()));
  const auto localRank =
      std::ranges::count_if(before, [&](const PeerDescriptor& peer) { return peer.info.hostId == mine().info.hostId; });
  const TransportContext context = {.self = mine().info,
                                    .nRanks = comm_.nRanks(),
                                    .localRank = static_cast<int>(localRank),
                                    .sliceBytes = layout_.sliceBytes,
                                    .sharedCores = oversubscribed(descriptors_, mine().kernel),
                                    .descriptors = *comm_.control_,
                                    .streams = *comm_.control_,
                                    .device = executor().adapterAccess()};
  for (const TransportEntry* entry : comm_.settings_.table) {
    if (!isAllowed(*entry, comm_.settings_)) continue;
    TUTTI_ASSIGN(std::unique_ptr<Transport> made, entry->create(context));
    transports.push_back(std::move(made));
  }
  comm_.links_ = std::make_unique<Links>(rank(), std::move(transports));
  return {};
}

/// How this rank is reached, its part of the machine and its plans, to all, and theirs.
Status Joining::tellAddresses() {
  PeerDescriptor addresses;
  addresses.transports = comm_.links_->addresses();
  addresses.paths = static_cast<uint32_t>(comm_.control_->nPaths());
  addresses.pathsMbps = mbpsToOthers(descriptors_, mine(), addresses.paths);
  addresses.byAdapters = mine().device.empty() || comm_.links_->giveAllDeviceMemory(descriptors_) ? 1 : 0;
  addresses.machine = machineReport(descriptors_, rank());
  TUTTI_TRY(executor().meet(descriptors_, &addresses));
  Result<ForeignPlans> plans = ForeignPlans::read(comm_.nRanks());
  const Result<Overrides> overrides =
      plans.ok() ? overridesFromEnvironment(plans->names()) : Result<Overrides>(Overrides());
  addresses.plans = planReport(plans, overrides);
  TUTTI_ASSIGN(const std::vector<std::string> all,
               comm_.control_->allGather(encodeDescriptor(addresses), comm_.deadline()));
  std::vector<std::string> reports, planReports;
  for (size_t r = 0; r < all.size(); ++r) {
    TUTTI_ASSIGN(PeerDescriptor theirs, decodeDescriptor(static_cast<int>(r), all[r]));
    descriptors_[r].addWays(&theirs);
    reports.push_back(std::move(theirs.machine));
    planReports.push_back(std::move(theirs.plans));
  }
  TUTTI_TRY(comparePlanReports(planReports));
  for (const std::string& why : plans->refused()) {
    if (rank() == 0) TUTTI_WARN("plan", "TUTTI_PLAN_DIR: left out ", why);
  }
  comm_.planner_.take(std::move(*plans), *overrides);
  return setUpMachine(reports);
}

Status Joining::setUpMachine(const std::vector<std::string>& reports) {
  TUTTI_ASSIGN(layout_.machine, mergeReports(descriptors_, reports));
  layout_.inner = innerLevels(layout_.machine);
  if (layout_.onDevices()) addDeviceGroups(descriptors_, &layout_.inner);
  layout_.rails = railsOf(layout_.machine);
  layout_.nodes = nodesOf(descriptors_);
  if (layout_.executor == ExecutorKind::Stream && !configIsSet("TUTTI_SLOT_BYTES")) {
    const DeviceCosts costs = cudaCosts(DeviceExecutor::Streams, descriptors_, layout_.machine);
    layout_.sliceBytes = deviceSliceBytes(costs, comm_.nRanks(), slots_);
  }
  layout_.selfSliceBytes = layout_.sliceBytes;
  layout_.socketSlices = socketSlices(layout_.sliceBytes, oversubscribed(descriptors_, descriptors_.front().kernel));
  layout_.pullBytes = std::clamp(kPullBytes, layout_.sliceBytes, layout_.sliceBytes * slots_);
  if (rank() != 0) return {};
  TUTTI_INFO("topology", "the ranks are in ", describeLevels(layout_.machine));
  for (const std::string& note : layout_.machine.notes) TUTTI_INFO("topology", note);
  return dumpMachine(layout_.machine);
}

Status Joining::openLinks() {
  Links& links = *comm_.links_;
  TUTTI_TRY(links.meet(std::move(descriptors_)));
  useAllPaths();
  comm_.control_->setOnArrival([&links] { links.ring(); });
  links.tell(&comm_.userObjects_.registrations);
  TUTTI_ASSIGN(alsoLook_, executor().open());
  return {};
}

// Larger messages, since the end of each waits for a piece on the slowest interface.  Hosts with several ranks keep
// their size: slots of other transports have been made by then.  A function of what all ranks know alike.
void Joining::useAllPaths() {
  constexpr size_t kPathsSliceBytes = 1 << 20;
  const PathUse use = pathUse(*comm_.links_);
  const bool oneOfHost = *std::ranges::max_element(layout_.nodes) + 1 == comm_.nRanks();
  if (use.paths < 2 || !oneOfHost || layout_.anyCuda() || configIsSet("TUTTI_SLOT_BYTES")) return;
  layout_.sliceBytes = layout_.pullBytes = kPathsSliceBytes;
}

/// Children take over what is found.
Status Joining::priceHostLinks() {
  TUTTI_ASSIGN(const std::optional<HostLinkFigures> figures, measureHostLinks(comm_));
  comm_.settings_.hostLinks = figures ? toText(*figures) : "";
  if (figures) comm_.planner_.take(*figures);
  return {};
}

Status Joining::startWatching() {
  WaitPolicy policy;
  TUTTI_ASSIGN(const int64_t spinUs, configInteger("TUTTI_SPIN_US"));
  TUTTI_ASSIGN(const int64_t sliceUs, configInteger("TUTTI_SLICE_US"));
  const std::vector<PeerDescriptor>& descriptors = comm_.links_->descriptors();
  policy.mode = comm_.settings_.waitMode;
  const uint64_t kernel = descriptors[static_cast<size_t>(rank())].kernel;
  policy.spin = !oversubscribed(descriptors, kernel);
  policy.streamsShareCores = oversubscribed(descriptors, kernel, /*threadsPerRank=*/2);  // its own and a stream's
  for (int peer = 0; peer < comm_.nRanks(); ++peer)
    policy.inBatches = policy.inBatches || (peer != rank() && !comm_.links_->linkTo(peer).mapped);
  policy.spinUs = static_cast<int>(spinUs);
  policy.sliceUs = static_cast<int>(sliceUs);
  policy.firstLookMs = firstLookMs(comm_.nRanks());
  TUTTI_DEBUG("comm", "rank ", rank(), ": waits ", waitModeName(policy.mode), ", spin ", policy.spinUs,
              " us (-1: by load), slices of ", policy.sliceUs, " us");
  comm_.watchdog_.watch(descriptors[0].communicator, *comm_.control_, *comm_.links_, policy, std::move(alsoLook_));
  return {};
}

Status Joining::openRecorder() {
  RecorderIdentity identity{rank(), comm_.nRanks(), descriptors_[0].communicator, mine().info.hostId};
  identity.name = comm_.settings_.name;
  TUTTI_TRY(comm_.watchdog_.recorder().open(identity));
  comm_.watchdog_.failureDump().arm();
  return {};
}

// These two before ranks meet for the last time: then all hear of one whose plugin cannot be used.
Status Joining::openProfiler() {
  const std::vector<int> nodes = nodesOf(descriptors_);
  profiler::Subject subject{.name = comm_.settings_.name, .number = descriptors_[0].communicator};
  subject.nNodes = *std::ranges::max_element(nodes) + 1;
  subject.nRanks = comm_.nRanks();
  subject.rank = rank();
  TUTTI_ASSIGN(comm_.attached_.profiler, profiler::Profiler::open(configText("TUTTI_PROFILER_PLUGIN"), subject));
  return {};
}

/// Rank 0 has it, and speaks for it.
Status Joining::openTuner() {
  const std::string plugin = configText("TUTTI_TUNER_PLUGIN");
  if (plugin.empty() || plugin == "none") return {};
  std::unique_ptr<tuner::Tuner> tuner;
  if (rank() == 0) {
    std::map<int, int> ranksOfNode;
    for (const int node : nodesOf(descriptors_)) ++ranksOfNode[node];
    const auto [least, most] =
        std::ranges::minmax_element(ranksOfNode, {}, [](const auto& ranksOf) { return ranksOf.second; });
    TUTTI_ASSIGN(tuner, tuner::Tuner::open(plugin, {descriptors_[0].communicator, descriptors_.size(),
                                                    ranksOfNode.size(), least->second, most->second}));
  }
  comm_.planner_.take(std::make_unique<Advice>(*comm_.control_, std::move(tuner)));
  return {};
}

// A death spreads from those who watch: the overlay's neighbours of this host.
void Joining::watchNeighbours() {
  const int nRanks = comm_.nRanks();
  std::vector<int> pids(static_cast<size_t>(nRanks), 0);
  const std::vector<PeerDescriptor>& descriptors = comm_.links_->descriptors();
  const PeerInfo& self = descriptors[static_cast<size_t>(rank())].info;
  for (int skip = 1; skip < nRanks; skip *= 2) {
    for (const int peer : {(rank() + skip) % nRanks, (rank() - skip + nRanks) % nRanks}) {
      const PeerInfo& info = descriptors[static_cast<size_t>(peer)].info;
      const bool otherProcess = info.hostId == self.hostId && info.processId != self.processId;
      if (otherProcess) pids[static_cast<size_t>(peer)] = info.pid;
    }
  }
  comm_.control_->watchProcesses(pids);
}

}  // namespace tutti
