// The resident executor: a block walks one lane of a rank's plan, op by op and slice by slice, waiting for other ranks'
// blocks where it has to.  Host and device compile the same text; what differs is in walk_team.hpp.
//
// A message crosses a link in one of three ways, which both ends see alike:
//   inline   at most kInlineBytes: packets of payload and flag; no fence, one trip
//   slots    copied into the receiver's memory, then a head counter with release
//   lent     only where the message lies is told; the receiver reads it there, and the op that next writes that memory
//            waits for the receiver's credit
// An op takes its messages before it asks for room to send only if it can store what it has taken, as on the host
// (src/exec/lane_run.hpp); schedules are verified for just that.
//
// Leaving: every wait looks at the rank's abort word; one thread that gives up has its whole block leave at the next
// barrier, and blocks that wait for it have abort words, too, or are those of ranks that are told of the failure.
#pragma once

#include "src/exec/kernels/walk_arithmetic.hpp"

namespace tutti::kernels {

/// What the threads of a block share; in shared memory on a GPU.
struct LaneState {
  const unsigned char* sources[kMostLinks];
  unsigned char* dsts[kMostLinks + 1];
  InlineMessage in[kMostLinks];
  InlineMessage out[kMostLinks];
  uint64_t sent[kMostLinks];
  uint64_t received[kMostLinks];
  uint32_t lent;  // whether anything was
  uint32_t reserved;
};

template <class Arithmetic, class Team, class Memory, class Patience>
class LaneWalk {
 public:
  TUTTI_HD LaneWalk(Team team, const WalkMember& member, uint32_t lane, uint32_t what, LaneState* state)
      : team_(team), member_(member), program_(*member.program), lane_(program_.lanes[lane]), what_(what), s_(state) {}

  TUTTI_HD void run() {
    begin();
    bool going = true;
    for (slice_ = 0; going && slice_ < lane_.loops; ++slice_) {
      for (uint32_t i = 0; going && i < lane_.nOps; ++i) going = step(lane_.ops[i]);
    }
    if (going) awaitReceivers();
    end();
  }

 private:
  // ---- Links.

  TUTTI_HD const WalkLink& link(uint32_t number) const { return lane_.links[number]; }
  static TUTTI_HD uint64_t* word(unsigned char* end, uint64_t at) { return reinterpret_cast<uint64_t*>(end + at); }
  TUTTI_HD uint64_t slotOf(uint64_t message) const { return message % program_.layout.slots; }
  static TUTTI_HD uint32_t flagOf(uint64_t message) { return static_cast<uint32_t>(message % 0xfffffffeu) + 1; }
  TUTTI_HD unsigned char* slotAt(unsigned char* end, uint64_t message) const {
    return end + program_.layout.slotsAt() + slotOf(message) * program_.layout.slotBytes;
  }
  TUTTI_HD InlineMessage inlineAt(unsigned char* end, uint64_t message) const {
    unsigned char* lines = end + program_.layout.linesAt() + slotOf(message) * 2 * kInlineBytes;
    return {reinterpret_cast<Line*>(lines), flagOf(message), 0};
  }
  TUTTI_HD uint64_t* offerAt(unsigned char* end, uint64_t message) const {
    return word(end, EndLayout::kOffers) + slotOf(message);
  }

  /// Waits until *word >= target; false, and this thread gives up, if the rank was told to leave.
  TUTTI_HD bool await(const uint64_t* word, uint64_t target) const {
    if (Memory::acquire(word) >= target) return true;
    Patience patience(member_.abort);
    while (Memory::acquire(word) < target) {
      if (!patience.over()) continue;
      leave();
      return false;
    }
    return true;
  }
  /// This thread gives up.  The block leaves at the next barrier, which asks all threads, so that they agree.
  TUTTI_HD void leave() const { stays_ = false; }

  // ---- A launch.

  TUTTI_HD void begin() {
    for (uint32_t l = team_.index(); l < lane_.nLinks; l += team_.size()) {
      const uint64_t* counters = word(link(l).mine, EndLayout::kCounters);
      s_->sent[l] = counters[0];
      s_->received[l] = counters[1];
    }
    if (team_.index() == 0) s_->lent = 0;
    team_.sync();
  }

  TUTTI_HD void end() {
    for (uint32_t l = team_.index(); l < lane_.nLinks; l += team_.size()) {
      uint64_t* counters = word(link(l).mine, EndLayout::kCounters);
      counters[0] = s_->sent[l];
      counters[1] = s_->received[l];
    }
    team_.sync();
  }

  /// Waits until peers have returned all memory that was lent.
  TUTTI_HD void awaitReceivers() const {
    if (s_->lent == 0) return;
    for (uint32_t i = 0; i < lane_.nOps; ++i) {
      const WalkOp& op = lane_.ops[i];
      for (uint32_t t = op.to + team_.index(); t < op.to + op.nTo; t += team_.size()) {
        const WalkReceiver& to = lane_.receivers[t];
        if (to.place == kLent && !await(word(link(to.link).mine, EndLayout::kCredit), lane_.tickets[t])) return;
      }
    }
  }

  // ---- An op.

  TUTTI_HD unsigned char* address(const WalkOperand& operand) const {
    if (operand.buffer == 2) return program_.scratch + operand.offset;
    // Ops never write input.
    unsigned char* base = operand.buffer == 0 ? const_cast<unsigned char*>(member_.input) : member_.output;
    return base + operand.offset + sliceBegin();
  }

  TUTTI_HD uint64_t sliceBegin() const { return slice_ == 0 ? 0 : slice_ * program_.sliceBytes - lane_.headStart; }

  TUTTI_HD bool step(const WalkOp& op) {
    const uint64_t begin = sliceBegin(), end = (slice_ + 1) * program_.sliceBytes - lane_.headStart;
    const uint64_t bytes = op.bytes <= begin ? 0 : (op.bytes < end ? op.bytes : end) - begin;
    if (bytes == 0 && op.token == 0) return true;
    if (op.token != 0 && slice_ > 0) return true;
    const bool isInline = bytes <= kInlineBytes && op.token == 0;
    awaitLoans(op);
    gather(op, isInline);
    const bool room = prepare(op, isInline, false);
    const bool allRoom = team_.all(room && stays_);
    if (!allRoom && !team_.all(stays_)) return false;
    // A value that came without room to send it is stored first, where it can be, and sent from there.
    const bool apart = !allRoom && op.hasDst != 0 && op.nFrom > 0;
    bool waits = !allRoom && !apart;
    bool takes = true;
    while (true) {  // once or twice, so that the work is compiled once
      if (waits) {
        prepare(op, isInline, true);
        if (!takes && team_.index() == 0) s_->sources[0] = address(op.dst);
        if (!team_.all(stays_)) return false;
      }
      if (!carry(op, bytes, isInline, takes, !apart || !takes)) return false;
      if (!apart || !takes) return true;
      takes = false;
      waits = true;
    }
  }

  /// Nobody else reads what the op writes.
  TUTTI_HD void awaitLoans(const WalkOp& op) const {
    for (uint32_t i = team_.index(); i < op.nLoans; i += team_.size()) {
      const WalkLoan& loan = lane_.loans[op.loans + i];
      await(word(link(loan.link).mine, EndLayout::kCredit), lane_.tickets[loan.ticket]);
    }
  }

  /// The operands: own ones, and messages, which have arrived then unless they are inline.
  TUTTI_HD void gather(const WalkOp& op, bool isInline) const {
    for (uint32_t i = team_.index(); i < op.nSources; i += team_.size()) {
      s_->sources[i] = address(lane_.operands[op.sources + i]);
    }
    for (uint32_t i = team_.index(); i < op.nFrom; i += team_.size()) {
      const uint32_t l = lane_.senders[op.from + i];
      const uint64_t message = s_->received[l];
      if (isInline) {
        s_->in[i] = inlineAt(link(l).mine, message);
        continue;
      }
      if (!await(word(link(l).mine, EndLayout::kHead), message + 1)) return;
      const uint64_t lent = *offerAt(link(l).mine, message);
      s_->sources[op.nSources + i] =
          lent != 0 ? reinterpret_cast<const unsigned char*>(lent) : slotAt(link(l).mine, message);
    }
    if (op.hasDst != 0 && team_.index() == 0) s_->dsts[0] = address(op.dst);
  }

  /// Where the value goes.  Whether there is room for it; waits for that if asked to.
  TUTTI_HD bool prepare(const WalkOp& op, bool isInline, bool waits) const {
    bool room = true;
    for (uint32_t i = team_.index(); i < op.nTo; i += team_.size()) {
      const WalkReceiver& to = lane_.receivers[op.to + i];
      const uint64_t message = s_->sent[to.link];
      const uint64_t slots = program_.layout.slots;
      const uint64_t needed = message < slots ? 0 : message - slots + 1;
      const uint64_t* credit = word(link(to.link).mine, EndLayout::kCredit);
      if (waits) {
        if (!await(credit, needed)) return false;
      } else {
        room = room && Memory::acquire(credit) >= needed;
      }
      if (isInline) {
        s_->out[i] = inlineAt(link(to.link).peers, message);
      } else if (to.place != kLent) {
        s_->dsts[1 + to.place] = slotAt(link(to.link).peers, message);
      }
    }
    return room;
  }

  /// The op's work: takes what has arrived, or passes on what lies in dst, or both.  After a barrier; ends with one.
  TUTTI_HD bool carry(const WalkOp& op, uint64_t bytes, bool isInline, bool takes, bool sends) {
    if (isInline) {
      carryInline(op, bytes, takes, sends);
    } else if (op.token == 0) {
      carrySlots(op, bytes, takes, sends);
    }
    if (!team_.all(stays_)) return false;
    if (takes) release(op);
    if (sends) publish(op, bytes, isInline);
    team_.sync();
    return true;
  }

  TUTTI_HD void carrySlots(const WalkOp& op, uint64_t bytes, bool takes, bool sends) const {
    const uint32_t stored = takes && op.hasDst != 0 ? 1 : 0;
    const Move move{s_->sources, s_->dsts + 1 - stored, takes ? op.nSources + op.nFrom : 1,
                    stored + (sends ? op.nCopies : 0)};
    if (move.nDsts == 0) return;
    if (move.nSources == 1) {
      copyBytes(team_, move, bytes);
    } else {
      Arithmetic::combine(team_, move, bytes, what_);
    }
  }

  TUTTI_HD void carryInline(const WalkOp& op, uint64_t bytes, bool takes, bool sends) const {
    const uint64_t units = (bytes + 7) / 8;
    for (uint64_t u = team_.index(); u < units; u += team_.size()) {
      const uint32_t valid = bytes - u * 8 < 8 ? static_cast<uint32_t>(bytes - u * 8) : 8;
      uint64_t unit = 0;
      if (!combineUnit(op, takes, u, valid, &unit)) return leave();
      if (takes && op.hasDst != 0) storeUnit(s_->dsts[0] + u * 8, unit, valid);
      for (uint32_t i = 0; sends && i < op.nTo; ++i) putUnit<Memory>(s_->out[i], u, unit, valid);
    }
  }

  TUTTI_HD bool operandUnit(const WalkOp& op, uint32_t i, uint64_t u, uint32_t valid, uint64_t* unit) const {
    if (i >= op.nSources) return takeUnit<Memory, Patience>(s_->in[i - op.nSources], u, valid, member_.abort, unit);
    *unit = loadUnit(s_->sources[i] + u * 8, valid);
    return true;
  }

  TUTTI_HD bool combineUnit(const WalkOp& op, bool takes, uint64_t u, uint32_t valid, uint64_t* unit) const {
    if (!takes) {
      *unit = loadUnit(s_->sources[0] + u * 8, valid);
      return true;
    }
    if (!operandUnit(op, 0, u, valid, unit)) return false;
    const uint32_t n = op.nSources + op.nFrom;
    if (n == 1) return true;  // not one bit may change
    return Arithmetic::combineUnits(
        n, [&](uint32_t i, uint64_t* next) { return operandUnit(op, i, u, valid, next); }, what_, unit);
  }

  /// The op is done with its messages.  Partner: the acquire of `credit` in await() and prepare(), without which the
  /// sender could write a slot that is still read.
  TUTTI_HD void release(const WalkOp& op) const {
    for (uint32_t i = team_.index(); i < op.nFrom; i += team_.size()) {
      const uint32_t l = lane_.senders[op.from + i];
      Memory::release(word(link(l).peers, EndLayout::kCredit), ++s_->received[l]);
    }
  }

  /// Flags repeat after 2^32 - 2 messages, and lines that only long messages reach could still bear one from then,
  /// which would pass for the message that is to come.  So with each message of a link a line of its slot that it does
  /// not use is written, by turns, and no line bears a flag older than slots * kInlineBytes / 8 messages.  The slot is
  /// the sender's until it has sent the next message there.
  TUTTI_HD void refreshLine(unsigned char* end, uint64_t message, uint64_t inlineBytes) const {
    const InlineMessage m = inlineAt(end, message);
    const uint64_t line = message / program_.layout.slots % (kInlineBytes / 8);
    const uint64_t blank = static_cast<uint64_t>(m.flag) << 32;
    if (line * 8 >= inlineBytes) Memory::storePacket(&m.lines[line].low, blank);
    if (line * 8 + 4 >= inlineBytes) Memory::storePacket(&m.lines[line].high, blank);
  }

  /// The value is where its receivers look.  Partner: the acquire of `head` in gather(), without which they could read
  /// a slot that is not yet written.
  TUTTI_HD void publish(const WalkOp& op, uint64_t bytes, bool isInline) const {
    for (uint32_t i = team_.index(); i < op.nTo; i += team_.size()) {
      const WalkReceiver& to = lane_.receivers[op.to + i];
      const uint64_t message = s_->sent[to.link]++;
      refreshLine(link(to.link).peers, message, isInline ? bytes : 0);
      if (isInline) continue;
      uint64_t lent = 0;
      if (to.place == kLent) {
        lent = reinterpret_cast<uint64_t>(op.hasDst != 0 ? s_->dsts[0] : s_->sources[0]);
        lane_.tickets[op.to + i] = message + 1;
        lends();
      }
      *offerAt(link(to.link).peers, message) = lent;
      Memory::release(word(link(to.link).peers, EndLayout::kHead), message + 1);
    }
  }

  /// Several threads may say so at once.
  TUTTI_HD void lends() const {
#ifdef __CUDA_ARCH__
    *static_cast<volatile uint32_t*>(&s_->lent) = 1;
#else
    __atomic_store_n(&s_->lent, 1u, __ATOMIC_RELAXED);
#endif
  }

  Team team_;
  const WalkMember& member_;
  const WalkProgram& program_;
  const WalkLane& lane_;
  uint32_t what_;
  LaneState* s_;
  uint64_t slice_ = 0;
  mutable bool stays_ = true;  // of this thread
};

/// Which of a launch's ranks a block works for.
TUTTI_HD const WalkMember& memberOf(const WalkArguments& a, uint32_t block) {
  uint32_t m = a.nMembers - 1;
  while (m > 0 && a.members[m].firstBlock > block) --m;
  return a.members[m];
}

template <class Arithmetic, class Team, class Memory, class Patience>
TUTTI_HD void walkBlock(Team team, const WalkArguments& a, uint32_t block, LaneState* state) {
  // One block speaks for all, as they start together.
  if (block == 0 && team.index() == 0 && a.started != nullptr) Memory::tell(a.started, a.launch);
  const WalkMember& member = memberOf(a, block);
  LaneWalk<Arithmetic, Team, Memory, Patience>(team, member, block - member.firstBlock, a.what, state).run();
}

}  // namespace tutti::kernels
