#include "src/schedule/check_ops.hpp"

#include <algorithm>

#include "src/base/text.hpp"

namespace tutti {
namespace {

int chunksOf(const Schedule& schedule, Buffer buffer) {
  switch (buffer) {
    case Buffer::Input: return schedule.inputChunks();
    case Buffer::Output: return schedule.outputChunks();
    case Buffer::Scratch: return schedule.nScratch;
  }
  return 0;
}

std::string checkPeers(const Schedule& schedule, const std::vector<int32_t>& peers) {
  for (size_t i = 0; i < peers.size(); ++i) {
    if (peers[i] < 0 || peers[i] >= schedule.nRanks) return cat("there is no rank ", peers[i]);
    if (peers[i] == schedule.rank) return "a rank cannot exchange messages with itself";
    if (std::find(peers.begin(), peers.begin() + static_cast<std::ptrdiff_t>(i), peers[i]) !=
        peers.begin() + static_cast<std::ptrdiff_t>(i)) {
      return cat("names rank ", peers[i], " twice");
    }
  }
  return {};
}

std::string checkChunk(const Schedule& schedule, Chunk chunk) {
  const int have = chunksOf(schedule, chunk.buffer);
  if (chunk.index >= 0 && chunk.index < have) return {};
  return cat(toString(chunk), " is out of range: this rank has ", have, " chunks there");
}

std::string checkForm(const Schedule& schedule, const Op& op) {
  const size_t operands = op.from.size() + op.sources.size();
  if (op.token != (schedule.collective == Collective::Barrier)) {
    return op.token ? "a token outside of a Barrier" : "a Barrier moves no data";
  }
  if (op.token) {
    if (!op.sources.empty() || op.hasDst || op.direct) return "a token carries no data";
    return operands + op.to.size() == 0 ? "does nothing" : "";
  }
  if (operands == 0) return "has no operand";
  if (!op.hasDst && op.to.empty()) return "does nothing with its value";
  if (op.reduces() && !reduces(schedule.collective)) return "a reduction, but the collective has no operator";
  if (op.direct && (op.sources.size() != 1 || !op.from.empty() || op.hasDst || op.to.empty())) {
    return "direct is for an op that sends one source and does nothing else";
  }
  return {};
}

std::string checkOp(const Schedule& schedule, const Op& op) {
  if (std::string text = checkForm(schedule, op); !text.empty()) return text;
  if (std::string text = checkPeers(schedule, op.from); !text.empty()) return text;
  if (std::string text = checkPeers(schedule, op.to); !text.empty()) return text;
  for (const Chunk source : op.sources) {
    if (std::string text = checkChunk(schedule, source); !text.empty()) return text;
  }
  if (!op.hasDst) return {};
  if (std::string text = checkChunk(schedule, op.dst); !text.empty()) return text;
  // In place, one of Input and Output stands for the memory that they share: which one says nothing about writing.
  if (op.dst.buffer != Buffer::Input) return {};
  for (int c = 0; schedule.inPlace && c < schedule.outputChunks(); ++c) {
    if (schedule.memoryOf(out(c)) == schedule.memoryOf(op.dst)) return {};
  }
  return cat("writes to ", toString(op.dst), ", which is the caller's and read-only");
}

/// Of an op that says its messages are parts of those of the op before it.
std::string checkJoined(const Schedule& schedule, const std::vector<Op>& ops, size_t i) {
  if (!ops[i].joined) return {};
  if (i == 0) return "is joined to nothing";
  const Op& before = ops[i - 1];
  if (ops[i].from != before.from || ops[i].to != before.to) return "is joined to an op with other peers";
  if (ops[i].from.empty() && ops[i].to.empty()) return "is joined, but has no message";
  for (const Op* op : {&ops[i], &before}) {
    if (op->token || op->direct) return "a token or a direct send cannot be part of a message";
  }
  for (size_t k = i; k-- > 0;) {
    for (const Chunk source : ops[i].sources) {
      if (ops[k].hasDst && schedule.memoryOf(ops[k].dst) == schedule.memoryOf(source)) {
        return cat("reads ", toString(source), ", which op ", k, " of the same message writes");
      }
    }
    if (!ops[k].joined) break;
  }
  return {};
}

std::string checkShape(const std::vector<Schedule>& schedules, size_t r) {
  const Schedule& first = schedules.front();
  const Schedule& s = schedules[r];
  if (s.rank != static_cast<int>(r)) return cat("schedule ", r, " is of rank ", s.rank);
  if (s.nRanks != static_cast<int>(schedules.size())) {
    return cat("rank ", r, ": is for ", s.nRanks, " ranks, but there are ", schedules.size(), " schedules");
  }
  if (s.collective != first.collective || s.root != first.root || s.inPlace != first.inPlace ||
      s.nChunks != first.nChunks || s.nChannels != first.nChannels || s.lanes.size() != first.lanes.size()) {
    return cat("rank ", r, " and rank 0 have schedules of different collectives, roots or numbers of chunks, channels ",
               "or lanes");
  }
  if (s.root < 0 || s.root >= s.nRanks) return cat("rank ", r, ": there is no root ", s.root);
  if (s.slotsNeeded < 1) return cat("rank ", r, ": cannot work with ", s.slotsNeeded, " slots");
  if (s.nChunks < 1 || s.nScratch < 0) return cat("rank ", r, ": a negative number of chunks");
  if (s.nChannels < 1 || s.lanes.size() % static_cast<size_t>(s.nChannels) != 0 || s.lanes.empty()) {
    return cat("rank ", r, ": ", s.lanes.size(), " lanes are not divisible into ", s.nChannels, " channels");
  }
  return {};
}

}  // namespace

std::string describeOp(const Schedule& schedule, int lane, int opIndex) {
  const Op& op = schedule.lanes[static_cast<size_t>(lane)].ops[static_cast<size_t>(opIndex)];
  return cat("rank ", schedule.rank, " lane ", lane, " op ", opIndex, " (", toString(op), ")");
}

std::string checkShapesAndOps(const std::vector<Schedule>& schedules) {
  if (schedules.empty()) return "there are no schedules";
  for (size_t r = 0; r < schedules.size(); ++r) {
    if (std::string text = checkShape(schedules, r); !text.empty()) return text;
  }
  for (const Schedule& schedule : schedules) {
    for (size_t l = 0; l < schedule.lanes.size(); ++l) {
      const std::vector<Op>& ops = schedule.lanes[l].ops;
      for (size_t i = 0; i < ops.size(); ++i) {
        std::string text = checkOp(schedule, ops[i]);
        if (text.empty()) text = checkJoined(schedule, ops, i);
        if (!text.empty()) {
          return describeOp(schedule, static_cast<int>(l), static_cast<int>(i)) + ": " + text;
        }
      }
    }
  }
  return {};
}

std::string checkLanesDisjoint(const Schedule& schedule) {
  if (schedule.lanes.size() < 2) return {};
  const int inChunks = schedule.inputChunks();
  const int userChunks = inChunks + schedule.outputChunks();
  const auto slotOf = [&](Chunk chunk, int channel) {  // Input and Output exist once per channel, Scratch once
    const Chunk c = schedule.memoryOf(chunk);
    if (c.buffer == Buffer::Scratch) return static_cast<size_t>(userChunks * schedule.nChannels + c.index);
    const int index = c.buffer == Buffer::Input ? c.index : inChunks + c.index;
    return static_cast<size_t>(channel * userChunks + index);
  };
  constexpr int kNone = -1, kSeveral = -2;
  const size_t nSlots = static_cast<size_t>(userChunks * schedule.nChannels + schedule.nScratch);
  std::vector<int> user(nSlots, kNone);
  std::vector<int> writer(nSlots, kNone);
  for (int l = 0; l < static_cast<int>(schedule.lanes.size()); ++l) {
    const int channel = schedule.channelOf(l);
    const std::vector<Op>& ops = schedule.lanes[static_cast<size_t>(l)].ops;
    for (size_t i = 0; i < ops.size(); ++i) {
      const auto conflict = [&](Chunk chunk, bool writes) {
        const size_t slot = slotOf(chunk, channel);
        user[slot] = user[slot] == kNone || user[slot] == l ? l : kSeveral;
        if (writes) writer[slot] = l;
        return user[slot] == kSeveral && writer[slot] != kNone;
      };
      const auto complain = [&](Chunk chunk) {
        return describeOp(schedule, l, static_cast<int>(i)) + ": " + toString(chunk) +
               " is shared between lanes, and one of them writes it";
      };
      for (const Chunk source : ops[i].sources) {
        if (conflict(source, false)) return complain(source);
      }
      if (ops[i].hasDst && conflict(ops[i].dst, true)) return complain(ops[i].dst);
    }
  }
  return {};
}

}  // namespace tutti
