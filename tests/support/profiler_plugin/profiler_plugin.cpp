// A profiler plugin that believes nothing: README.md.  PROFILER_VERSION is the version of the interface.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "src/plugins/profiler_abi.hpp"

namespace {

using namespace tutti::profiler;
#if PROFILER_VERSION == 4
using Descriptor = Descriptor4;
using Table = Table4;
#else
using Descriptor = Descriptor5And6;
using Table = Table5And6;
#endif
constexpr bool kHasApi = PROFILER_VERSION > 4;

struct Context;
struct Event {
  EventKind kind{};
  Context* context = nullptr;
  Event* parent = nullptr;
  int children = 0;
  bool over = false;
  std::string states;
  std::string what;
};
struct Context {
  int rank = 0;
  std::vector<std::unique_ptr<Event>> events;
  std::string lines;
};

std::mutex mutex;
std::string all, taken;
std::map<Context*, std::unique_ptr<Context>> contexts;

void complain(const std::string& why) {
  all += "complaint: " + why + "\n";
  if (std::getenv("PROFILER_PLUGIN_STRICT") == nullptr) return;
  std::fprintf(stderr, "profiler plugin: complaint: %s\n", why.c_str());
  std::abort();
}

const char* nameOf(EventKind kind) {
  switch (kind) {
    case EventKind::Group: return "group";
    case EventKind::Collective: return "coll";
    case EventKind::PointToPoint: return "p2p";
    case EventKind::ProxyOp: return "proxyop";
    case EventKind::KernelChannel: return "kernelch";
    case EventKind::GroupApi: return "groupapi";
    case EventKind::CollectiveApi: return "collapi";
    case EventKind::PointToPointApi: return "p2papi";
    default: return "other";
  }
}

/// What an event of this kind must be the child of.
bool mayBeParent(EventKind parent, EventKind child) {
  switch (child) {
    case EventKind::CollectiveApi:
    case EventKind::PointToPointApi: return parent == EventKind::GroupApi;
    case EventKind::Group: return kHasApi && parent == EventKind::GroupApi;
    case EventKind::Collective: return parent == (kHasApi ? EventKind::CollectiveApi : EventKind::Group);
    case EventKind::PointToPoint: return parent == (kHasApi ? EventKind::PointToPointApi : EventKind::Group);
    case EventKind::ProxyOp:
    case EventKind::KernelChannel: return parent == EventKind::Collective || parent == EventKind::PointToPoint;
    default: return false;
  }
}

#if PROFILER_VERSION == 4
const CollectiveEvent& collectiveOf(const Descriptor& d) { return d.collective; }
const PointToPointEvent& pointToPointOf(const Descriptor& d) { return d.pointToPoint; }
#else
const CollectiveEvent& collectiveOf(const Descriptor& d) { return d.collective.call; }
const PointToPointEvent& pointToPointOf(const Descriptor& d) { return d.pointToPoint.call; }
#endif

std::string describe(const Descriptor& d) {
  std::ostringstream out;
  switch (static_cast<EventKind>(d.kind)) {
    case EventKind::Collective: {
      const CollectiveEvent& c = collectiveOf(d);
      out << c.function << " seq=" << c.sequence << " count=" << c.count << " type=" << c.dataType << " root=" << c.root
          << " channels=" << int{c.nChannels} << " algo=" << c.algorithm << " proto=" << c.protocol;
      break;
    }
    case EventKind::PointToPoint: {
      const PointToPointEvent& p = pointToPointOf(d);
      out << p.function << " count=" << p.count << " type=" << p.dataType << " peer=" << p.peer;
      break;
    }
    case EventKind::ProxyOp:
      out << "channel=" << int{d.proxyOp.channel} << " peer=" << d.proxyOp.peer << " send=" << d.proxyOp.isSend
          << " steps=" << d.proxyOp.nSteps;
      break;
    case EventKind::KernelChannel: out << "channel=" << int{d.kernelChannel.channel}; break;
#if PROFILER_VERSION > 4
    case EventKind::GroupApi: out << "depth=" << d.groupApi.groupDepth; break;
    case EventKind::CollectiveApi:
      out << d.collectiveApi.function << " count=" << d.collectiveApi.count << " type=" << d.collectiveApi.dataType;
      break;
    case EventKind::PointToPointApi: out << d.pointToPointApi.function << " count=" << d.pointToPointApi.count; break;
#endif
    default: break;
  }
  return out.str();
}

Code begin(void** context, int* mask, const char* name, uint64_t number, int nNodes, int nRanks, int rank) {
  const std::lock_guard lock(mutex);
  const char* const fault = std::getenv("PROFILER_PLUGIN_FAULT");
  if (fault != nullptr && std::string(fault) == "init") return 3;
  if (fault != nullptr && std::string(fault) == "off") {
    *mask = 0;
    *context = nullptr;
    return kSuccess;
  }
  auto made = std::make_unique<Context>();
  made->rank = rank;
  std::ostringstream line;
  line << "rank " << rank << " init name=" << (name != nullptr ? name : "-") << " nodes=" << nNodes
       << " ranks=" << nRanks << " number=" << number << "\n";
  made->lines = line.str();
  const char* const asked = std::getenv("PROFILER_PLUGIN_MASK");
  *mask = asked != nullptr ? std::atoi(asked) : 0xfff;
  *context = made.get();
  contexts[made.get()] = std::move(made);
  return kSuccess;
}

#if PROFILER_VERSION == 4
Code init(void** context, int* mask, const char* name, uint64_t number, int nNodes, int nRanks, int rank,
          tutti::PluginLogger) {
  return begin(context, mask, name, number, nNodes, nRanks, rank);
}
#else
Code init(void** context, uint64_t number, int* mask, const char* name, int nNodes, int nRanks, int rank,
          tutti::PluginLogger) {
  return begin(context, mask, name, number, nNodes, nRanks, rank);
}
#endif

Code startEvent(void* context, void** event, Descriptor* d) {
  const std::lock_guard lock(mutex);
  auto* const of = static_cast<Context*>(context);
  if (!contexts.contains(of)) {
    complain("an event of no communicator begins");
    return kSuccess;
  }
  if (d->rank != of->rank) complain("an event of another rank begins");
  of->events.push_back(std::make_unique<Event>());
  Event& made = *of->events.back();
  made.kind = static_cast<EventKind>(d->kind);
  made.context = of;
  made.parent = static_cast<Event*>(d->parent);
  made.what = describe(*d);
  const bool first = made.kind == EventKind::GroupApi || (!kHasApi && made.kind == EventKind::Group);
  if (made.parent == nullptr && !first) complain(made.what + ": has no parent");
  if (made.parent != nullptr) {
    if (made.parent->over) complain(made.what + ": its parent is over");
    if (!mayBeParent(made.parent->kind, made.kind)) complain(made.what + ": its parent is of another kind");
    ++made.parent->children;
  }
  *event = &made;
  return kSuccess;
}

Code stopEvent(void* event) {
  const std::lock_guard lock(mutex);
  Event& e = *static_cast<Event*>(event);
  if (e.over) complain(e.what + ": ends twice");
  if (e.children > 0) complain(e.what + ": ends before its children");
  e.over = true;
  std::ostringstream line;
  line << "rank " << e.context->rank << " " << nameOf(e.kind);
  if (!e.what.empty()) line << " " << e.what;
  line << e.states;
  if (e.parent != nullptr) {
    --e.parent->children;
    line << " in " << nameOf(e.parent->kind);
  }
  e.context->lines += line.str() + "\n";
  return kSuccess;
}

Code recordEventState(void* event, int state, StateArguments* arguments) {
  const std::lock_guard lock(mutex);
  Event& e = *static_cast<Event*>(event);
  if (e.over) complain(e.what + ": changes after its end");
  const bool right = (e.kind == EventKind::GroupApi && (state == 23 || state == 24)) ||
                     (e.kind == EventKind::KernelChannel && state == 22 && arguments->timer > 0) ||
                     (e.kind == EventKind::ProxyOp && state == 19);
  if (!right) complain(e.what + ": has no state " + std::to_string(state));
  e.states += " state=" + std::to_string(state);
  return kSuccess;
}

Code finalize(void* context) {
  const std::lock_guard lock(mutex);
  auto* const of = static_cast<Context*>(context);
  if (!contexts.contains(of)) {
    complain("a communicator ends twice");
    return kSuccess;
  }
  for (const auto& event : of->events) {
    if (!event->over) complain(event->what + ": does not end");
  }
  all += of->lines;
  if (const char* const path = std::getenv("PROFILER_PLUGIN_FILE"); path != nullptr) {
    if (FILE* const file = std::fopen((path + ("." + std::to_string(of->rank))).c_str(), "w"); file != nullptr) {
      std::fputs(all.c_str(), file);
      std::fclose(file);
    }
  }
  contexts.erase(of);
  return kSuccess;
}

}  // namespace

extern "C" {
[[gnu::visibility("default")]] const char* profilerPluginTake() {
  const std::lock_guard lock(mutex);
  taken = std::move(all);
  all.clear();
  return taken.c_str();
}

#define NAME_(version) ncclProfiler_v##version
#define NAME(version) NAME_(version)
[[gnu::visibility("default")]] extern const Table NAME(PROFILER_VERSION);
const Table NAME(PROFILER_VERSION) = {"Events for tests", init, startEvent, stopEvent, recordEventState, finalize};
}
