// Groups: calls that are collected and started together, and the way of every call from the API to its stream.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "src/base/forked.hpp"
#include "src/comm/handle.hpp"

struct tuttiStream {
  const uint32_t generation = tutti::forkGeneration();
  std::unique_ptr<tutti::HostStream> host;
};

namespace tutti {

/// What the calling thread has collected since its outermost tuttiGroupStart.
struct CallGroup {
  struct Join {
    tuttiComm* handle;
    JoinFunction join;
    NotComing notComing;
    tuttiComm_t* out;
  };
  /// A part in others' joins that gives this rank no communicator.
  struct Presence {
    std::function<Status()> attend;
    NotComing notComing;
  };
  struct Entry {
    tuttiComm* handle;
    Call call;
    tuttiStream_t stream;
  };
  Status error;  // the first mistake in a collected call: nothing is started then
  std::vector<Join> joins;
  std::vector<Presence> presences;
  std::vector<Entry> calls;
  bool opened = true;  // by the program

  /// Whether it has nothing but calls, all of them right.
  bool isCallsAlone() const { return error.ok() && joins.empty() && presences.empty(); }
};

/// The calling thread's.
CallGroup& currentGroup();

/// Groups that the calling thread has opened and not closed.  Apart from CallGroup, and of a type that needs no
/// constructor, because every call looks at it.  (Not of the model initial-exec, which would save a nanosecond: a
/// library with STATIC_TLS cannot be loaded into a process that has used up its reserve.)
extern thread_local constinit int groupDepth;

/// Start everything the outermost group has collected.
Status endGroup(CallGroup* group);

/// A checked call: collected if a group is open, else run or enqueued.
Status submit(tuttiComm* handle, const Call& call, tuttiStream_t stream);

}  // namespace tutti
