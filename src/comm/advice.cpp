#include "src/comm/advice.hpp"

#include <array>
#include <cmath>

#include "src/base/log.hpp"
#include "src/plan/fit.hpp"

namespace tutti {
namespace {

/// More kinds of calls than this are not asked about: programs have few, and each is remembered.
constexpr size_t kMostKinds = 65536;

struct FunctionRow {
  Collective collective;
  tuner::Function function;
  bool ofAllRanks;  // bytes are of all ranks' blocks
};
constexpr FunctionRow kFunctions[] = {{Collective::Broadcast, tuner::Function::Broadcast, false},
                                      {Collective::Reduce, tuner::Function::Reduce, false},
                                      {Collective::AllGather, tuner::Function::AllGather, true},
                                      {Collective::ReduceScatter, tuner::Function::ReduceScatter, true},
                                      {Collective::AllReduce, tuner::Function::AllReduce, false}};

const FunctionRow* functionOf(Collective collective) {
  for (const FunctionRow& row : kFunctions) {
    if (row.collective == collective) return &row;
  }
  return nullptr;
}

/// Algorithms that do the same.
struct Counterpart {
  Collective collective;
  std::string_view ours;
  int theirs;
};
constexpr Counterpart kCounterparts[] = {
    {Collective::AllReduce, "ring", tuner::kRing},     {Collective::AllReduce, "tree", tuner::kTree},
    {Collective::AllGather, "ring", tuner::kRing},     {Collective::AllGather, "pat", tuner::kPat},
    {Collective::ReduceScatter, "ring", tuner::kRing}, {Collective::ReduceScatter, "pat", tuner::kPat},
    {Collective::Broadcast, "chain", tuner::kRing},    {Collective::Reduce, "chain", tuner::kRing},
};

/// A row of the planner's table that has a place in a plugin's.
struct Placed {
  int algorithm, protocol;
};
std::optional<Placed> placeOf(const Candidate& row) {
  if (row.ready || !row.excluded.empty()) return std::nullopt;
  for (const Counterpart& c : kCounterparts) {
    if (c.collective != row.algorithm->collective || c.ours != row.algorithm->name) continue;
    return Placed{c.theirs, row.protocol == Protocol::Inline ? tuner::kFlagged : tuner::kSimple};
  }
  return std::nullopt;
}

/// The cheapest row of each place; null: there is none.
using Rows = std::array<std::array<const Candidate*, tuner::kNumProtocols>, tuner::kNumAlgorithms>;

Rows rowsOf(const Choice& choice) {
  Rows rows{};
  for (const Candidate& row : choice.table) {
    const std::optional<Placed> place = placeOf(row);
    if (!place) continue;
    const Candidate*& best = rows[static_cast<size_t>(place->algorithm)][static_cast<size_t>(place->protocol)];
    if (best == nullptr || row.costUs < best->costUs) best = &row;
  }
  return rows;
}

void fill(const Rows& rows, tuner::CostTable* table) {
  for (size_t a = 0; a < rows.size(); ++a) {
    for (size_t p = 0; p < rows[a].size(); ++p)
      (*table)[a][p] = rows[a][p] != nullptr ? static_cast<float>(rows[a][p]->costUs) : tuner::kIgnored;
  }
}

/// The cheapest that there is, if it costs less than the planner's choice does, or is that.
const Candidate* cheapest(const Rows& rows, const tuner::CostTable& table, const Choice& choice) {
  const Candidate* best = nullptr;
  float bestUs = HUGE_VALF;
  for (size_t a = 0; a < rows.size(); ++a) {
    for (size_t p = 0; p < rows[a].size(); ++p) {
      const bool there = rows[a][p] != nullptr && table[a][p] >= 0;  // false for NaN
      if (!there || table[a][p] >= bestUs) continue;
      best = rows[a][p];
      bestUs = table[a][p];
    }
  }
  return bestUs < static_cast<float>(choice.costUs) ? best : nullptr;
}

}  // namespace

bool Advice::concerns(const Shape& shape) {
  return shape.nRanks > 1 && !shape.uneven && functionOf(shape.collective) != nullptr;
}

Result<bool> Advice::learn(const Shape& shape, const std::function<Result<Choice>()>& compare) {
  if (!concerns(shape) || answers_.contains(keyOf(shape)) || answers_.size() >= kMostKinds) return true;
  if (gather_ == nullptr) gather_ = control_.beginAllGather(ask(shape, compare));
  TUTTI_ASSIGN(const Blobs all, gather_->poll());
  if (all.empty()) return false;
  gather_.reset();
  TUTTI_ASSIGN(const Answer answer, parse(shape.collective, all[0]));
  const std::lock_guard lock(mutex_);
  answers_[keyOf(shape)] = answer;
  return true;
}

std::string Advice::ask(const Shape& shape, const std::function<Result<Choice>()>& compare) {
  if (tuner_ == nullptr) return "";
  const Result<Choice> choice = compare();
  if (!choice.ok()) return "";  // the call will say why
  const Rows rows = rowsOf(*choice);
  tuner::CostTable table;
  fill(rows, &table);
  const FunctionRow& function = *functionOf(shape.collective);
  const size_t bytes = function.ofAllRanks ? shape.bytes * static_cast<size_t>(shape.nRanks) : shape.bytes;
  const Result<int> nChannels = tuner_->ask(function.function, bytes, &table);
  if (!nChannels.ok()) {
    TUTTI_WARN("tuner", nChannels.status().message(), " for ", describe(shape), "; chosen by cost");
    return "";
  }
  const Candidate* const best = cheapest(rows, table, *choice);
  const std::string answer =
      best != nullptr ? cat(best->name(), " ", protocolName(best->protocol), " ", *nChannels) : cat("- - ", *nChannels);
  TUTTI_INFO("tuner", tuner_->name(), " wants of ", describe(shape), ": ", answer, " (algorithm, protocol, channels)");
  return answer;
}

Result<Advice::Answer> Advice::parse(Collective collective, const std::string& text) {
  Answer answer;
  if (text.empty()) return answer;
  const std::vector<std::string> parts = split(text, ' ');
  const auto bad = [&] {
    return remoteError(ErrorCode::Malformed, "rank 0's tuner gives an answer that is not understood: ", text);
  };
  if (parts.size() != 3 || !parseNumber(parts[2], &answer.nChannels) || answer.nChannels < 0) return bad();
  if (parts[0] == "-") return answer;
  Protocol protocol{};
  answer.algorithm = findAlgorithm(collective, parts[0]);
  if (answer.algorithm == nullptr || !parseProtocol(parts[1], &protocol)) return bad();
  answer.protocol = protocol;
  return answer;
}

void Advice::addTo(const Shape& shape, Overrides* overrides) const {
  if (!concerns(shape)) return;
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(keyOf(shape));
  if (found == answers_.end()) return;
  const Answer& answer = found->second;
  const bool free = overrides->of(shape.collective) == nullptr && overrides->readyOf(shape.collective).empty();
  if (free && answer.algorithm != nullptr) {
    overrides->algorithm[static_cast<size_t>(shape.collective)] = answer.algorithm;
    if (!overrides->protocol) overrides->protocol = answer.protocol;
  }
  if (overrides->nChannels == 0 && answer.nChannels > 0) {
    overrides->nChannels = answer.nChannels;
    overrides->nearestChannels = true;
  }
}

}  // namespace tutti
