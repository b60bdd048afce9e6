#include <catch2/catch.hpp>

#include <fcntl.h>
#include <unistd.h>

#include "tools/run/cores.hpp"
#include "tools/run/output.hpp"

using namespace tutti::run;

namespace {

// What a sink wrote, by way of a pipe.
std::string written(bool tag, const std::vector<std::pair<int, std::string>>& pieces) {
  int fds[2];
  REQUIRE(pipe2(fds, O_NONBLOCK) == 0);
  Sink sink(fds[1], tag, false);
  Line lines[4];
  for (const auto& [rank, text] : pieces) lines[rank].take(text, rank, &sink);
  for (int r = 0; r < 4; ++r) lines[r].end(r, &sink);
  std::string all;
  char buffer[65536];
  do {
    sink.flush();
    const ssize_t n = read(fds[0], buffer, sizeof buffer);
    if (n > 0) all.append(buffer, static_cast<size_t>(n));
  } while (sink.wantsToWrite());
  close(fds[0]);
  close(fds[1]);
  return all;
}

}  // namespace

TEST_CASE("lines come out whole, in the order of their ends") {
  CHECK(written(true, {{0, "a"}, {1, "x\ny"}, {0, "b\n"}, {1, "z\n"}}) == "[1] x\n[0] ab\n[1] yz\n");
  CHECK(written(false, {{0, "a\n\nb"}, {2, "c\n"}}) == "a\n\nc\nb\n");
}

TEST_CASE("a line without end is cut") {
  const std::string text = written(false, {{0, std::string(200000, 'x')}});
  CHECK(std::count(text.begin(), text.end(), 'x') == 200000);
}

TEST_CASE("a list of processors is read as the kernel writes it") {
  CHECK(parseCpuList("0,4-6") == std::vector<int>{0, 4, 5, 6});
  CHECK(parseCpuList("3\n") == std::vector<int>{3});
  CHECK(parseCpuList("").empty());
  CHECK(parseCpuList("x,7").size() == 1);
}

TEST_CASE("ranks are placed on cores when there are enough") {
  const std::vector<Core> cores = {{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  using Places = std::vector<std::vector<int>>;
  CHECK(placeRanks(cores, 2, Bind::Core) == Places{{0, 4}, {1, 5}});
  CHECK(placeRanks(cores, 2, Bind::Share) == Places{{0, 4, 1, 5}, {2, 6, 3, 7}});
  CHECK(placeRanks(cores, 3, Bind::Share) == Places{{0, 4}, {1, 5}, {2, 6, 3, 7}});
  CHECK(placeRanks(cores, 4, Bind::Core).size() == 4);
  CHECK(placeRanks(cores, 5, Bind::Core).empty());
  CHECK(placeRanks(cores, 7, Bind::Share).empty());
  const Places twice = placeRanks(cores, 8, Bind::Core), sideBySide = placeRanks(cores, 8, Bind::Share);
  for (size_t r = 0; r < 8; ++r) {
    CHECK(twice[r] == cores[r % 4]);
    CHECK(sideBySide[r] == cores[r / 2]);
  }
  CHECK(placeRanks({}, 2, Bind::Core).empty());
  CHECK(placeRanks(cores, 2, Bind::None).empty());
}
