#include "src/import/order_check.hpp"

#include <algorithm>

namespace tutti::foreign {

void join(Clock* clock, const Clock& other) {
  if (clock->size() < other.size()) clock->resize(other.size(), 0);
  for (size_t i = 0; i < other.size(); ++i) (*clock)[i] = std::max((*clock)[i], other[i]);
}

OrderCheck::OrderCheck(const Program& program, size_t nCells)
    : program_(program), clocks_(program.threads.size(), Clock(program.threads.size(), 0)), cells_(nCells) {
  for (size_t t = 0; t < clocks_.size(); ++t) clocks_[t][t] = 1;
}

Clock OrderCheck::publish(int thread) {
  Clock& own = clocks_[static_cast<size_t>(thread)];
  Clock told = own;
  ++own[static_cast<size_t>(thread)];  // what it does from here on is not in it
  return told;
}

std::string OrderCheck::describe(const Access& access, const char* verb) const {
  const Thread& thread = program_.threads[static_cast<size_t>(access.thread)];
  return cat(thread.where, " ", thread.steps[static_cast<size_t>(access.step)].where, " ", verb,
             " without an order between them");
}

bool OrderCheck::hasBegun(int thread, int rank) const {
  const Clock& clock = clocks_[static_cast<size_t>(thread)];
  for (size_t t = 0; t < clock.size(); ++t) {
    if (clock[t] > 0 && program_.threads[t].rank == rank) return true;
  }
  return false;
}

std::string OrderCheck::read(int thread, int step, size_t cell) {
  History& history = cells_[cell];
  if (!known(thread, history.write)) return describe(history.write, "writes");
  const Access access = now(thread, step);
  for (Access& other : history.reads) {
    if (other.thread != thread) continue;
    other = access;
    return {};
  }
  history.reads.push_back(access);
  return {};
}

std::string OrderCheck::write(int thread, int step, size_t cell) {
  History& history = cells_[cell];
  if (!known(thread, history.write)) return describe(history.write, "writes");
  for (const Access& other : history.reads) {
    if (!known(thread, other)) return describe(other, "reads");
  }
  history.write = now(thread, step);
  history.reads.clear();
  return {};
}

std::string OrderCheck::atEnd(int rank, size_t cell) {
  if (ends_.empty()) {
    ends_.assign(static_cast<size_t>(program_.nRanks), Clock(clocks_.size(), 0));
    for (size_t t = 0; t < clocks_.size(); ++t) join(&ends_[static_cast<size_t>(program_.threads[t].rank)], clocks_[t]);
  }
  const Clock& end = ends_[static_cast<size_t>(rank)];
  const auto ended = [&](const Access& access) {
    return access.thread < 0 || end[static_cast<size_t>(access.thread)] >= access.time;
  };
  const auto sentence = [&](const Access& access, const char* verb) {
    const Thread& thread = program_.threads[static_cast<size_t>(access.thread)];
    return cat(thread.where, " ", thread.steps[static_cast<size_t>(access.step)].where, ": ", verb, " a buffer of gpu ",
               rank, ", which does not wait for that before it ends");
  };
  const History& history = cells_[cell];
  if (!ended(history.write)) return sentence(history.write, "writes");
  for (const Access& access : history.reads) {
    if (!ended(access)) return sentence(access, "reads");
  }
  return {};
}

}  // namespace tutti::foreign
