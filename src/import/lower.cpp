#include "src/import/lower.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "src/import/emitter.hpp"
#include "src/import/order_check.hpp"
#include "src/import/pieces.hpp"

namespace tutti::foreign {
namespace {

constexpr int kMostLanes = 16;     // that are not parts of blocks: each costs every pair of ranks a FIFO
constexpr int kMostChannels = 63;  // lanes of a communicator's collectives
constexpr int kMostWaitsShown = 4;

/// Thread blocks take turns, a chunk each; what is sent in one round is there in the next.  So the order in which ops
/// are written is close to the one that ranks working side by side would have.
class Play {
 public:
  Play(const Program& program, const MemoryMap& memory, const LaneGroups& lanes)
      : program_(program),
        memory_(memory),
        lanes_(lanes),
        emitter_(memory, lanes, program.nRanks),
        order_(program, memory.nCells()),
        actors_(program.threads.size()),
        packets_(memory.nCells(), -1) {
    for (const int value : program.semaphores) semaphores_.push_back({value, 0, {}});
    barriers_.resize(program.barriers.size());
    for (size_t t = 0; t < actors_.size(); ++t) {
      actors_[t].done.resize(program.threads[t].steps.size());
      for (const Step& step : program.threads[t].steps) {
        for (const Dependency& d : step.after) awaited_.insert(awaited_.end(), {d.thread, d.step});
      }
    }
    markAwaited();
  }

  const std::vector<std::string>& notes() const { return notes_; }

  Result<std::vector<Schedule>> run() {
    while (true) {
      ++round_;
      bool moved = false;
      for (size_t t = 0; t < actors_.size(); ++t) {
        moved = advance(static_cast<int>(t)) || moved;
        if (!error_.ok()) return error_;
      }
      if (moved) continue;
      if (allDone()) break;
      if (!unblock()) return describeDeadlock();
    }
    TUTTI_TRY(checkLeftovers());
    checkEnds();
    return emitter_.finish();
  }

 private:
  struct Done {
    bool awaited = false;
    bool done = false;
    Clock clock;
  };
  struct Actor {
    int step = 0;
    int piece = -1;        // of a Data step; -1: not begun
    bool sending = false;  // the value of the piece waits to be sent
    Value value;
    int64_t generation = -1;  // of the barrier that it has come to
    std::vector<Done> done;   // by step
  };
  struct Semaphore {
    int value;
    int taken;
    std::vector<Clock> posts;  // what each post tells, and all before it
  };
  struct BarrierState {
    int64_t generation = 0;
    int come = 0;
    Clock clock, told;  // of those who come now; of the last generation
  };
  struct Sent {
    int message;
    int64_t round;
    Clock clock;
  };
  using Connection = std::array<int, 3>;  // from, to, channel

  const Thread& thread(int t) const { return program_.threads[at(t)]; }
  const Step& current(int t) const { return thread(t).steps[at(actors_[at(t)].step)]; }
  bool ended(int t) const { return at(actors_[at(t)].step) == thread(t).steps.size(); }
  bool allDone() const {
    for (size_t t = 0; t < actors_.size(); ++t) {
      if (!ended(static_cast<int>(t))) return false;
    }
    return true;
  }
  void markAwaited() {
    for (size_t i = 0; i + 1 < awaited_.size(); i += 2)
      actors_[at(awaited_[i])].done[at(awaited_[i + 1])].awaited = true;
  }

  template <class... Args>
  bool fail(int t, const Args&... args) {
    error_ = invalidArgument(ErrorCode::PlanWrong, thread(t).where, " ", current(t).where, ": ", args...);
    return false;
  }

  // ---- One turn of a thread block: whether it has got on.
  bool advance(int t) {
    if (ended(t)) return false;
    const Step& step = current(t);
    for (const Dependency& d : step.after) {
      const Done& other = actors_[at(d.thread)].done[at(d.step)];
      if (!other.done) return false;
    }
    if (actors_[at(t)].piece < 0) {
      for (const Dependency& d : step.after) order_.learn(t, actors_[at(d.thread)].done[at(d.step)].clock);
    }
    switch (step.kind) {
      case StepKind::Nothing: return finishStep(t);
      case StepKind::Post: return post(t, step);
      case StepKind::Take: return take(t, step);
      case StepKind::Barrier: return barrier(t, step);
      case StepKind::Data: break;
    }
    return advanceData(t, step);
  }

  bool finishStep(int t) {
    Actor& actor = actors_[at(t)];
    Done& done = actor.done[at(actor.step)];
    done.done = true;
    if (done.awaited) done.clock = order_.publish(t);
    actor.piece = -1;
    ++actor.step;
    return true;
  }

  bool post(int t, const Step& step) {
    Semaphore& semaphore = semaphores_[at(step.sync)];
    Clock told = order_.publish(t);
    if (!semaphore.posts.empty()) join(&told, semaphore.posts.back());
    semaphore.posts.push_back(std::move(told));
    ++semaphore.value;
    return finishStep(t);
  }

  bool take(int t, const Step& step) {
    Semaphore& semaphore = semaphores_[at(step.sync)];
    if (semaphore.value == 0) return false;
    --semaphore.value;
    const int post = semaphore.taken++ - program_.semaphores[at(step.sync)];
    if (post >= 0) order_.learn(t, semaphore.posts[at(post)]);
    return finishStep(t);
  }

  bool barrier(int t, const Step& step) {
    Actor& actor = actors_[at(t)];
    BarrierState& state = barriers_[at(step.sync)];
    if (actor.generation < 0) {
      actor.generation = state.generation;
      join(&state.clock, order_.publish(t));
      if (++state.come == program_.barriers[at(step.sync)]) {
        state.come = 0;
        ++state.generation;
        state.told = std::exchange(state.clock, {});
      }
    }
    if (state.generation == actor.generation) return false;
    actor.generation = -1;
    order_.learn(t, state.told);
    return finishStep(t);
  }

  bool advanceData(int t, const Step& step) {
    Actor& actor = actors_[at(t)];
    if (actor.piece < 0) {
      if (step.count == 0) return finishStep(t);
      actor.piece = firstPiece(step, memory_.refine());
    }
    if (!actor.sending) {
      if (!ready(t, step)) return false;
      if (!perform(t, step)) return false;
      if (step.to >= 0) actor.sending = true;
    }
    if (actor.sending) {
      if (!emitter_.hasRoom(thread(t).rank, step.to, lanes_.laneOf[at(t)], actor.value.part)) {
        return std::exchange(performed_, false);
      }
      const int message = emitter_.send(thread(t).rank, step.to, lanes_.laneOf[at(t)], actor.value);
      connections_[{thread(t).rank, step.to, thread(t).channel}].push_back({message, round_, order_.publish(t)});
      actor.sending = false;
    }
    performed_ = false;
    emitter_.drop(thread(t).rank, lanes_.laneOf[at(t)], actor.value);
    if (++actor.piece == lastPiece(step, memory_.refine())) return finishStep(t);
    return true;
  }

  bool ready(int t, const Step& step) {
    if (step.from >= 0) {
      const auto queue = connections_.find({step.from, thread(t).rank, thread(t).channel});
      if (queue == connections_.end() || queue->second.empty() || queue->second.front().round == round_) return false;
    }
    for (const Place& source : step.sources) {
      if (source.packets && packets_[memory_.cell(source, actors_[at(t)].piece)] < 0) return false;
    }
    return true;
  }

  // ---- One chunk of a Data step but for sending.
  bool perform(int t, const Step& step) {
    Actor& actor = actors_[at(t)];
    const int rank = thread(t).rank, lane = lanes_.laneOf[at(t)], piece = actor.piece;
    std::vector<Emitter::Operand> operands;
    for (const Place& source : step.sources) {
      if (!loadOperand(t, source, &operands)) return false;
    }
    if (step.from >= 0) {
      std::deque<Sent>& queue = connections_[{step.from, rank, thread(t).channel}];
      order_.learn(t, queue.front().clock);
      operands.push_back({.message = queue.front().message});
      queue.pop_front();
    }
    if (!checkParts(t, operands)) return false;
    // A multicast store also stores to where it comes from, which changes nothing.
    const auto isSource = [&](const Place& target) {
      return operands.size() == 1 && step.sources.size() == 1 &&
             memory_.cell(target, piece) == memory_.cell(step.sources.front(), piece);
    };
    std::optional<size_t> into;
    for (const Place& target : step.targets) {
      if (isSource(target)) continue;
      if (!checkTarget(t, target, partOf(operands.front()))) return false;
      if (target.rank == rank && !into) into = memory_.cell(target, piece);
    }
    actor.value = emitter_.combine(rank, lane, operands, into);
    for (const Place& target : step.targets) {
      if (isSource(target)) continue;
      const size_t cell = memory_.cell(target, piece);
      if (target.rank == rank) {
        emitter_.store(rank, lane, actor.value, cell);
      } else {
        emitter_.put(rank, lane, actor.value, target.rank, cell);
      }
      if (target.packets) publishPackets(t, cell);
    }
    performed_ = true;
    return true;
  }

  bool loadOperand(int t, const Place& source, std::vector<Emitter::Operand>* operands) {
    const Actor& actor = actors_[at(t)];
    const size_t cell = memory_.cell(source, actor.piece);
    if (source.packets) order_.learn(t, packetClocks_[at(packets_[cell])]);
    const auto text = [&] { return cat("reads ", memory_.describe(source, actor.piece), " of gpu ", source.rank); };
    if (!mayTouch(t, source)) note(t, text());
    if (const std::string other = order_.read(t, actor.step, cell); !other.empty()) {
      return fail(t, text(), ", which ", other);
    }
    if (!emitter_.written(cell)) return fail(t, text(), ", which nothing has written");
    operands->push_back({.value = emitter_.load(cell), .rank = source.rank == thread(t).rank ? -1 : source.rank});
    return true;
  }

  /// A caller's buffers are not to be touched from outside before its rank has come; scratch belongs to the plan.
  bool mayTouch(int t, const Place& place) const {
    return place.rank == thread(t).rank || place.buffer == Buffer::Scratch || order_.hasBegun(t, place.rank);
  }

  void note(int t, const std::string& text) {
    if (notes_.empty())
      notes_.push_back(cat(thread(t).where, " ", current(t).where, ": ", text, " before that is known to have begun"));
  }

  int partOf(const Emitter::Operand& operand) const {
    return operand.message >= 0 ? emitter_.partOfMessage(operand.message) : operand.value.part;
  }

  bool checkParts(int t, const std::vector<Emitter::Operand>& operands) {
    for (const Emitter::Operand& operand : operands) {
      if (partOf(operand) == partOf(operands.front())) continue;
      return fail(t, "combines chunk ", partOf(operands.front()), " of a block with chunk ", partOf(operand));
    }
    return true;
  }

  bool checkTarget(int t, const Place& target, int part) {
    const Actor& actor = actors_[at(t)];
    const size_t cell = memory_.cell(target, actor.piece);
    const auto text = [&] { return cat("writes ", memory_.describe(target, actor.piece), " of gpu ", target.rank); };
    if (!memory_.isScratch(cell) && memory_.partOf(cell) != part) {
      return fail(t, text(), ", chunk ", memory_.partOf(cell), " of a block, with what was chunk ", part, " of one");
    }
    if (!mayTouch(t, target)) note(t, text());
    if (const std::string other = order_.write(t, actor.step, cell); !other.empty()) {
      return fail(t, text(), ", which ", other);
    }
    return true;
  }

  void publishPackets(int t, size_t cell) {
    packets_[cell] = static_cast<int>(packetClocks_.size());
    packetClocks_.push_back(order_.publish(t));
  }

  // ---- When nobody can move.
  /// Receives a message early that stands in somebody's way; false if there is none.
  bool unblock() {
    for (size_t t = 0; t < actors_.size(); ++t) {
      const Actor& actor = actors_[t];
      if (!actor.sending) continue;
      const int me = static_cast<int>(t);
      emitter_.makeRoom(thread(me).rank, current(me).to, lanes_.laneOf[t], actor.value.part);
      return true;
    }
    return false;
  }

  std::string describeWait(int t) const {
    const Step& step = current(t);
    for (const Dependency& d : step.after) {
      if (actors_[at(d.thread)].done[at(d.step)].done) continue;
      return cat("for ", thread(d.thread).where, " ", thread(d.thread).steps[at(d.step)].where);
    }
    if (step.kind == StepKind::Take) return "for a signal that does not come";
    if (step.kind == StepKind::Barrier) return cat("for ", program_.barriers[at(step.sync)], " thread blocks");
    if (step.from >= 0) return cat("for a message of gpu ", step.from);
    return "for packets that nobody has written";
  }

  Status describeDeadlock() const {
    std::string text = "deadlock: ";
    int shown = 0;
    for (size_t i = 0; i < actors_.size(); ++i) {
      const int t = static_cast<int>(i);
      if (ended(t)) continue;
      if (++shown > kMostWaitsShown) return invalidArgument(ErrorCode::PlanWrong, text, "; and more");
      text += cat(shown > 1 ? "; " : "", thread(t).where, " ", current(t).where, " waits ", describeWait(t));
    }
    return invalidArgument(ErrorCode::PlanWrong, text);
  }

  Status checkLeftovers() const {
    for (const auto& [connection, queue] : connections_) {
      if (queue.empty()) continue;
      return invalidArgument(ErrorCode::PlanWrong, queue.size(), " message(s) from gpu ", connection[0], " to gpu ",
                             connection[1], " on channel ", connection[2], " are never received");
    }
    return {};
  }

  void checkEnds() {
    for (int r = 0; r < program_.nRanks; ++r) {
      const Schedule& shape = memory_.shape(r);
      for (const Buffer buffer : {Buffer::Input, Buffer::Output}) {
        const int chunks = buffer == Buffer::Input ? shape.inputChunks() : shape.outputChunks();
        const Place place{.rank = r, .buffer = buffer};
        for (int piece = 0; piece < chunks * memory_.nParts(); ++piece) {
          const std::string text = order_.atEnd(r, memory_.cell(place, piece));
          if (!text.empty()) return notes_.push_back(text);
        }
      }
    }
  }

  const Program& program_;
  const MemoryMap& memory_;
  const LaneGroups& lanes_;
  Emitter emitter_;
  OrderCheck order_;
  std::vector<Actor> actors_;
  std::vector<int> awaited_;  // pairs of thread and step, while they are collected
  std::vector<Semaphore> semaphores_;
  std::vector<BarrierState> barriers_;
  std::map<Connection, std::deque<Sent>> connections_;
  std::vector<int> packets_;  // by cell: index into packetClocks_, -1: none written
  std::vector<Clock> packetClocks_;
  int64_t round_ = 0;
  bool performed_ = false;  // in this turn
  Status error_;
  std::vector<std::string> notes_;
};

Status checkPlaces(const Program& program, const MemoryMap& memory) {
  int64_t moves = 0;
  for (const Thread& thread : program.threads) {
    for (const Step& step : thread.steps) {
      if (step.kind != StepKind::Data) continue;
      for (const std::vector<Place>* places : {&step.sources, &step.targets}) {
        for (const Place& place : *places) {
          const std::string text = memory.outOfRange(place, step.count);
          if (!text.empty()) return invalidArgument(ErrorCode::PlanWrong, thread.where, " ", step.where, ": ", text);
        }
      }
      moves +=
          int64_t{step.count} * memory.refine() * static_cast<int64_t>(1 + step.sources.size() + step.targets.size());
      if (moves > kMostMoves)
        return invalidArgument(ErrorCode::PlanTooLarge, "moves more than ", kMostMoves, " chunks");
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Schedule>> lower(const Program& program, bool inPlace, std::vector<std::string>* notes) {
  TUTTI_ASSIGN(const MemoryMap memory, MemoryMap::make(program, inPlace));
  TUTTI_TRY(checkPlaces(program, memory));
  if (memory.nParts() > kMostChannels) {
    return invalidArgument(ErrorCode::PlanTooLarge, "divides every rank's block into ", memory.nParts(),
                           " chunks; at most ", kMostChannels, " are possible, each being a channel");
  }
  const LaneGroups lanes = groupLanes(program, memory, std::min(kMostLanes, kMostChannels / memory.nParts()));
  Play play(program, memory, lanes);
  Result<std::vector<Schedule>> schedules = play.run();
  for (const std::string& note : play.notes()) {
    if (std::find(notes->begin(), notes->end(), note) == notes->end()) notes->push_back(note);
  }
  return schedules;
}

}  // namespace tutti::foreign
