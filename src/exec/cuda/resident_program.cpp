#include "src/exec/cuda/resident_program.hpp"

#include <algorithm>
#include <cstring>

namespace tutti {
namespace {

using kernels::kLent;
using kernels::kMostLinks;
using kernels::WalkLane;
using kernels::WalkLink;
using kernels::WalkLoan;
using kernels::WalkOp;
using kernels::WalkOperand;
using kernels::WalkProgram;
using kernels::WalkReceiver;

static_assert(static_cast<int>(Buffer::Input) == 0 && static_cast<int>(Buffer::Output) == 1 &&
              static_cast<int>(Buffer::Scratch) == 2);

/// One lane's arrays before they have addresses.
struct LaneParts {
  std::vector<WalkOp> ops;
  std::vector<WalkLink> links;
  std::vector<uint32_t> senders;
  std::vector<WalkReceiver> receivers;
  std::vector<WalkOperand> operands;
  std::vector<WalkLoan> loans;
  size_t loops = 0, headStart = 0;
};

WalkOperand operandOf(const Operand& operand) { return {operand.offset, static_cast<uint32_t>(operand.buffer), 0}; }

/// What an op lends if it lends anything.
const Operand& lentBy(const BoundOp& op) { return op.hasDst ? op.dst : op.sources.front(); }

class LaneWriter {
 public:
  LaneWriter(const BoundLane& lane, const ResidentEnds& ends, int number)
      : lane_(lane), ends_(ends), number_(number), linkOf_(static_cast<size_t>(ends.nRanks), -1) {}

  Result<LaneParts> write() {
    parts_.loops = lane_.loops;
    parts_.headStart = lane_.headStart;
    for (const BoundOp& op : lane_.ops) TUTTI_TRY(add(op));
    for (size_t i = 0; i < lane_.ops.size(); ++i) addLoans(i);
    return std::move(parts_);
  }

 private:
  Status add(const BoundOp& bound) {
    if (!bound.parts.empty())
      return invalidUsage(ErrorCode::AlgorithmDoesNotFit,
                          "blocks take messages of one chunk, or of chunks side by side");
    if (bound.sources.size() + bound.from.size() > kMostLinks || bound.to.size() > kMostLinks) {
      return invalidUsage(ErrorCode::AlgorithmDoesNotFit, "an op with ", bound.sources.size(), " sources, ",
                          bound.from.size(), " senders and ", bound.to.size(),
                          " receivers is too much for a block, which takes ", kMostLinks);
    }
    WalkOp op{};
    op.bytes = bound.bytes;
    op.hasDst = bound.hasDst ? 1 : 0;
    op.token = bound.token ? 1 : 0;
    if (bound.hasDst) op.dst = operandOf(bound.dst);
    op.from = size(parts_.senders);
    op.nFrom = size(bound.fromRanks);
    for (const int rank : bound.fromRanks) parts_.senders.push_back(link(rank));
    op.sources = size(parts_.operands);
    op.nSources = size(bound.sources);
    for (const Operand& source : bound.sources) parts_.operands.push_back(operandOf(source));
    addReceivers(bound, &op);
    parts_.ops.push_back(op);
    if (parts_.links.size() > kMostLinks) {
      return invalidUsage(ErrorCode::AlgorithmDoesNotFit, "a lane with more than ", kMostLinks,
                          " peers is too much for a block");
    }
    return {};
  }

  // Only what lies somewhere can be lent: not a sum that has no place of its own.
  void addReceivers(const BoundOp& bound, WalkOp* op) {
    const bool lies = bound.hasDst || (bound.sources.size() == 1 && bound.from.empty());
    op->to = size(parts_.receivers);
    op->nTo = size(bound.toRanks);
    for (const int rank : bound.toRanks) {
      const bool lends = bound.direct && lies && !bound.token && ends_.lends[static_cast<size_t>(rank)];
      parts_.receivers.push_back({link(rank), lends ? kLent : op->nCopies++});
    }
  }

  /// The loans that must have ended before op `index` writes: earlier ones in the same slice; of scratch, in any slice.
  void addLoans(size_t index) {
    const BoundOp& writer = lane_.ops[index];
    WalkOp& op = parts_.ops[index];
    op.loans = size(parts_.loans);
    for (size_t i = 0; writer.hasDst && i < lane_.ops.size(); ++i) {
      const BoundOp& lender = lane_.ops[i];
      const WalkOp& lending = parts_.ops[i];
      if (lender.to.empty() || (!lender.hasDst && lender.sources.empty())) continue;
      if (lentBy(lender).memory != writer.dst.memory) continue;
      if (i >= index && writer.dst.buffer != Buffer::Scratch) continue;
      for (uint32_t t = lending.to; t < lending.to + lending.nTo; ++t) {
        if (parts_.receivers[t].place == kLent) parts_.loans.push_back({parts_.receivers[t].link, t});
      }
    }
    op.nLoans = size(parts_.loans) - op.loans;
  }

  uint32_t link(int rank) {
    int& known = linkOf_[static_cast<size_t>(rank)];
    if (known < 0) {
      known = static_cast<int>(parts_.links.size());
      parts_.links.push_back(ends_.link(rank, number_));
    }
    return static_cast<uint32_t>(known);
  }

  template <class T>
  static uint32_t size(const std::vector<T>& list) {
    return static_cast<uint32_t>(list.size());
  }

  const BoundLane& lane_;
  const ResidentEnds& ends_;
  int number_;
  std::vector<int> linkOf_;
  LaneParts parts_;
};

/// Puts arrays one behind the other, and says where they will be.
class Image {
 public:
  /// base: null while the size alone is wanted.
  explicit Image(std::byte* base) : base_(reinterpret_cast<uintptr_t>(base)) {}

  size_t reserve(size_t bytes) {
    const size_t at = bytes_.size();
    bytes_.resize(at + (bytes + 15) / 16 * 16);
    return at;
  }
  template <class T>
  const T* add(const std::vector<T>& list) {
    const size_t at = reserve(list.size() * sizeof(T));
    if (!list.empty()) std::memcpy(bytes_.data() + at, list.data(), list.size() * sizeof(T));
    return reinterpret_cast<const T*>(base_ + at);
  }
  template <class T>
  void put(size_t at, const T& value) {
    std::memcpy(bytes_.data() + at, &value, sizeof value);
  }
  template <class T>
  T* address(size_t at) const {
    return reinterpret_cast<T*>(base_ + at);
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  uintptr_t base_;  // a number: nothing is there yet
  std::vector<std::byte> bytes_;
};

WalkLane place(const LaneParts& parts, Image* image) {
  WalkLane lane{};
  lane.ops = image->add(parts.ops);
  lane.links = image->add(parts.links);
  lane.senders = image->add(parts.senders);
  lane.receivers = image->add(parts.receivers);
  lane.operands = image->add(parts.operands);
  lane.loans = image->add(parts.loans);
  lane.tickets = const_cast<uint64_t*>(image->add(std::vector<uint64_t>(parts.receivers.size())));
  lane.loops = parts.loops;
  lane.headStart = parts.headStart;
  lane.nOps = static_cast<uint32_t>(parts.ops.size());
  lane.nLinks = static_cast<uint32_t>(parts.links.size());
  return lane;
}

}  // namespace

size_t ResidentEnds::bytes() const { return static_cast<size_t>(nRanks) * static_cast<size_t>(lanes) * layout.bytes(); }

kernels::WalkLink ResidentEnds::link(int peer, int lane) const {
  const auto end = [&](int owner, int other) {
    const auto index = static_cast<size_t>(other) * static_cast<size_t>(lanes) + static_cast<size_t>(lane);
    return reinterpret_cast<unsigned char*>(bases[static_cast<size_t>(owner)] + index * layout.bytes());
  };
  return {end(rank, peer), end(peer, rank)};
}

Result<std::vector<std::byte>> residentProgram(const Plan& plan, const ResidentEnds& ends, std::byte* base) {
  Image image(base);
  WalkProgram program{};
  const size_t head = image.reserve(sizeof program);
  const size_t lanes = image.reserve(plan.lanes.size() * sizeof(WalkLane));
  for (size_t l = 0; l < plan.lanes.size(); ++l) {
    TUTTI_ASSIGN(const LaneParts parts, LaneWriter(plan.lanes[l], ends, static_cast<int>(l)).write());
    image.put(lanes + l * sizeof(WalkLane), place(parts, &image));
  }
  program.lanes = image.address<const WalkLane>(lanes);
  program.scratch = reinterpret_cast<unsigned char*>(plan.scratch);
  program.sliceBytes = plan.sliceBytes;
  program.layout = ends.layout;
  program.nLanes = static_cast<uint32_t>(plan.lanes.size());
  program.elementBytes = static_cast<uint32_t>(plan.elementBytes);
  image.put(head, program);
  return image.take();
}

}  // namespace tutti
