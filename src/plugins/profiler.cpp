#include "src/plugins/profiler.hpp"

#include <cstdarg>

#include "src/base/log.hpp"
#include "src/plugins/open.hpp"

namespace tutti::profiler {
namespace {

[[gnu::format(printf, 5, 6)]] void hear(int level, unsigned long, const char*, int, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  logPlugin("profiler", level, format, arguments);
  va_end(arguments);
}

constexpr uint32_t bit(EventKind kind) { return static_cast<uint32_t>(kind); }

/// What is told so that events asked for have parents.
uint32_t withParents(uint32_t asked) {
  constexpr uint32_t kOfCalls =
      bit(EventKind::ProxyOp) | bit(EventKind::ProxyStep) | bit(EventKind::KernelChannel) | bit(EventKind::NetPlugin);
  uint32_t mask = asked;
  if ((asked & (bit(EventKind::ProxyStep) | bit(EventKind::NetPlugin))) != 0) mask |= bit(EventKind::ProxyOp);
  if ((asked & kOfCalls) != 0) mask |= bit(EventKind::Collective) | bit(EventKind::PointToPoint);
  if ((mask & bit(EventKind::Collective)) != 0) mask |= bit(EventKind::CollectiveApi);
  if ((mask & bit(EventKind::PointToPoint)) != 0) mask |= bit(EventKind::PointToPointApi);
  if ((mask & (bit(EventKind::Collective) | bit(EventKind::PointToPoint))) != 0) mask |= bit(EventKind::Group);
  if (mask != 0) mask |= bit(EventKind::GroupApi);
  return mask;
}

Code initialise(const Table4& table, void** context, int* mask, const char* name, const Subject& s) {
  return table.init(context, mask, name, s.number, s.nNodes, s.nRanks, s.rank, hear);
}
Code initialise(const Table5And6& table, void** context, int* mask, const char* name, const Subject& s) {
  return table.init(context, s.number, mask, name, s.nNodes, s.nRanks, s.rank, hear);
}

template <class Table, class Descriptor, bool kHasApi>
class Adapter final : public Profiler {
 public:
  explicit Adapter(const void* table) : table_(*static_cast<const Table*>(table)) {}
  /// As NCCL: not of a plugin that has no context, as one that is switched off.
  ~Adapter() override {
    if (context_ != nullptr) (void)table_.finalize(context_);
  }

  Status begin(const Subject& subject) {
    int asked = 0;
    const char* const name = subject.name.empty() ? nullptr : keptText(subject.name);
    const Code code = initialise(table_, &context_, &asked, name, subject);
    if (code != kSuccess) {
      context_ = nullptr;
      return invalidUsage(ErrorCode::PluginLoad, table_.name, ": init gave code ", code);
    }
    mask_ = withParents(static_cast<uint32_t>(asked));
    rank_ = subject.rank;
    TUTTI_INFO("profiler", "rank ", rank_, ": plugin ", table_.name, " follows events ", asked);
    return {};
  }

  Event beginGroup(Event api) override {
    return start(EventKind::Group, api, [](Descriptor&) {});
  }
  Event beginGroupApi(const GroupApiEvent& what) override {
    if constexpr (kHasApi) return start(EventKind::GroupApi, nullptr, [&](Descriptor& d) { d.groupApi = what; });
    if constexpr (!kHasApi) return nullptr;
  }
  Event beginCollectiveApi(Event group, const CollectiveApiEvent& what) override {
    if constexpr (kHasApi)
      return start(EventKind::CollectiveApi, group, [&](Descriptor& d) { d.collectiveApi = what; });
    if constexpr (!kHasApi) return nullptr;
  }
  Event beginPointToPointApi(Event group, const PointToPointApiEvent& what) override {
    if constexpr (kHasApi)
      return start(EventKind::PointToPointApi, group, [&](Descriptor& d) { d.pointToPointApi = what; });
    if constexpr (!kHasApi) return nullptr;
  }
  Event beginCollective(Event api, Event group, const CollectiveEvent& what) override {
    return start(EventKind::Collective, kHasApi ? api : group, [&](Descriptor& d) {
      if constexpr (kHasApi) d.collective = {what, group};
      if constexpr (!kHasApi) d.collective = what;
    });
  }
  Event beginPointToPoint(Event api, Event group, const PointToPointEvent& what) override {
    return start(EventKind::PointToPoint, kHasApi ? api : group, [&](Descriptor& d) {
      if constexpr (kHasApi) d.pointToPoint = {what, group};
      if constexpr (!kHasApi) d.pointToPoint = what;
    });
  }
  Event beginProxyOp(Event call, const ProxyOpEvent& what) override {
    return start(EventKind::ProxyOp, call, [&](Descriptor& d) { d.proxyOp = what; });
  }
  Event beginKernelChannel(Event call, const KernelChannelEvent& what) override {
    return start(EventKind::KernelChannel, call, [&](Descriptor& d) { d.kernelChannel = what; });
  }
  void change(Event event, EventState state, uint64_t timer) override {
    StateArguments arguments{.timer = timer};
    const bool has = kHasApi || (state != EventState::GroupStartApiStop && state != EventState::GroupEndApiStart);
    if (event != nullptr && has) (void)table_.recordEventState(event, static_cast<int>(state), &arguments);
  }
  void end(Event event) override {
    if (event != nullptr) (void)table_.stopEvent(event);
  }

 private:
  template <class Fill>
  Event start(EventKind kind, Event parent, Fill fill) {
    if (!wants(kind) || context_ == nullptr) return nullptr;
    Descriptor descriptor{};
    descriptor.kind = static_cast<decltype(descriptor.kind)>(kind);
    descriptor.parent = parent;
    descriptor.rank = rank_;
    fill(descriptor);
    Event event = nullptr;
    return table_.startEvent(context_, &event, &descriptor) == kSuccess ? event : nullptr;
  }

  const Table& table_;
  void* context_ = nullptr;
};

using Opened = Result<std::unique_ptr<Profiler>>;

template <class Table, class Descriptor, bool kHasApi>
Opened adapt(const void* table, const Subject& subject) {
  auto adapter = std::make_unique<Adapter<Table, Descriptor, kHasApi>>(table);
  TUTTI_TRY(adapter->begin(subject));
  return std::unique_ptr<Profiler>(std::move(adapter));
}

constexpr PluginVersion<Profiler, Subject> kVersions[] = {{"ncclProfiler_v6", adapt<Table5And6, Descriptor5And6, true>},
                                                          {"ncclProfiler_v5", adapt<Table5And6, Descriptor5And6, true>},
                                                          {"ncclProfiler_v4", adapt<Table4, Descriptor4, false>}};

}  // namespace

Opened Profiler::open(const std::string& plugin, const Subject& subject) {
  TUTTI_ASSIGN(std::unique_ptr<Profiler> opened,
               openPlugin("profiler", "TUTTI_PROFILER_PLUGIN", plugin, kVersions, subject));
  const bool listens = opened != nullptr && opened->wants(EventKind::GroupApi);
  return listens ? std::move(opened) : nullptr;
}

}  // namespace tutti::profiler
