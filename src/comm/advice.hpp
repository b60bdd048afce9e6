// What a tuner plugin wants of the plans of a communicator.
//
// Rank 0 alone has the plugin.  The first time that a communicator makes a call of a kind, rank 0 asks it, and all
// ranks hear of the answer before they plan: so they choose alike, whatever plugins do.  That a call is the first of
// its kind is the same on all ranks, as it depends on the calls alone that the communicator has made.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>

#include "src/control/session/session.hpp"
#include "src/plan/planner.hpp"
#include "src/plugins/tuner.hpp"

namespace tutti {

/// One thread at a time, but for addTo().
class Advice {
 public:
  /// tuner: on rank 0; null on others.
  Advice(Control& control, std::unique_ptr<tuner::Tuner> tuner) : control_(control), tuner_(std::move(tuner)) {}

  /// Whether the plugin has a say in calls of this shape.
  static bool concerns(const Shape& shape);
  /// True once the answer for such calls is known.  compare: what rank 0's planner compared for it, with the table of
  /// all.  Errors: those of the control plane; RemoteError: the answer is not understood.
  Result<bool> learn(const Shape& shape, const std::function<Result<Choice>()>& compare);
  /// Puts the answer, if there is one, into overrides that ask for nothing of the kind.  Any thread.
  void addTo(const Shape& shape, Overrides* overrides) const;

 private:
  struct Answer {
    const Algorithm* algorithm = nullptr;  // null: the planner's choice
    std::optional<Protocol> protocol;
    int nChannels = 0;
  };
  using Key = std::tuple<Collective, size_t, bool>;
  static Key keyOf(const Shape& shape) { return {shape.collective, shape.bytes, shape.commutative}; }
  /// As text; "": none.
  std::string ask(const Shape& shape, const std::function<Result<Choice>()>& compare);
  static Result<Answer> parse(Collective collective, const std::string& text);

  Control& control_;
  const std::unique_ptr<tuner::Tuner> tuner_;
  std::unique_ptr<Pending<Blobs>> gather_;  // of the call that is being learned
  mutable std::mutex mutex_;                // of changes to answers_
  std::map<Key, Answer> answers_;
};

}  // namespace tutti
