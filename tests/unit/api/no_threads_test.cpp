// Calls that need threads, where the system gives none: errors that say so, and nothing left behind.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "tests/support/no_threads.hpp"
#include "tests/support/pair.hpp"
#include "tutti/tutti.h"

using namespace tutti::test;

namespace {

constexpr const char* kWhy = "Resource temporarily unavailable (errno 11); raise `ulimit -u`";

bool says(const char* text, const std::string& purpose) {
  return std::string(text).find("cannot start a thread for " + purpose + ": " + kWhy) != std::string::npos;
}

size_t entriesIn(const char* folder) {
  size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) n += !entry.path().empty();
  return n;
}

}  // namespace

TEST_CASE("an id, a communicator and a stream need threads, and leave nothing where there are none") {
  { const Pair pair; }  // what a process keeps
  const size_t descriptors = entriesIn("/proc/self/fd"), threads = entriesIn("/proc/self/task");
  {
    const NoThreads none;
    tuttiUniqueId id;
    CHECK(tuttiGetUniqueId(&id) == tuttiSystemError);
    CHECK(says(tuttiGetLastError(nullptr), "connections between ranks"));
    tuttiComm_t comms[2] = {};
    CHECK(tuttiCommInitAll(comms, 2, nullptr) == tuttiSystemError);
    CHECK(says(tuttiGetLastError(nullptr), "connections between ranks"));
    CHECK(comms[0] == nullptr);
    tuttiStream_t stream = nullptr;
    CHECK(tuttiStreamCreate(&stream) == tuttiSystemError);
    CHECK(says(tuttiGetLastError(nullptr), "a host stream"));
    CHECK(stream == nullptr);
  }
  CHECK(entriesIn("/proc/self/fd") == descriptors);
  CHECK(entriesIn("/proc/self/task") == threads);
}

TEST_CASE("a group whose ranks cannot all have threads makes no communicator, and their parents say why") {
  const Pair pair;
  tuttiComm_t children[2] = {};
  {
    const NoThreads none;
    REQUIRE(tuttiGroupStart() == tuttiSuccess);
    for (int rank = 0; rank < 2; ++rank)
      REQUIRE(tuttiCommSplit(pair.ranks[rank], 0, rank, &children[rank], nullptr) == tuttiSuccess);
    CHECK(tuttiGroupEnd() == tuttiSystemError);
    CHECK(says(tuttiGetLastError(nullptr), "each communicator that a group makes"));
  }
  CHECK(children[0] == nullptr);
  CHECK(children[1] == nullptr);
  // Other ranks would be in the same split, and wait.
  for (tuttiComm_t comm : pair.ranks) {
    CHECK(tuttiBarrier(comm, nullptr) == tuttiRemoteError);
    const std::string why = tuttiGetLastError(comm);
    CAPTURE(why);
    CHECK(why.find("cannot take part in making a communicator from this one: cannot start a thread") !=
          std::string::npos);
  }
}

TEST_CASE("a group of one join needs no thread of its own") {
  tuttiComm_t comm = nullptr;
  tuttiUniqueId id;
  REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
  REQUIRE(tuttiGroupStart() == tuttiSuccess);
  REQUIRE(tuttiCommInitRank(&comm, 1, id, 0) == tuttiSuccess);
  REQUIRE(tuttiGroupEnd() == tuttiSuccess);
  tuttiComm_t child = nullptr;
  {
    const NoThreads none;
    REQUIRE(tuttiGroupStart() == tuttiSuccess);
    REQUIRE(tuttiCommSplit(comm, 0, 0, &child, nullptr) == tuttiSuccess);
    CHECK(tuttiGroupEnd() == tuttiSuccess);
  }
  CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
}

TEST_CASE("blocking = 0 without a thread is an error at once, of all ranks") {
  const Pair pair;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  tuttiComm_t child = nullptr;
  {
    const NoThreads none;
    CHECK(tuttiCommSplit(pair.ranks[0], 0, 0, &child, &config) == tuttiSystemError);
    CHECK(says(tuttiGetLastError(nullptr), "a host stream"));
  }
  CHECK(child == nullptr);
  CHECK(tuttiBarrier(pair.ranks[1], nullptr) == tuttiRemoteError);
  const std::string why = tuttiGetLastError(pair.ranks[1]);
  CAPTURE(why);
  CHECK(why.find("rank 0 cannot take part in making a communicator from this one") != std::string::npos);
}
