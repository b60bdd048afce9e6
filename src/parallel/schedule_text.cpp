// Schedules as CSV, and where messages belong.
#include <algorithm>
#include <charconv>

#include "src/parallel/fail.hpp"
#include "src/parallel/grid_text.hpp"
#include "src/parallel/schedule.hpp"

namespace tutti::parallel {
namespace {

constexpr const char* kKinds[tuttiNumActions] = {"F", "B", "I", "W", "SF", "RF", "SB", "RB"};
constexpr int kMost = 1 << 16;

int numberAt(const std::string& cell, size_t* at) {
  int value = 0;
  const auto [end, error] = std::from_chars(cell.data() + *at, cell.data() + cell.size(), value);
  require(error == std::errc() && value >= 0 && value < kMost, "\"", cell, "\" is not an action: stage, F B I W SF RF ",
          "SB or RB, micro-batch");
  *at = static_cast<size_t>(end - cell.data());
  return value;
}

tuttiAction_t parseAction(const std::string& cell) {
  size_t at = 0;
  tuttiAction_t a{-1, numberAt(cell, &at), 0};
  const size_t kind = at;
  while (at < cell.size() && cell[at] >= 'A' && cell[at] <= 'Z') ++at;
  for (int k = 0; k < tuttiNumActions; ++k) {
    if (cell.compare(kind, at - kind, kKinds[k]) == 0) a.kind = k;
  }
  require(a.kind >= 0, "\"", cell, "\": there is no action ", cell.substr(kind, at - kind));
  a.micro = numberAt(cell, &at);
  require(at == cell.size(), "\"", cell, "\": what comes behind the micro-batch?");
  return a;
}

}  // namespace

std::string actionText(const tuttiAction_t& a) { return joined(a.stage, kKinds[a.kind], a.micro); }

int PipelineSchedule::peerOf(const tuttiAction_t& a) const {
  const auto at = [this](int stage) { return stage >= 0 && stage < stages ? rankOf[static_cast<size_t>(stage)] : -1; };
  switch (a.kind) {
    case tuttiActionSendForward:
    case tuttiActionRecvBackward: return at(a.stage + 1);
    case tuttiActionRecvForward:
    case tuttiActionSendBackward: return at(a.stage - 1);
    default: return -1;
  }
}

void addMessages(PipelineSchedule& s) {
  for (int rank = 0; rank < s.nRanks; ++rank) {
    std::vector<tuttiAction_t> all;
    const auto message = [&](int kind, const tuttiAction_t& a) {
      const tuttiAction_t m{kind, a.stage, a.micro};
      const int peer = s.peerOf(m);
      if (peer >= 0 && peer != rank) all.push_back(m);
    };
    for (const tuttiAction_t& a : s.actions[static_cast<size_t>(rank)]) {
      const bool back = a.kind == tuttiActionBackward || a.kind == tuttiActionBackwardInput;
      if (a.kind == tuttiActionForward) message(tuttiActionRecvForward, a);
      if (back) message(tuttiActionRecvBackward, a);
      all.push_back(a);
      if (a.kind == tuttiActionForward) message(tuttiActionSendForward, a);
      if (back) message(tuttiActionSendBackward, a);
    }
    s.actions[static_cast<size_t>(rank)] = std::move(all);
  }
}

std::string scheduleCsv(const PipelineSchedule& s) {
  std::string text;
  for (const auto& row : s.actions) {
    for (const tuttiAction_t& a : row) {
      if (&a != row.data()) text += ',';
      text += actionText(a);
    }
    if (row.empty()) text += ',';  // a line without anything is no rank
    text += "\n";
  }
  return text;
}

PipelineSchedule parseSchedule(const std::string& csv) {
  PipelineSchedule s;
  bool messages = false;
  require(csv.size() < (size_t{1} << 26), "a schedule of ", csv.size(), " bytes");
  for (std::string line : splitText(csv, '\n')) {
    line.erase(std::remove_if(line.begin(), line.end(), [](char c) { return c == ' ' || c == '\r'; }), line.end());
    if (line.empty()) continue;
    s.actions.emplace_back();
    for (const std::string& cell : splitText(line, ',')) {
      if (cell.empty()) continue;
      const tuttiAction_t a = parseAction(cell);
      s.actions.back().push_back(a);
      s.stages = std::max(s.stages, a.stage + 1);
      s.microBatches = std::max(s.microBatches, a.micro + 1);
      messages = messages || a.kind >= tuttiActionSendForward;
    }
  }
  s.nRanks = static_cast<int>(s.actions.size());
  require(s.nRanks > 0 && s.stages > 0, "a schedule has at least one rank and one action");
  require(static_cast<int64_t>(s.stages) * s.microBatches < (int64_t{1} << 24), s.stages, " stages and ",
          s.microBatches, " micro-batches are more than a schedule may have");
  s.rankOf.assign(static_cast<size_t>(s.stages), -1);
  for (int rank = 0; rank < s.nRanks; ++rank) {
    for (const tuttiAction_t& a : s.actions[static_cast<size_t>(rank)]) {
      int& owner = s.rankOf[static_cast<size_t>(a.stage)];
      require(owner < 0 || owner == rank, actionText(a), ": stage ", a.stage, " is on rank ", owner, " and on ", rank);
      owner = rank;
    }
  }
  for (int stage = 0; stage < s.stages; ++stage) {
    require(s.rankOf[static_cast<size_t>(stage)] >= 0, "no rank has stage ", stage);
  }
  if (!messages) addMessages(s);
  return s;
}

}  // namespace tutti::parallel
