#include "src/comm/fast_path.hpp"

#include <array>

#include "src/base/caught.hpp"
#include "src/base/clock.hpp"
#include "src/comm/launch.hpp"

namespace tutti {
namespace {

/// After a first step that was not all.
Status runOn(Comm& comm, Task* run, Result<Progress> last) {
  Watchdog& watchdog = comm.watchdog();
  if (last.ok()) last = stepBriefly(*run, watchdog, watchdog.policy());
  if (last.ok() && *last == Progress::Done) return {};
  DrivenTask task = watchdog.driven(run);
  if (!last.ok()) failTask(&task, last.status());
  Drive alone;
  alone.add(&task);
  for (bool waits = false; !alone.empty(); alone.round()) {
    if (!waits && alone.waits()) watchdog.recorder().waits(), waits = true;
  }
  watchdog.noWait();
  return std::move(task.result);
}

bool isPlain(const Call& call) { return !call.counts && !call.custom; }
PlainCall plainCall(const Call& call) {
  return {call.collective, call.dtype, call.op, call.root, call.count, call.sendbuff, call.recvbuff};
}

/// One of nCalls in a group.
PlainTransfer plainTransfer(const Call& call, size_t nCalls) {
  const bool isSend = call.kind == CallKind::Send;
  return {isSend, call.dtype, call.root, call.count, call.sendbuff, call.recvbuff, nCalls > 1};
}

void begin(const KnownCall& known, const PlainCall& call, const Fingerprint& print) {
  const auto* input = static_cast<const std::byte*>(call.sendbuff);
  auto* output = static_cast<std::byte*>(call.recvbuff);
  if (known.divisor == 0) return known.run->begin({input, output, known.reduction, print});
  PrePostOps prePost;
  prePost.divisor = known.divisor;
  prePost.divided = {nullptr, output, known.dividedCount};
  known.run->begin({input, output, known.reduction, print}, prePost);
}

/// It has gone well.
void leave(Comm& comm, const KnownCall& known) {
  comm.watchdog().recorder().leave();
  if (known.handsOn && !known.run->lent()) comm.calls().handOver.end(comm.watchdog().policy());
}

Status runKnown(Comm& comm, CallNumbers& numbers, const KnownCall& known, const PlainCall& call) {
  const uint64_t sequence = numbers.nextCollective();
  Fingerprint print = withSequence(known.call, sequence);
  print.count |= comm.watchdog().recorder().history() & known.historyMask;
  if (comm.tellsOfUse()) [[unlikely]] {
    comm.use(call.sendbuff, known.extents.sendBytes);
    comm.use(call.recvbuff, known.extents.recvBytes);
  }
  // A short call is recorded after its first step, while its messages are on their way: what comes before them is what
  // the other ranks wait for.
  Watchdog& watchdog = comm.watchdog();
  if (known.record.exact) watchdog.enter(sequence, print, known.record);
  begin(known, call, print);
  Result<Progress> first = known.run->step();
  if (!known.record.exact) watchdog.enter(sequence, print, known.record);
  if (first.ok() && *first == Progress::Done) {
    leave(comm, known);
    return {};
  }
  Status result = runOn(comm, known.run, first);
  if (result.ok()) [[likely]] {
    leave(comm, known);
  } else {
    comm.watchdog().leave();
  }
  return result;
}

PointToPointOp opOf(Comm& comm, CallNumbers& numbers, const KnownTransfer& known, const PlainTransfer& transfer) {
  PointToPointOp op = known.op;
  op.source = static_cast<const std::byte*>(transfer.source);
  op.dst = static_cast<std::byte*>(transfer.dst);
  op.call = withSequence(op.call, numbers.nextMessage(op.peer, op.isSend));
  if (comm.tellsOfUse()) [[unlikely]]
    comm.use(op.isSend ? transfer.source : transfer.dst, op.bytes);
  return op;
}

Status runKnown(Comm& comm, CallNumbers& numbers, const KnownTransfer& known, const PlainTransfer& transfer) {
  const PointToPointOp op = opOf(comm, numbers, known, transfer);
  const bool done = PointToPointRun::doneAtOnce(op);
  const FlightRecorder::Message message = comm.watchdog().beginMessage(op.call, known.record);
  Status result;
  if (!done) {
    PointToPointRun& run = comm.calls().transfer;
    run.clear();
    run.add(op);
    result = runTask(comm, &run);
  }
  comm.watchdog().recorder().endMessage(message, !result.ok());
  if (!result.ok()) [[unlikely]]
    comm.watchdog().leave();
  return result;
}

/// Side by side.  known: of each call; null: it has no bytes.
Status runKnown(Comm& comm, CallNumbers& numbers, std::span<const KnownTransfer* const> known,
                std::span<const CallGroup::Entry> calls) {
  PointToPointRun& run = comm.calls().transfer;
  run.clear();
  run.reserve(calls.size());  // before a message is counted
  for (size_t i = 0; i < calls.size(); ++i) {
    const PlainTransfer transfer = plainTransfer(calls[i].call, calls.size());
    if (known[i] == nullptr) {
      (void)numbers.nextMessage(transfer.peer, transfer.isSend);
      continue;
    }
    PointToPointOp op = opOf(comm, numbers, *known[i], transfer);
    const FlightRecorder::Message message = comm.watchdog().beginMessage(op.call, known[i]->record);
    op.record = message.index;
    op.recordNumber = message.number;
    run.add(op);
  }
  Status result = runTask(comm, &run);
  for (size_t i = 0; i < run.size(); ++i)
    comm.watchdog().recorder().endMessage({run.op(i).record, run.op(i).recordNumber}, !run.isDone(i));
  if (!result.ok()) [[unlikely]]
    comm.watchdog().leave();
  return result;
}

Status runCounted(Comm& comm, CallNumbers& numbers, const KnownCall& known, const PlainCall& call) {
  Trials* const trials = known.trials;
  const Trials::Turn turn = trials != nullptr ? trials->take() : Trials::Turn();
  const int64_t begin = turn.timed ? nowNs() : 0;
  Status result = runKnown(comm, numbers, known, call);
  if (turn.timed) [[unlikely]]
    trials->record(turn, {nowNs() - begin, begin, isMapped(call.sendbuff, call.recvbuff)});
  return result;
}
Status runCounted(Comm& comm, CallNumbers& numbers, const KnownTransfer& known, const PlainTransfer& transfer) {
  return runKnown(comm, numbers, known, transfer);
}

bool goesNext(const KnownCall& known) { return known.isNext(); }
bool goesNext(const KnownTransfer&) { return true; }

/// Gives what body(comm, numbers) says, which has the turn.  False: there is no such communicator any more, or another
/// thread runs its calls.
template <class Body>
bool inTurn(tuttiComm* handle, const Body& body) {
  if (handle->state.load(std::memory_order_acquire) != tuttiComm::State::Ready) return false;
  CallOrder& turn = *handle->callOrder;
  const uint64_t ticket = turn.take();
  turn.await(ticket);
  const TurnOf giveBack(turn, ticket);
  // From here on nobody frees the communicator, if it was still there after take().
  const bool there = handle->state.load(std::memory_order_seq_cst) == tuttiComm::State::Ready;
  return there && handle->own == nullptr && body(*handle->comm, turn.numbers());
}

template <class Plain>
bool runLike(tuttiComm* handle, const Plain& call, Status* result) {
  return inTurn(handle, [&](Comm& comm, CallNumbers& numbers) {
    comm.calls().handOver.begin();
    const auto* like = comm.planner().known().find(call);
    const bool known = like != nullptr && goesNext(*like) && !comm.watchdog().aborting();
    if (known) *result = runCounted(comm, numbers, *like, call);
    return known;
  });
}

/// More are looked up by the slow path; a group of so many has messages that take longer.
constexpr size_t kMostTogether = 64;

bool runTransfers(std::span<const CallGroup::Entry> calls, Status* result) {
  for (const CallGroup::Entry& entry : calls) {
    const bool isTransfer = entry.stream == nullptr && entry.call.kind != CallKind::Collective;
    if (!isTransfer || entry.handle != calls[0].handle) return false;
  }
  return inTurn(calls[0].handle, [&](Comm& comm, CallNumbers& numbers) {
    if (comm.watchdog().aborting()) return false;
    comm.calls().handOver.begin();
    std::array<const KnownTransfer*, kMostTogether> known;
    for (size_t i = 0; i < calls.size(); ++i) {
      const bool moves = calls[i].call.count > 0;
      known[i] = moves ? comm.planner().known().find(plainTransfer(calls[i].call, calls.size())) : nullptr;
      if (moves && known[i] == nullptr) return false;
    }
    *result = runKnown(comm, numbers, std::span(known).first(calls.size()), calls);
    return true;
  });
}

}  // namespace

Status runTask(Comm& comm, Task* run) {
  // Often the first step is all, and whatever drives and waits costs as much again.
  const Result<Progress> first = caught([run] { return run->step(); });
  return first.ok() && *first == Progress::Done ? Status() : runOn(comm, run, first);
}

bool runAgain(tuttiComm* handle, const PlainCall& call, Status* result) { return runLike(handle, call, result); }
bool runAgain(tuttiComm* handle, const PlainTransfer& transfer, Status* result) {
  return runLike(handle, transfer, result);
}

bool runAgain(std::span<const CallGroup::Entry> calls, Status* result) {
  if (calls.empty() || calls.size() > kMostTogether || calls[0].stream != nullptr) return false;
  tuttiComm* const handle = calls[0].handle;
  const bool done = calls.size() == 1 && calls[0].call.kind == CallKind::Collective
                        ? isPlain(calls[0].call) && runLike(handle, plainCall(calls[0].call), result)
                        : runTransfers(calls, result);
  if (done && !result->ok()) [[unlikely]]
    remember(handle, *result);
  return done;
}

}  // namespace tutti
