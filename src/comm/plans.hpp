// Plans that a communicator has made, by kind of call.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "src/collective/call.hpp"
#include "src/cost/link_cost.hpp"
#include "src/exec/collective_run.hpp"
#include "src/exec/kernels/pass_program.hpp"
#include "src/exec/plan.hpp"

namespace tutti {

/// All that a plan depends on, apart from the communicator.
struct PlanKey {
  Collective collective = Collective::AllReduce;
  tuttiDataType_t dtype = tuttiFloat32;
  bool ordered = false;  // operands are combined in rank order (reproducible sums, operators that do not commute)
  bool inPlace = false;
  bool narrow = false;    // a sum whose messages between hosts may be rounded
  bool resident = false;  // walked by blocks on the device
  uint8_t way = 0;        // of those that are tried (learning.hpp); 0: the planner's choice
  int root = 0;
  size_t count = 0;
  std::shared_ptr<const Counts> counts;

  bool operator==(const PlanKey& other) const;
  size_t hash() const;
};

/// Carries out calls by a plan elsewhere than on the host.  Reusable: begin(), then the task.
class PlanRun {
 public:
  virtual ~PlanRun() = default;
  virtual void begin(const CallBuffers& buffers, const PrePostOps& prePost) = 0;
  virtual Task* task() = 0;
};

/// How calls of a kind are carried out.
struct PlanEntry {
  std::optional<kernels::PassCall> pass;  // by one pass over all ranks' buffers, without a plan; or
  std::unique_ptr<Plan> plan;
  std::unique_ptr<CollectiveRun> run;  // one of the two
  std::unique_ptr<PlanRun> resident;
  // What was chosen.
  std::string_view algorithm = "onepass";  // as CallEstimate::algorithm
  Protocol protocol = Protocol::Direct;
  int nChannels = 1;
  size_t copiedBytes = 0;  // of the input, by Executor::workspace(): the plan reads a copy; 0: it reads the input
  Task* task() const { return run != nullptr ? static_cast<Task*>(run.get()) : resident->task(); }
  void begin(const CallBuffers& buffers, const PrePostOps& prePost) const {
    if (run != nullptr) return run->begin(buffers, prePost);
    resident->begin(buffers, prePost);
  }
};

/// One thread at a time.  Keeps the most recently used plans; others live for as long as somebody has them.
class PlanCache {
 public:
  /// nullptr if there is none.
  std::shared_ptr<const PlanEntry> find(const PlanKey& key);
  std::shared_ptr<const PlanEntry> insert(const PlanKey& key, PlanEntry entry);
  void clear();

 private:
  static constexpr size_t kMostPlans = 256;
  struct Hash {
    size_t operator()(const PlanKey& key) const { return key.hash(); }
  };
  using Order = std::list<std::pair<PlanKey, std::shared_ptr<const PlanEntry>>>;
  Order order_;  // most recently used first
  std::unordered_map<PlanKey, Order::iterator, Hash> byKey_;
};

}  // namespace tutti
