// The check that perf/compare makes of every library's results: it must accept what is right and see what is wrong.
#include "perf/compare/cell.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <thread>
#include <vector>

#include "perf/compare/shared_page.hpp"

using namespace tutti::compare;

namespace {

constexpr Op kOps[] = {Op::AllReduce, Op::AllGather, Op::ReduceScatter, Op::AllToAll,
                       Op::Broadcast, Op::Reduce,    Op::PingPong};

/// All ranks of one cell, and the collective done by plain loops.
struct Cell {
  Cell(Op op, int ranks, size_t bytes) : n(ranks) {
    for (int r = 0; r < n; ++r) {
      Call c = {.op = op, .type = Type::Float, .count = countOf(op, Type::Float, bytes, n)};
      send.emplace_back(sendBytes(c, n) / sizeof(float));
      recv.emplace_back(recvBytes(c, n) / sizeof(float));
      calls.push_back(c);
    }
    for (int r = 0; r < n; ++r) {
      Call& c = at(r);
      c.send = send[static_cast<size_t>(r)].data();
      c.recv = recv[static_cast<size_t>(r)].data();
      fill(c, r, n);
    }
  }
  Call& at(int r) { return calls[static_cast<size_t>(r)]; }
  float in(int r, size_t i) const { return send[static_cast<size_t>(r)][i]; }

  void renew(unsigned turn) {
    for (int r = 0; r < n; ++r) refill(at(r), r, n, turn);
  }

  void run() {
    for (int r = 0; r < n; ++r) {
      const size_t count = at(r).count, mine = static_cast<size_t>(r) * count;
      std::vector<float>& out = recv[static_cast<size_t>(r)];
      for (size_t i = 0; i < out.size(); ++i) {
        const int from = static_cast<int>(i / count);
        float sum = 0;
        for (int s = 0; s < n; ++s) sum += in(s, at(r).op == Op::ReduceScatter ? mine + i : i % send[0].size());
        switch (at(r).op) {
          case Op::AllGather: out[i] = in(from, i % count); break;
          case Op::AllToAll: out[i] = in(from, mine + i % count); break;
          case Op::Broadcast: out[i] = in(0, i); break;
          case Op::PingPong: out[i] = in(r < 2 ? 1 - r : r, i); break;
          default: out[i] = sum;
        }
      }
    }
  }

  int n;
  std::vector<Call> calls;
  std::vector<std::vector<float>> send, recv;
};

}  // namespace

TEST_CASE("compare: right results pass, and results of an earlier call do not") {
  for (const Op op : kOps) {
    for (const int n : {2, 3, 4}) {
      for (const size_t bytes : {8, 4096, 100000}) {
        Cell cell(op, n, bytes);
        cell.run();
        CAPTURE(static_cast<int>(op), n, bytes);
        for (int r = 0; r < n; ++r) CHECK(check(cell.at(r), r, n) == "");
        wipe(cell.at(op == Op::Reduce ? 0 : 1), op == Op::Reduce ? 0 : 1, n);
        CHECK(check(cell.at(op == Op::Reduce ? 0 : 1), op == Op::Reduce ? 0 : 1, n) != "");
      }
    }
  }
}

TEST_CASE("compare: new data gives new results, and the results of the call before do not pass") {
  for (const Op op : kOps) {
    for (const int n : {2, 3, 4}) {
      Cell cell(op, n, 4096);
      CAPTURE(static_cast<int>(op), n);
      for (const unsigned turn : {1u, 2u, 9u}) {
        const int r = op == Op::Reduce ? 0 : 1;
        cell.renew(turn);
        CHECK(check(cell.at(r), r, n, turn) != "");
        cell.run();
        for (int rank = 0; rank < n; ++rank) CHECK(check(cell.at(rank), rank, n, turn) == "");
      }
    }
  }
}

TEST_CASE("compare: new data is new in every element that is sent, of either type") {
  for (const Type type : {Type::Float, Type::Bfloat16}) {
    Call call = {.op = Op::AllToAll, .type = type, .count = 37};
    std::vector<uint16_t> old(sendBytes(call, 3) / 2), now = old;
    const size_t step = bytesOf(type) / 2;
    call.send = now.data();
    refill(call, 1, 3, 4);
    for (unsigned turn = 5; turn < 14; ++turn) {
      old = now;
      refill(call, 1, 3, turn);
      for (size_t i = 0; i < now.size(); i += step) CHECK(!std::equal(&now[i], &now[i] + step, &old[i]));
    }
  }
}

/// A file that ranks map, as the driver makes it.
class PageFile {
 public:
  PageFile() : fd_(mkstemp(path_)) {
    REQUIRE(fd_ >= 0);
    REQUIRE(ftruncate(fd_, SharedPage::kBytes) == 0);
  }
  ~PageFile() {
    close(fd_);
    unlink(path_);
  }
  const char* path() const { return path_; }

 private:
  char path_[28] = "/tmp/tutti-page-XXXXXX";
  int fd_;
};

/// Of those that this process may use.
void pinToFirstCore() {
  cpu_set_t mine, one;
  sched_getaffinity(0, sizeof mine, &mine);
  int core = 0;
  while (!CPU_ISSET(core, &mine)) ++core;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  sched_setaffinity(0, sizeof one, &one);
}

TEST_CASE("compare: nobody leaves a meeting before all have come") {
  constexpr int kRanks = 3, kRounds = 200;
  const PageFile file;
  std::atomic<int> come = 0, early = 0;
  std::vector<std::thread> ranks;
  for (int r = 0; r < kRanks; ++r) {
    ranks.emplace_back([&] {
      SharedPage page(file.path());
      Meeting meeting(&page->meeting, kRanks, /*yields=*/true);
      for (int round = 1; round <= kRounds; ++round) {
        ++come;
        meeting.wait();
        if (come < kRanks * round) ++early;
        meeting.wait();  // nobody comes to the next round before all have looked
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(early == 0);
  CHECK(come == kRanks * kRounds);
  CHECK_THROWS_WITH(SharedPage("/tmp/no/page"), Catch::Contains("/tmp/no/page") && Catch::Contains("No such file"));
}

TEST_CASE("compare: ranks 0 and 1 say how near their cores are, as often as both look, or that they cannot") {
  const PageFile file;
  const bool oneCore = GENERATE(false, true);  // every answer then takes a turn of the core
  constexpr int kLooks = 20;
  std::vector<double> found[2];
  std::vector<std::thread> ranks;
  for (int r = 0; r < 2; ++r) {
    ranks.emplace_back([&, r] {
      if (oneCore) pinToFirstCore();
      SharedPage page(file.path());
      tutti::perf::Placement placement(&page->placement);
      for (int look = 0; look < kLooks; ++look) found[r].push_back(placement.look(r));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  CHECK(std::ranges::all_of(found[0], [](double us) { return us >= 0 && us < 2000; }));
  CHECK(found[1] == std::vector<double>(kLooks, 0.0));
}

TEST_CASE("compare: a wrong first, middle or last element of any block is seen") {
  for (const Op op : kOps) {
    Cell cell(op, 3, 300000);
    cell.run();
    const int r = op == Op::Reduce ? 0 : 1;
    std::vector<float>& out = cell.recv[static_cast<size_t>(r)];
    const size_t count = cell.at(r).count;
    for (size_t block = 0; block < out.size() / count; ++block) {
      for (const size_t i : {size_t{0}, count / 2, count - 1}) {
        CAPTURE(static_cast<int>(op), block, i);
        float& element = out[block * count + i];
        element += 1;
        CHECK(check(cell.at(r), r, 3) != "");
        element -= 1;
      }
    }
    CHECK(check(cell.at(r), r, 3) == "");
  }
}

TEST_CASE("compare: swapped blocks and a missing contribution are seen") {
  Cell gather(Op::AllGather, 4, 65536);
  gather.run();
  std::vector<float>& out = gather.recv[0];
  const auto count = static_cast<std::ptrdiff_t>(gather.at(0).count);
  std::swap_ranges(out.begin(), out.begin() + count, out.begin() + count);
  CHECK(check(gather.at(0), 0, 4) != "");

  Cell reduce(Op::AllReduce, 4, 65536);
  reduce.run();
  for (size_t i = 0; i < reduce.recv[2].size(); ++i) reduce.recv[2][i] -= reduce.in(3, i);
  CHECK(check(reduce.at(2), 2, 4) != "");
}

TEST_CASE("compare: sizes are counted as nccl-tests counts them") {
  CHECK(countOf(Op::AllReduce, Type::Float, 1024, 4) == 256);
  CHECK(countOf(Op::AllReduce, Type::Bfloat16, 1024, 4) == 512);
  CHECK(countOf(Op::AllGather, Type::Float, 1024, 4) == 64);
  CHECK(countOf(Op::AllToAll, Type::Float, 8, 8) == 1);
  const Call c = {.op = Op::ReduceScatter, .type = Type::Float, .count = 64};
  CHECK(sendBytes(c, 4) == 1024);
  CHECK(recvBytes(c, 4) == 256);
}
