// What a rank on a CUDA device has where blocks walk plans on the devices.
#include <algorithm>
#include <map>
#include <set>

#include "src/base/config.hpp"
#include "src/comm/cuda/executor.hpp"
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

Status CudaExecutor::makeEnds(int nRanks, int lanes, size_t sliceBytes, PeerDescriptor* descriptor) {
  ends_.layout = layoutFor(sliceBytes, slots_);
  ends_.nRanks = nRanks;
  ends_.lanes = lanes;
  const cuda::ResidentRoom room{static_cast<size_t>(nRanks) * static_cast<size_t>(lanes), ends_.layout.bytes(),
                                ends_.layout.slotsAt()};
  TUTTI_ASSIGN(memory_->resident, cuda::makeResidentMemory(device_, room, readers_));
  descriptor->ends = cuda::residentCard(*memory_->resident, *device_);
  return {};
}

Status CudaExecutor::openEnds(int rank, const std::vector<PeerDescriptor>& descriptors, Links& links, int mostBlocks,
                              Deadline deadline) {
  const PeerDescriptor& mine = descriptors[static_cast<size_t>(rank)];
  ends_.rank = rank;
  for (const PeerDescriptor& descriptor : descriptors) {
    const bool sameProcess = descriptor.info.processId == mine.info.processId;
    TUTTI_TRY(awaitReading(descriptor, deadline));
    TUTTI_ASSIGN(std::unique_ptr<cuda::PeerResident> peer,
                 cuda::PeerResident::open(descriptor.ends, sameProcess, device_));
    ends_.bases.push_back(peer->ends());
    ends_.lends.push_back(shareDevice(descriptor, mine));
    memory_->peers.push_back(std::move(peer));
  }
  place_.ops = &ops_;
  place_.kernels = kernels_.get();
  place_.own = memory_->resident.get();
  place_.fallsBack = onOneDevice(descriptors) && configText("TUTTI_CUDA_EXECUTOR") == "auto";
  if (onOneDevice(descriptors)) {
    uint32_t blocks = kernels_->passBlocks();
    if (mostBlocks > 0)
      blocks = std::min(blocks, static_cast<uint32_t>(descriptors.size()) * static_cast<uint32_t>(mostBlocks));
    onePass_ = std::make_unique<OnePassRun>(place_, &worker_, descriptors.size(), blocks);
  }
  return openLaunchLines(rank, descriptors, links, deadline);
}

Status CudaExecutor::openLaunchLines(int rank, const std::vector<PeerDescriptor>& descriptors, Links& links,
                                     Deadline deadline) {
  const auto line = [&](int peer) -> Result<LaunchPlace::Line> {
    TUTTI_ASSIGN(Endpoint * endpoint, links.await(peer, kLaunchLane, deadline));
    return LaunchPlace::Line{endpoint, peer};
  };
  const std::vector<int> here = sharers(descriptors, rank);
  place_.launcher = memory_->peers[static_cast<size_t>(here.front())]->shared();
  if (here.front() != rank) {
    TUTTI_ASSIGN(place_.toLauncher, line(here.front()));
    return {};
  }
  for (const int member : here) {
    if (member == rank) continue;
    place_.members.push_back(memory_->peers[static_cast<size_t>(member)]->shared());
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

std::shared_ptr<cuda::ResidentMemory> CudaExecutor::residentMemory() const { return memory_->resident; }

bool CudaExecutor::resident(cuda::Stream stream) const {
  if (memory_->resident == nullptr) return false;
  const bool shared = place_.launcher != place_.own || !place_.members.empty();
  return !shared || !capturing(stream);
}

bool CudaExecutor::settleWalk() {
  cuda::LaunchSeat& seat = memory_->resident->seat;
  return ++seat.settled < seat.byStreamsFrom;
}

std::unique_ptr<LaunchWatch> CudaExecutor::launchWatch() const {
  if (place_.own == nullptr || place_.launcher != place_.own) return nullptr;
  return std::make_unique<LaunchWatch>(memory_->resident, device_->ordinal(), place_.fallsBack);
}

Result<std::unique_ptr<ResidentRun>> CudaExecutor::residentRun(const Plan& plan) {
  TUTTI_ASSIGN(const std::vector<std::byte> measure, residentProgram(plan, ends_, nullptr));
  TUTTI_ASSIGN(std::shared_ptr<ResidentProgram> program, programRoom(measure.size()));
  TUTTI_ASSIGN(const std::vector<std::byte> image, residentProgram(plan, ends_, program->memory.data()));
  TUTTI_TRY(upload(image, program->memory));
  return std::make_unique<ResidentRun>(place_, plan, std::move(program));
}

// Of plans that the cache has dropped, unless a graph may still have them, or else new: freeing memory may wait for the
// whole device.
Result<std::shared_ptr<ResidentProgram>> CudaExecutor::programRoom(size_t bytes) {
  const bool ended = idle();
  for (const auto& known : memory_->programs) {
    const bool fits = known->memory.bytes() >= bytes && known->memory.bytes() <= 4 * bytes;
    if (ended && fits && known.use_count() == 1 && !known->captured) return known;
  }
  auto program = std::make_shared<ResidentProgram>();
  TUTTI_ASSIGN(program->memory, cuda::DeviceMemory::allocate(device_, bytes));
  memory_->programs.push_back(program);
  return program;
}

// Waits for the copy alone: the stream is this communicator's own, and nothing in it waits for another rank.
Status CudaExecutor::upload(const std::vector<std::byte>& bytes, const cuda::DeviceMemory& to) {
  const cuda::Driver& driver = device_->driver();
  TUTTI_CUDA(driver, cuMemcpyAsync(to.address(), cuda::addressOf(bytes.data()), bytes.size(), rescue_));
  TUTTI_CUDA(driver, cuStreamSynchronize(rescue_));
  return {};
}

}  // namespace tutti
