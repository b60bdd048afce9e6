// What algorithms cost, by running their schedules on the event engine (src/sim) at the prices of a calibration.
//
// A schedule's steps are the same for all sizes but for the few algorithms that say otherwise, so they are built once
// and priced again for each size and protocol.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "src/plan/host_prices.hpp"
#include "src/plan/planner.hpp"
#include "src/sim/estimate.hpp"

namespace tutti {

/// The cost of a call in microseconds.
struct CostEstimate {
  double us = 0;
  double workUs = 0;  // of the busiest core
  double wireUs = 0;  // of the busiest wire
  int lanes = 1;      // that the plan is to make of each of the schedule's
};

/// What a call costs is for the most part what it adds to a row of calls, as programs and benchmarks make them; this
/// much of it is what it costs alone.
inline constexpr double kWaitedFor = 0.1;

/// A call of chunks that are cut into slices of at most shape.slotBytes.  apart: on so many channels that start apart,
/// so that what is busiest paces them; 1: in step.  Error: InternalError if the schedules come to a halt.
Result<CostEstimate> priceOf(const sim::Bound& bound, const sim::Prices& prices, double chunkBytes, const Shape& shape,
                             double waitedFor = kWaitedFor, int apart = 1);

/// At most what priceOf() says, from the work and the wires alone.
CostEstimate leastPriceOf(const sim::Bound& bound, const sim::Prices& prices, double chunkBytes, size_t slotBytes);

/// How a candidate goes about a call.
struct Variant {
  const Algorithm& algorithm;
  Protocol protocol = Protocol::Slots;
  const std::vector<LevelPart>& parts;
  bool joined = false;  // in messages of several chunks
};

/// Elements of a call that may have fewer of them than its schedules have chunks; else kManyElements.
inline constexpr size_t kManyElements = SIZE_MAX;
size_t fewElements(const PlanRequest& request);

/// The estimates of communicators alike: of one machine, one calibration, and shapes that differ in collective, bytes,
/// root, order of operands and parts; and the choices made by them.  Any thread.
class Estimates {
 public:
  /// Schedules of more ranks than are rewritten that have no classes are estimated if all have at most so many steps.
  explicit Estimates(uint64_t mostSteps = 60'000) : mostSteps_(mostSteps) {}

  /// What `make` chose for such a request before, else what it chooses now, while others wait.  Requests with plans of
  /// their own (PlanRequest::ready) are not kept.
  Result<Choice> chosen(const PlanRequest& request, const std::function<Result<Choice>()>& make);

  /// What a call by the algorithm costs, microseconds.  The request's root is taken as rank 0.
  /// Errors: InvalidArgument if there are too many ranks to estimate its schedules: they have no symmetry and many
  /// steps.
  Result<CostEstimate> cost(const PlanRequest& request, const Calibration& calibration, const Variant& way);
  /// What such a call costs at least, without running it: `us` is that, or the cost if it is known (*known).
  /// Errors: as cost().
  Result<CostEstimate> atLeast(const PlanRequest& request, const Calibration& calibration, const Variant& way,
                               bool* known);
  /// The estimates of the first `nRanks` ranks alone.  As long as these.
  Estimates* ofFirst(int nRanks);
  /// The same as cost() of a plan with its schedules, which are not kept.
  static Result<CostEstimate> cost(const PlanRequest& request, const Calibration& calibration, const ReadyPlan& ready,
                                   Protocol protocol);

 private:
  /// How a schedule is rewritten before it runs.
  enum class Rewrite { Fused, Direct, Published };
  struct Programs {
    sim::Bound bound;
    double chunkPerByte = 0;
    size_t bytes = 0;  // that the schedules were built for
    int nChunks = 1;   // that they divide a vector into
  };
  using Built = std::tuple<const Algorithm*, Rewrite, std::vector<LevelPart>, bool, size_t, size_t>;
  using Priced =
      std::tuple<const Algorithm*, Rewrite, Protocol, std::vector<LevelPart>, bool, size_t, bool, int, double, size_t>;

  /// A candidate at one of the sizes that are estimated.
  struct Asked {
    const PlanRequest& request;
    const Calibration& calibration;
    const Variant& way;
    size_t bytes;  // instead of the request's
    Rewrite rewrite() const;
    Priced key() const {
      return {&way.algorithm,
              rewrite(),
              way.protocol,
              way.parts,
              request.shape.commutative,
              bytes,
              way.joined,
              request.overrides.nChannels,
              request.wireShare,
              fewElements(request)};
    }
  };
  /// Of the request's size, from those of the sizes around it that are estimated.
  static Result<CostEstimate> between(Asked asked, const std::function<Result<CostEstimate>(const Asked&)>& costOf);
  Result<CostEstimate> estimateOf(const Asked& asked);
  Result<CostEstimate> leastOf(const Asked& asked);
  /// Its schedules, and how they are priced.
  struct Ready {
    std::shared_ptr<const Programs> programs;
    sim::Prices prices;
    double chunkBytes = 0;
    Shape shape;  // for its slices
    double callUs = 0, leastUs = 0, waitedFor = kWaitedFor;
    int lanes = 1;
    int apart = 1;  // as priceOf's
    Result<CostEstimate> cost() const;
    CostEstimate atLeast() const;
  };
  static Ready priced(const PlanRequest& request, const Calibration& calibration, Protocol protocol,
                      std::shared_ptr<const Programs> programs, double chunkBytes);
  Result<Ready> readyOf(const Asked& asked);
  /// elements: those of chunks that have some; kManyElements: all do.
  Result<std::shared_ptr<const Programs>> find(const PlanRequest& request, const Variant& way, Rewrite rewrite,
                                               size_t elements);
  Result<std::shared_ptr<const Programs>> build(const PlanRequest& request, const Algorithm& algorithm, Rewrite rewrite,
                                                const Shape& shape, size_t elements) const;

  const uint64_t mostSteps_;
  std::mutex mutex_;
  std::map<Built, std::shared_ptr<const Programs>> known_;  // for the last size, where that matters
  std::map<Built, size_t> refused_;                         // for the last size: cannot be estimated
  std::map<Priced, CostEstimate> priced_;
  std::map<int, std::unique_ptr<Estimates>> firsts_;

  struct Call {
    Collective collective;
    size_t bytes;
    int root;
    bool inPlace, commutative, uneven, whole, direct;
    size_t boardBytes, joinBytes, elements;
    int mostChannels, mostLanes;
    double within;
    WireFormat wire;
    double wireShare;
    bool operator==(const Call&) const = default;
  };
  struct Kept {
    Call call;
    Overrides overrides;
    Choice choice;
  };
  std::mutex choosing_;  // taken before mutex_
  std::vector<Kept> choices_;
  size_t oldest_ = 0;
};

/// Those that communicators of this process with as many ranks on the same machine, with the same links and figures,
/// estimate together: the ranks that are threads, and one communicator after the other.  Any thread.
std::shared_ptr<Estimates> sharedEstimates(const PlanRequest& request, const Calibration& calibration);

}  // namespace tutti
