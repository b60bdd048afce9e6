// The calls of one batch as events of a profiler plugin (src/plugins/profiler.hpp).
//
// Events nest strictly: a group of calls, each call as the program made it, each as it is carried out, and in that its
// channels and, where messages leave the memory that ranks share, its traffic by channel and peer.
#pragma once

#include <vector>

#include "src/collective/call.hpp"
#include "src/comm/plans.hpp"
#include "src/exec/point_to_point.hpp"
#include "src/plugins/profiler.hpp"

namespace tutti {

class Links;

/// One thread at a time.
class CallEvents {
 public:
  /// How the program made a call.
  struct Made {
    void* stream = nullptr;
    bool inGroup = false;   // that it has opened itself
    bool captured = false;  // into a graph
  };

  /// Both are borrowed.
  CallEvents(profiler::Profiler& profiler, const Links& links) : profiler_(profiler), links_(links) {}
  CallEvents(const CallEvents&) = delete;
  CallEvents& operator=(const CallEvents&) = delete;
  /// The batch is over, whatever came of it.
  ~CallEvents();

  /// Calls have numbers from 0.
  void made(const Call& call, const Made& how);
  /// The call is carried out from now on.
  void beginCollective(size_t number, const Call& call, uint64_t sequence, const PlanEntry& entry);
  void beginPointToPoint(size_t number, const Call& call, size_t sliceBytes);
  /// Those that have begun are over.
  void endCollectives();
  /// Those that have begun and are done in `run`, to which they were added in the same order.
  void endMessages(const PointToPointRun& run);

 private:
  static constexpr size_t kCollective = SIZE_MAX;
  struct Running {
    size_t message = kCollective;  // its place in the PointToPointRun
    profiler::Event event = nullptr;
    std::vector<profiler::Event> channels = {}, traffic = {};
  };
  /// Messages of one channel to or from a peer.
  struct Traffic {
    uint8_t channel;
    int peer;
    bool isSend;
    int messages;
  };
  void beginGroup(const Made& how);
  void carriedOut();
  void beginChannels(int nChannels, Running* running);
  void beginTraffic(const std::vector<Traffic>& traffic, size_t sliceBytes, Running* running);
  std::vector<Traffic> trafficOf(const Plan& plan) const;
  bool isTraffic(int peer) const;
  void end(Running* running);
  template <class Which>
  void endThose(Which which);

  profiler::Profiler& profiler_;
  const Links& links_;
  profiler::Event groupApi_ = nullptr, group_ = nullptr;
  std::vector<profiler::Event> calls_;  // by number
  std::vector<Running> running_;
  size_t messages_ = 0;  // that have begun
  bool carriedOut_ = false;
};

}  // namespace tutti
