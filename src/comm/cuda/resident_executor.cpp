#include "src/comm/cuda/resident_executor.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/config.hpp"
#include "src/comm/cuda/executor_kind.hpp"
#include "src/cost/device_costs.hpp"

namespace tutti {
namespace {

constexpr int kMostResidentLanes = 64;

kernels::EndLayout layoutFor(size_t sliceBytes, uint32_t slots) { return {slots, (sliceBytes + 127) / 128 * 128}; }

/// Ranks in one process and on one device, the lowest first.
std::vector<int> sharers(const std::vector<PeerDescriptor>& descriptors, int rank) {
  const PeerDescriptor& mine = descriptors[static_cast<size_t>(rank)];
  std::vector<int> ranks;
  for (size_t r = 0; r < descriptors.size(); ++r) {
    if (shareDevice(descriptors[r], mine)) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

/// The lowest rank of each device.
std::vector<int> launchers(const std::vector<PeerDescriptor>& descriptors) {
  std::vector<int> ranks;
  std::set<std::string> devices;
  for (size_t r = 0; r < descriptors.size(); ++r) {
    if (devices.insert(descriptors[r].device).second) ranks.push_back(static_cast<int>(r));
  }
  return ranks;
}

}  // namespace

bool onOneDevice(const std::vector<PeerDescriptor>& descriptors) {
  return sharers(descriptors, 0).size() == descriptors.size();
}

int residentLanes(const std::vector<PeerDescriptor>& descriptors, size_t sliceBytes, uint32_t slots) {
  if (descriptors.size() > kernels::kMostLinks) return 0;
  size_t lanes = kMostResidentLanes, mostMembers = 1;
  std::map<std::string, uint64_t> processOf;
  for (size_t r = 0; r < descriptors.size(); ++r) {
    const PeerDescriptor& descriptor = descriptors[r];
    const auto [entry, first] = processOf.emplace(descriptor.device, descriptor.info.processId);
    if (descriptor.device.empty() || entry->second != descriptor.info.processId) return 0;
    const size_t members = sharers(descriptors, static_cast<int>(r)).size();
    if (members > kernels::kMostMembers) return 0;
    lanes = std::min<size_t>(lanes, descriptor.deviceBlocks / members);
    mostMembers = std::max(mostMembers, members);
  }
  const size_t laneBytes = descriptors.size() * layoutFor(sliceBytes, slots).bytes();
  const size_t room = mostBlockEndBytes(onOneDevice(descriptors), mostMembers);
  return static_cast<int>(std::min(lanes, room / laneBytes));
}

Status ResidentExecutor::makeEnds(int nRanks, const RankLayout& layout, uint32_t slots, PeerDescriptor* descriptor) {
  ends_.layout = layoutFor(layout.sliceBytes, slots);
  ends_.nRanks = nRanks;
  ends_.lanes = layout.residentLanes;
  const size_t ends = static_cast<size_t>(nRanks) * static_cast<size_t>(ends_.lanes);
  const cuda::ResidentRoom room{ends, ends_.layout.bytes(), ends_.layout.slotsAt()};
  TUTTI_ASSIGN(memory_, cuda::makeResidentMemory(device(), room, lending_.readers()));
  descriptor->ends = cuda::residentCard(*memory_, *device());
  return {};
}

Status ResidentExecutor::openEnds(int rank, Links& links, int mostBlocks, Deadline deadline) {
  const std::vector<PeerDescriptor>& descriptors = links.descriptors();
  const PeerDescriptor& mine = descriptors[static_cast<size_t>(rank)];
  ends_.rank = rank;
  for (const PeerDescriptor& descriptor : descriptors) {
    const bool sameProcess = descriptor.info.processId == mine.info.processId;
    TUTTI_TRY(lending_.awaitReading(descriptor, deadline));
    TUTTI_ASSIGN(std::unique_ptr<cuda::PeerResident> peer,
                 cuda::PeerResident::open(descriptor.ends, sameProcess, device()));
    ends_.bases.push_back(peer->ends());
    ends_.lends.push_back(shareDevice(descriptor, mine));
    peers_.push_back(std::move(peer));
  }
  place_.ops = &ops_;
  place_.kernels = &kernels_;
  place_.own = memory_.get();
  place_.fallsBack = onOneDevice(descriptors) && configText("TUTTI_CUDA_EXECUTOR") == "auto";
  if (onOneDevice(descriptors)) {
    uint32_t blocks = kernels_.passBlocks();
    if (mostBlocks > 0)
      blocks = std::min(blocks, static_cast<uint32_t>(descriptors.size()) * static_cast<uint32_t>(mostBlocks));
    onePass_ = std::make_unique<OnePassRun>(place_, &worker_, descriptors.size(), blocks);
  }
  return openLaunchLines(rank, links, deadline);
}

Status ResidentExecutor::openLaunchLines(int rank, Links& links, Deadline deadline) {
  const std::vector<PeerDescriptor>& descriptors = links.descriptors();
  const auto line = [&](int peer) -> Result<LaunchPlace::Line> {
    TUTTI_ASSIGN(Endpoint * endpoint, links.await(peer, kLaunchLane, deadline));
    return LaunchPlace::Line{endpoint, peer};
  };
  const std::vector<int> here = sharers(descriptors, rank);
  place_.launcher = peers_[static_cast<size_t>(here.front())]->shared();
  if (here.front() != rank) {
    TUTTI_ASSIGN(place_.toLauncher, line(here.front()));
    return {};
  }
  for (const int member : here) {
    if (member == rank) continue;
    place_.members.push_back(peers_[static_cast<size_t>(member)]->shared());
    TUTTI_ASSIGN(const LaunchPlace::Line to, line(member));
    place_.toMembers.push_back(to);
  }
  const std::vector<int> all = launchers(descriptors);
  const auto at = static_cast<size_t>(std::find(all.begin(), all.end(), rank) - all.begin());
  if (all.size() < 2) return {};
  TUTTI_ASSIGN(place_.next, line(all[(at + 1) % all.size()]));
  TUTTI_ASSIGN(place_.previous, line(all[(at + all.size() - 1) % all.size()]));
  return {};
}

bool ResidentExecutor::sharesLaunch() const { return place_.launcher != place_.own || !place_.members.empty(); }

bool ResidentExecutor::settleWalk() {
  cuda::LaunchSeat& seat = memory_->seat;
  return ++seat.settled < seat.byStreamsFrom;
}

std::function<bool()> ResidentExecutor::launchWatch() const {
  if (place_.launcher != place_.own) return nullptr;
  return
      [watch = std::make_shared<LaunchWatch>(memory_, device()->ordinal(), place_.fallsBack)] { return watch->look(); };
}

Result<std::unique_ptr<PlanRun>> ResidentExecutor::runOf(const Plan& plan, bool idle, cuda::Stream stream) {
  TUTTI_ASSIGN(const std::vector<std::byte> measure, residentProgram(plan, ends_, nullptr));
  TUTTI_ASSIGN(std::shared_ptr<ResidentProgram> program, programRoom(measure.size(), idle));
  TUTTI_ASSIGN(const std::vector<std::byte> image, residentProgram(plan, ends_, program->memory.data()));
  // Waits for the copy alone: the stream is this communicator's own, and nothing in it waits for another rank.
  const cuda::Driver& driver = device()->driver();
  TUTTI_CUDA(driver, cuMemcpyAsync(program->memory.address(), cuda::addressOf(image.data()), image.size(), stream));
  TUTTI_CUDA(driver, cuStreamSynchronize(stream));
  return std::unique_ptr<PlanRun>(std::make_unique<ResidentRun>(place_, plan, std::move(program)));
}

// Of plans that the cache has dropped, unless a graph may still have them, or else new: freeing memory may wait for the
// whole device.
Result<std::shared_ptr<ResidentProgram>> ResidentExecutor::programRoom(size_t bytes, bool idle) {
  for (const auto& known : programs_) {
    const bool fits = known->memory.bytes() >= bytes && known->memory.bytes() <= 4 * bytes;
    if (idle && fits && known.use_count() == 1 && !known->captured) return known;
  }
  auto program = std::make_shared<ResidentProgram>();
  TUTTI_ASSIGN(program->memory, cuda::DeviceMemory::allocate(device(), bytes));
  programs_.push_back(program);
  return program;
}

void ResidentExecutor::closePeers() {
  for (const auto& peer : peers_) peer->close();
}

}  // namespace tutti
