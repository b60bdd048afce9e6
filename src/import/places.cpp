#include "src/import/places.hpp"

#include <algorithm>

#include "src/import/program.hpp"
#include "src/schedule/verifier.hpp"

namespace tutti {
namespace {

/// An Input and an Output chunk that are the same memory in a call in place.
struct Alias {
  Chunk input;
  Chunk output;
};

std::vector<Alias> aliasesOf(Schedule schedule) {
  schedule.inPlace = true;
  std::vector<Alias> aliases;
  for (int x = 0; x < schedule.inputChunks(); ++x) {
    for (int y = 0; y < schedule.outputChunks(); ++y) {
      if (schedule.memoryOf(in(x)) == schedule.memoryOf(out(y))) aliases.push_back({in(x), out(y)});
    }
  }
  return aliases;
}

struct Lanes {
  size_t first = 0, end = 0;
};
Lanes lanesOf(const Schedule& s, int channel) {
  const size_t each = s.lanes.size() / static_cast<size_t>(s.nChannels);
  return {static_cast<size_t>(channel) * each, (static_cast<size_t>(channel) + 1) * each};
}

bool isCopy(const Op& op, const Alias& alias) {
  return op.from.empty() && op.to.empty() && op.hasDst && op.dst == alias.output && op.sources.size() == 1 &&
         op.sources.front() == alias.input;
}
bool writes(const Op& op, const Alias& alias) { return op.hasDst && op.dst == alias.output && !isCopy(op, alias); }
bool reads(const Op& op, Chunk chunk) {
  return std::find(op.sources.begin(), op.sources.end(), chunk) != op.sources.end();
}

Op copyOp(Chunk source, Chunk dst) {
  Op op;
  op.sources = {source};
  op.dst = dst;
  op.hasDst = true;
  return op;
}

void insertOp(Lane* lane, size_t at, Op op) {
  lane->ops.insert(lane->ops.begin() + static_cast<std::ptrdiff_t>(at), std::move(op));
  for (Phase& phase : lane->phases) phase.begin += phase.begin > static_cast<int32_t>(at) ? 1 : 0;
}

void eraseOp(Lane* lane, size_t at) {
  lane->ops.erase(lane->ops.begin() + static_cast<std::ptrdiff_t>(at));
  for (Phase& phase : lane->phases) phase.begin -= phase.begin > static_cast<int32_t>(at) ? 1 : 0;
}

/// The lane that writes the alias' memory, lanes.end if none does.
size_t writerOf(const Schedule& s, const Lanes& lanes, const Alias& alias) {
  for (size_t l = lanes.first; l < lanes.end; ++l) {
    for (const Op& op : s.lanes[l].ops) {
      if (writes(op, alias)) return l;
    }
  }
  return lanes.end;
}

bool sameMessages(const Schedule& a, const Schedule& b) {
  // Chunks of a vector may differ in size by an element; blocks are all alike.
  const bool sizes = isOneVector(a.collective);
  const auto messages = [sizes](const Lane& lane) {
    std::vector<std::tuple<std::vector<int32_t>, std::vector<int32_t>, int32_t>> list;
    for (const Op& op : lane.ops) {
      if (op.from.empty() && op.to.empty()) continue;
      int32_t index = -1;
      for (const Chunk& chunk : op.sources) {
        if (sizes && chunk.buffer != Buffer::Scratch) index = chunk.index;
      }
      if (sizes && op.hasDst && op.dst.buffer != Buffer::Scratch) index = op.dst.index;
      list.emplace_back(op.from, op.to, index);
    }
    return list;
  };
  if (a.lanes.size() != b.lanes.size() || a.nChannels != b.nChannels) return false;
  for (size_t l = 0; l < a.lanes.size(); ++l) {
    if (messages(a.lanes[l]) != messages(b.lanes[l])) return false;
  }
  return true;
}

bool alike(const std::vector<Schedule>& a, const std::vector<Schedule>& b) {
  for (size_t r = 0; r < a.size(); ++r) {
    if (!sameMessages(a[r], b[r])) return false;
  }
  return true;
}

}  // namespace

Schedule outOfPlaceFrom(const Schedule& inPlace) {
  Schedule s = inPlace;
  s.inPlace = false;
  for (int channel = 0; channel < s.nChannels; ++channel) {
    const Lanes lanes = lanesOf(s, channel);
    for (const Alias& alias : aliasesOf(inPlace)) {
      const size_t writer = writerOf(s, lanes, alias);
      for (size_t l = lanes.first; l < lanes.end; ++l) {
        bool written = false;
        for (Op& op : s.lanes[l].ops) {
          for (Chunk& source : op.sources) {
            if (source == alias.input || source == alias.output) source = written ? alias.output : alias.input;
          }
          written = written || writes(op, alias);
        }
      }
      if (writer == lanes.end) s.lanes[lanes.first].ops.push_back(copyOp(alias.input, alias.output));
    }
  }
  return s;
}

std::optional<Schedule> inPlaceFrom(const Schedule& outOfPlace) {
  Schedule s = outOfPlace;
  s.inPlace = true;
  for (int channel = 0; channel < s.nChannels; ++channel) {
    const Lanes lanes = lanesOf(s, channel);
    for (const Alias& alias : aliasesOf(outOfPlace)) {
      const size_t writer = writerOf(s, lanes, alias);
      for (size_t l = lanes.first; l < lanes.end; ++l) {
        Lane& lane = s.lanes[l];
        for (size_t i = lane.ops.size(); i-- > 0;) {
          if (isCopy(lane.ops[i], alias)) eraseOp(&lane, i);
        }
        const bool elsewhere = writer != lanes.end && writer != l;
        for (const Op& op : lane.ops) {
          if (elsewhere && reads(op, alias.input)) return std::nullopt;
        }
      }
      if (writer == lanes.end) continue;
      Lane& lane = s.lanes[writer];
      size_t first = 0;
      while (!writes(lane.ops[first], alias)) ++first;
      std::optional<Chunk> kept;
      for (size_t i = first + 1; i < lane.ops.size(); ++i) {
        if (!reads(lane.ops[i], alias.input)) continue;
        if (!kept) kept = scratch(s.nScratch++);
        std::replace(lane.ops[i].sources.begin(), lane.ops[i].sources.end(), alias.input, *kept);
      }
      if (kept) insertOp(&lane, first, copyOp(alias.input, *kept));
    }
  }
  return s;
}

namespace {

/// None if one of the ranks cannot.
std::vector<Schedule> allInPlaceFrom(const std::vector<Schedule>& outOfPlace) {
  std::vector<Schedule> all;
  for (const Schedule& s : outOfPlace) {
    std::optional<Schedule> made = inPlaceFrom(s);
    if (!made) return {};
    all.push_back(std::move(*made));
  }
  return verify(all).empty() ? all : std::vector<Schedule>();
}

}  // namespace

Status completePlaces(ImportedPlan* plan) {
  if (!plan->inPlace.empty()) {
    if (!plan->outOfPlace.empty() && alike(plan->inPlace, plan->outOfPlace)) return {};
    plan->outOfPlace.clear();
    for (const Schedule& s : plan->inPlace) plan->outOfPlace.push_back(outOfPlaceFrom(s));
  } else {
    plan->inPlace = allInPlaceFrom(plan->outOfPlace);
  }
  const std::string complaint = verify(plan->outOfPlace);
  if (complaint.empty()) return {};
  return invalidArgument(ErrorCode::PlanWrong, plan->origin, ": cannot serve calls out of place: ", complaint);
}

}  // namespace tutti
