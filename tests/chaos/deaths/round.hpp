// One round: ranks as processes, one of which dies at a point that a seed chooses, and what the others made of it.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "tests/chaos/deaths/mortal.hpp"
#include "tutti/tutti.h"

namespace tutti::test {

enum class During : uint8_t { Init, Calls, Split, Shrink, Grow, Destroy };
inline constexpr std::array kAllDuring = {During::Init,   During::Calls, During::Split,
                                          During::Shrink, During::Grow,  During::Destroy};
const char* nameOf(During during);

inline constexpr int kMostRanks = 8;
inline constexpr int kMostNew = 2;
/// Of most communicators.  What comes near to it has hung.
inline constexpr int kDeadlineMs = 20'000;

struct Plan {
  uint64_t seed = 0;
  During during = During::Calls;
  bool tcp = false;
  int nRanks = 2, nNew = 0;
  int victim = 0;
  bool hosts = false;  // the victim made the unique id, so that the ranks meet at it
  int round = 0;       // of the victim's calls, in which it is armed
  Fate fate;
};
/// during: instead of what the seed says.
Plan planOf(uint64_t seed, int mostRanks, std::optional<During> during);
/// A rank that dies before anyone can know of it is missed at the deadline only, which is short where that may be.
inline int deadlineMs(const Plan& plan) { return plan.during == During::Init ? 4'000 : kDeadlineMs; }
std::string describe(const Plan& plan);

/// What a rank has made of it; in memory that all processes share.
struct Account {
  std::atomic<int64_t> returnedUs{0};  // when it got its error; 0: it got none
  std::atomic<int64_t> wentOnUs{0};    // when the survivors had made a sum without the dead; 0: they did not
  std::array<char, 512> complaint{};   // "" or what is wrong
  std::array<char, 512> error{};
};
struct Scene {
  std::atomic<int> ready{0};  // 1: the ids are there; -1: they are not to be had
  tuttiUniqueId first{}, second{};
  std::atomic<int64_t> diedUs{0};
  std::atomic<int> sent{0};  // messages of the victim's
  std::array<Account, kMostRanks + kMostNew> accounts;
};

/// In a process of its own: makes the ids where no rank does, and serves until it is killed.
[[noreturn]] void serveIds(Scene& scene);
/// The life of a rank; of new ranks of a grow behind those of the communicator.
void live(const Plan& plan, int rank, Scene& scene);

}  // namespace tutti::test
