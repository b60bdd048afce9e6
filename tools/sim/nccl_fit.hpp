// NCCL's model beside published sets: leave a generation of GPUs out, fit what is fitted with the others.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "src/base/status.hpp"
#include "tools/nccl_model/predict.hpp"
#include "tools/sim/published.hpp"

namespace tutti::sim {

/// A published point with the machine that it was measured on.
struct NcclPoint {
  nccl_model::Machine machine;
  Collective collective;
  const nccl_model::Settings* settings;
  double bytes, us;
  bool doubted;  // PublishedSet::doubt: compared with, fitted to never
  /// "Hopper": machines of a kind that the model is to predict unseen.
  std::string generation() const { return std::string(machine.gpu->name); }
};

/// Errors: those of predict().
Result<nccl_model::Prediction> predicted(const NcclPoint& point, const nccl_model::Fitted& fitted);

class LeftOut {
 public:
  /// `sets` stay where they are.  Errors: those of descriptions.
  static Result<LeftOut> make(const std::vector<PublishedSet>& sets);
  /// Of the set's points, in order.
  const std::vector<NcclPoint>& pointsOf(const PublishedSet& set) const { return points_.at(&set); }
  /// Fitted with every point of other generations ("": with all) that nothing contradicts, from values that none of
  /// them is in.  Remembered.
  const nccl_model::Fitted& without(const std::string& generation);
  /// "without Hopper: fences 226 kB ..., calls alone 29 us more", for every generation asked about.
  std::string text() const;

 private:
  double misfit(const nccl_model::Fitted& fitted, const std::string& generation) const;

  std::map<const PublishedSet*, std::vector<NcclPoint>> points_;
  std::map<std::string, nccl_model::Fitted> fitted_;
};

}  // namespace tutti::sim
