// A profiler plugin that has been loaded for one communicator.
#pragma once

#include <memory>
#include <string>

#include "src/base/status.hpp"
#include "src/plugins/profiler_abi.hpp"

namespace tutti::profiler {

/// The communicator that a plugin is told of, as one rank sees it.
struct Subject {
  std::string name;     // "": none
  uint64_t number = 0;  // the same on all ranks
  int nNodes = 1;
  int nRanks = 1;
  int rank = 0;
};

/// Of an event that the plugin does not follow: null.
using Event = void*;

/// Any thread.  An event that begins ends once, after those that it is the parent of.
class Profiler {
 public:
  /// plugin: as TUTTI_PROFILER_PLUGIN.  Null where that is empty or "none", and where the plugin wants no events.
  /// Errors: InvalidUsage: a sentence that says what was looked for, and what to do.
  static Result<std::unique_ptr<Profiler>> open(const std::string& plugin, const Subject& subject);
  virtual ~Profiler() = default;

  /// Whether the plugin asks for this kind, or for one of which events of this kind are parents.
  bool wants(EventKind kind) const { return (mask_ & static_cast<uint32_t>(kind)) != 0; }
  int rank() const { return rank_; }

  virtual Event beginGroup(Event api) = 0;
  virtual Event beginGroupApi(const GroupApiEvent& what) = 0;
  virtual Event beginCollectiveApi(Event group, const CollectiveApiEvent& what) = 0;
  virtual Event beginPointToPointApi(Event group, const PointToPointApiEvent& what) = 0;
  virtual Event beginCollective(Event api, Event group, const CollectiveEvent& what) = 0;
  virtual Event beginPointToPoint(Event api, Event group, const PointToPointEvent& what) = 0;
  virtual Event beginProxyOp(Event call, const ProxyOpEvent& what) = 0;
  virtual Event beginKernelChannel(Event call, const KernelChannelEvent& what) = 0;
  /// Null is no event.
  virtual void change(Event event, EventState state, uint64_t timer = 0) = 0;
  virtual void end(Event event) = 0;

 protected:
  uint32_t mask_ = 0;  // those that are told
  int rank_ = 0;
};

}  // namespace tutti::profiler
