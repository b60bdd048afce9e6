#include "src/exec/turn_cost.hpp"

#include <dirent.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "src/base/text.hpp"
#include "src/exec/thread_time.hpp"

namespace tutti {
namespace {

// So many of the last eight yields make them dear: two in a row do, by chance a yield in hundreds.
constexpr int kDear = 2;
// Every rank looks at all, so that on one host n ranks read n * n folders of /proc in a window: 256 on two cores spent
// most of their time on that.
constexpr size_t kMostProcesses = 64;

using File = std::unique_ptr<FILE, int (*)(FILE*)>;

int64_t ticksNs(long long ticks) { return ticks * (1'000'000'000 / sysconf(_SC_CLK_TCK)); }

/// False: the system does not tell.
bool readCore(TurnCost::CoreTime* time) {
  const File file(std::fopen("/proc/stat", "re"), std::fclose);
  char line[256];
  while (file != nullptr && std::fgets(line, sizeof line, file.get()) != nullptr) {
    int number = -1;
    long long user = 0, nice = 0, system = 0, idle = 0, waits = 0;  // the last: for a disk
    if (std::sscanf(line, "cpu%d %lld %lld %lld %lld %lld", &number, &user, &nice, &system, &idle, &waits) != 6 ||
        number != time->core)
      continue;
    time->idleNs = ticksNs(idle + waits);
    time->tasksNs = ticksNs(user + nice + system);
    return true;
  }
  return false;
}

/// The first line of a file; "": there is none.
std::string line(const std::string& path) {
  const File file(std::fopen(path.c_str(), "re"), std::fclose);
  char text[1024];
  return file != nullptr && std::fgets(text, sizeof text, file.get()) != nullptr ? text : "";
}

/// proc(5): field 39 of /proc/PID/task/TID/stat is the core; the time is what schedstat begins with.
void addThread(const std::string& folder, int thread, TurnCost::CoreTime* time) {
  constexpr int kCore = 39, kFirst = 3;  // behind the name, which may hold anything
  const std::string stat = line(folder + "stat");
  size_t at = stat.rfind(')');
  for (int field = kFirst; at != std::string::npos && field <= kCore; ++field) at = stat.find(' ', at + 1);
  if (at == std::string::npos || std::atoi(stat.c_str() + at + 1) != time->core) return;
  time->ranksNs[thread] = std::atoll(line(folder + "schedstat").c_str());
}

void addThreads(int process, TurnCost::CoreTime* time) {
  const std::string folder = cat("/proc/", process, "/task/");
  const std::unique_ptr<DIR, int (*)(DIR*)> threads(::opendir(folder.c_str()), ::closedir);
  if (threads == nullptr) return;
  while (const dirent* entry = ::readdir(threads.get())) {
    int thread = 0;
    if (parseNumber(entry->d_name, &thread)) addThread(folder + entry->d_name + "/", thread, time);
  }
}

}  // namespace

void TurnCost::sample(int64_t costNs, int64_t nowNs) {
  if (state_ == State::Alone && nowNs < trustNs_) return;
  const bool slice = costNs >= kSliceNs;
  recent_ = static_cast<uint8_t>(recent_ << 1 | (slice ? 1 : 0));
  if (state_ == State::Suspects || (state_ == State::Alone && !slice)) return;
  if (state_ == State::Alone) {
    if (nowNs < knownNs_) return judge(nowNs);
    state_ = State::Suspects;
    fromNs_ = kLongAgoNs;
    nextLookNs_ = nowNs;
  } else if (slice) {
    if (std::popcount(recent_) >= kDear) return becomeDear(nowNs);
    untilNs_ = nowNs + kLeastPeriodNs;
  } else if (state_ == State::Beside && nowNs >= untilNs_) {
    state_ = State::Alone;
    periodNs_ = kLeastPeriodNs;
  }
}

void TurnCost::judge(int64_t nowNs) {
  if (std::popcount(recent_) >= kDear) return becomeDear(nowNs);
  state_ = recent_ == 0 ? State::Alone : State::Beside;
  untilNs_ = nowNs + kLeastPeriodNs;
}

void TurnCost::becomeDear(int64_t nowNs) {
  state_ = State::Dear;
  recent_ = 0;
  untilNs_ = nowNs + periodNs_;
  periodNs_ = std::min(2 * periodNs_, kMostPeriodNs);
}

bool TurnCost::triesAgain(int64_t nowNs) {
  if (nowNs < untilNs_) return false;
  state_ = State::Beside;
  untilNs_ = nowNs + kLeastPeriodNs;
  return true;
}

bool TurnCost::othersHadLittle(const CoreTime& now, int64_t windowNs) const {
  const int64_t idle = now.idleNs - from_->idleNs;
  int64_t ranks = 0;
  for (const auto& [thread, ns] : now.ranksNs) {
    const auto before = from_->ranksNs.find(thread);
    if (before != from_->ranksNs.end()) ranks += ns - before->second;
  }
  int64_t absent = 0;
  if (now.wantedNs && from_->wantedNs) absent = windowNs - (*now.wantedNs - *from_->wantedNs) - sleptNs_;
  const int64_t others = now.tasksNs - from_->tasksNs - ranks - std::max<int64_t>(absent, 0);
  return idle * kMostIdlePart > windowNs || others * kLeastOthersPart < windowNs;
}

void TurnCost::becomeAlone(int64_t nowNs) {
  state_ = State::Alone;
  recent_ = 0;
  periodNs_ = kLeastPeriodNs;
  trustNs_ = nowNs + doubtNs_;
  knownNs_ = 0;
  doubtNs_ = std::min(2 * doubtNs_, kMostDoubtNs);
}

void TurnCost::coreTime(std::optional<CoreTime> now, int64_t nowNs) {
  const int64_t windowNs = nowNs - fromNs_;
  // Of a longer one the thread spent a part in no wait: whoever had the core then took nothing from it.
  const bool whole = windowNs >= kWindowNs && windowNs < 2 * kWindowNs;
  const bool told = whole && now && from_ && now->core == from_->core;
  if (told && othersHadLittle(*now, windowNs)) {
    becomeAlone(nowNs);
  } else {
    if (told) doubtNs_ = kLeastDoubtNs, knownNs_ = nowNs + kKnownNs;
    if (whole && state_ == State::Suspects) judge(nowNs);
  }
  from_ = std::move(now);
  fromNs_ = nowNs;
  sleptNs_ = 0;
  nextLookNs_ = nowNs + kWindowNs;
}

TurnCost& turnCostOfThread() {
  static thread_local TurnCost cost;
  return cost;
}

std::optional<TurnCost::CoreTime> timeOfCore(std::span<const int> ranks) {
  if (ranks.size() > kMostProcesses) return std::nullopt;
  TurnCost::CoreTime time{.core = sched_getcpu()};
  if (time.core < 0 || !readCore(&time)) return std::nullopt;
  for (const int process : ranks) addThreads(process, &time);
  if (const auto own = timeOfThread()) time.wantedNs = own->ranNs + own->delayNs;
  return time;
}

}  // namespace tutti
