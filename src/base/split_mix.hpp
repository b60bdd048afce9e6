// SplitMix64: numbers that look random and follow from a seed (Steele, Lea, Flood: Fast Splittable Pseudorandom Number
// Generators, OOPSLA 2014).  Good for hashes and repeatable tests, not for secrets.
#pragma once

#include <cstdint>

namespace tutti {

constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15;

/// The number that a generator in this state gives next.
constexpr uint64_t splitMix(uint64_t state) {
  uint64_t z = state + kSplitMixStep;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

/// The same, and the generator goes on.
constexpr uint64_t nextSplitMix(uint64_t* state) {
  const uint64_t number = splitMix(*state);
  *state += kSplitMixStep;
  return number;
}

}  // namespace tutti
