#include "perf/common/world.hpp"

#include <cstdlib>
#include <thread>

#include "perf/common/environment.hpp"

namespace tutti::perf {

void check(tuttiResult_t result, tuttiComm_t comm, const char* what) {
  if (result == tuttiSuccess) return;
  const char* sentence = tuttiGetLastError(comm);
  if (comm != nullptr && *sentence == '\0') sentence = tuttiGetLastError(nullptr);
  if (*sentence == '\0') throw Failure(std::string(what) + ": " + tuttiGetErrorString(result));
  throw Failure(std::string_view(sentence).starts_with(what) ? sentence : std::string(what) + ": " + sentence);
}

World::World(const Options& options) : options_(options), config_(TUTTI_CONFIG_INITIALIZER) {
  config_.device = TUTTI_DEVICE_HOST;
  if (options.timeoutS > 0) config_.timeoutMs = options.timeoutS * 1000;
  check(tuttiCommInitEnv(&processComm_, &config_), nullptr, "tuttiCommInitEnv");
  check(tuttiCommUserRank(processComm_, &process_), processComm_, "tuttiCommUserRank");
  check(tuttiCommCount(processComm_, &nProcesses_), processComm_, "tuttiCommCount");
  comms_.assign(static_cast<size_t>(ranksHere()), nullptr);
  groups_.assign(comms_.size(), nullptr);
  if (ranksHere() == 1) {
    comms_[0] = processComm_;
    return;
  }
  if (process_ == 0) check(tuttiGetUniqueId(&id_), nullptr, "tuttiGetUniqueId");
  if (nProcesses_ > 1) {
    check(tuttiBroadcast(&id_, &id_, sizeof id_, tuttiUint8, 0, processComm_, nullptr), processComm_, "tuttiBroadcast");
  }
  if (!options.parallelInit) joinAllFromHere();
}

// Destroying waits for the other ranks, so each communicator leaves on a thread of its own.
void World::leave(const std::vector<tuttiComm_t>& comms) {
  std::vector<std::thread> leaving;
  for (tuttiComm_t comm : comms) {
    if (comm == nullptr || comm == processComm_) continue;
    leaving.emplace_back([this, comm] { (void)(stopped_ ? tuttiCommAbort(comm) : tuttiCommDestroy(comm)); });
  }
  for (std::thread& t : leaving) t.join();
}

World::~World() {
  leave(groups_);
  leave(comms_);
  if (processComm_ != nullptr) (void)(stopped_ ? tuttiCommAbort(processComm_) : tuttiCommDestroy(processComm_));
}

void World::joinAllFromHere() {
  check(tuttiGroupStart(), nullptr, "tuttiGroupStart");
  for (int thread = 0; thread < threads(); ++thread) joinInGroup(thread);
  check(tuttiGroupEnd(), nullptr, "tuttiCommInitRank");
}

void World::joinInGroup(int thread) {
  for (int k = 0; k < ranksPerThread(); ++k) {
    const int rank = firstRank(thread) + k;
    tuttiComm_t* comm = &comms_[static_cast<size_t>(thread * ranksPerThread() + k)];
    check(tuttiCommInitRankConfig(comm, nRanks(), id_, rank, &config_), nullptr, "tuttiCommInitRank");
  }
}

std::vector<tuttiComm_t> World::join(int thread) {
  if (ranksHere() > 1 && options_.parallelInit) {
    const bool several = ranksPerThread() > 1;
    if (several) check(tuttiGroupStart(), nullptr, "tuttiGroupStart");
    joinInGroup(thread);
    if (several) check(tuttiGroupEnd(), nullptr, "tuttiCommInitRank");
  }
  return split(thread);
}

int World::groupOf(int rank) const {
  const std::string mask = testsVariable("SPLIT_MASK"), rule = testsVariable("SPLIT");
  if (!mask.empty()) return rank & static_cast<int>(std::strtol(mask.c_str(), nullptr, 16));
  if (rule.empty()) return 0;
  const size_t space = rule.find(' ');
  const std::string name = rule.substr(0, space);
  const int value = space == std::string::npos ? 0 : static_cast<int>(std::strtol(rule.c_str() + space, nullptr, 0));
  if (name == "AND") return rank & value;
  if (name == "OR") return rank | value;
  if (name == "MOD" && value > 0) return rank % value;
  if (name == "DIV" && value > 0) return rank / value;
  throw Failure("TUTTI_TESTS_SPLIT='" + rule + "' is not AND, OR, MOD or DIV and a number");
}

std::vector<tuttiComm_t> World::split(int thread) {
  const size_t first = static_cast<size_t>(thread * ranksPerThread()), n = static_cast<size_t>(ranksPerThread());
  const auto own = [&](std::vector<tuttiComm_t>& comms) {
    return std::vector<tuttiComm_t>(comms.begin() + static_cast<std::ptrdiff_t>(first),
                                    comms.begin() + static_cast<std::ptrdiff_t>(first + n));
  };
  if (testsVariable("SPLIT").empty() && testsVariable("SPLIT_MASK").empty()) return own(comms_);
  check(tuttiGroupStart(), nullptr, "tuttiGroupStart");
  for (size_t i = first; i < first + n; ++i) {
    const int rank = firstRank(0) + static_cast<int>(i);
    check(tuttiCommSplit(comms_[i], groupOf(rank), rank, &groups_[i], nullptr), comms_[i], "tuttiCommSplit");
  }
  check(tuttiGroupEnd(), nullptr, "tuttiCommSplit");
  return own(groups_);
}

void World::meetThreads() {
  std::unique_lock lock(mutex_);
  if (stopped_) throw Stopped();
  const unsigned mine = generation_;
  if (++waiting_ == threads()) {
    waiting_ = 0;
    ++generation_;
    arrived_.notify_all();
    return;
  }
  arrived_.wait(lock, [&] { return stopped_ || generation_ != mine; });
  if (generation_ == mine) throw Stopped();
}

void World::barrier(int thread) {
  meetThreads();
  if (nProcesses_ == 1) return;
  if (thread == 0) check(tuttiBarrier(processComm_, nullptr), processComm_, "tuttiBarrier");
  meetThreads();
}

std::vector<std::byte> World::exchange(int thread, const void* mine, size_t bytesPerRank) {
  const size_t perThread = bytesPerRank * static_cast<size_t>(ranksPerThread());
  const size_t perProcess = perThread * static_cast<size_t>(threads());
  if (thread == 0) shared_.resize(perProcess);
  meetThreads();
  std::memcpy(shared_.data() + perThread * static_cast<size_t>(thread), mine, perThread);
  meetThreads();
  if (thread == 0) {
    all_.resize(perProcess * static_cast<size_t>(nProcesses_));
    check(tuttiAllGather(shared_.data(), all_.data(), perProcess, tuttiUint8, processComm_, nullptr), processComm_,
          "tuttiAllGather");
  }
  meetThreads();
  const std::vector<std::byte> result = all_;
  meetThreads();  // nobody changes all_ before all have copied it
  return result;
}

std::shared_ptr<const ReducePattern> World::pattern(const TypeInfo& type, const OpInfo& op, int nRanks) {
  std::lock_guard lock(mutex_);
  auto& entry = patterns_[{static_cast<int>(type.type), static_cast<int>(op.kind), nRanks}];
  if (entry == nullptr) entry = std::make_shared<const ReducePattern>(type, op, nRanks);
  return entry;
}

void World::stop() {
  std::lock_guard lock(mutex_);
  stopped_ = true;
  arrived_.notify_all();
}

void World::abort(int thread) {
  for (int k = 0; k < ranksPerThread(); ++k) {
    const size_t i = static_cast<size_t>(thread * ranksPerThread() + k);
    for (std::vector<tuttiComm_t>* comms : {&groups_, &comms_}) {
      tuttiComm_t& comm = (*comms)[i];
      if (comm != nullptr && comm != processComm_) (void)tuttiCommAbort(comm);
      comm = nullptr;
    }
  }
}

}  // namespace tutti::perf
