// A call that is like one made before takes a fast path.  It must be as careful as the long one.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/support/ranks.hpp"

using namespace tutti::test;

namespace {

std::string refused(tuttiResult_t got, tuttiResult_t wanted, tuttiComm_t comm, const std::string& words) {
  const std::string text = tuttiGetLastError(comm);
  if (got == wanted && text.find(words) != std::string::npos) return "";
  return "gave " + std::to_string(got) + " '" + text + "', not " + std::to_string(wanted) + " '" + words + "'";
}

tuttiResult_t sum(const float* in, float* out, size_t count, const Rank& r) {
  return tuttiAllReduce(in, out, count, tuttiFloat32, tuttiSum, r.comm, nullptr);
}

}  // namespace

TEST_CASE("a call made again has its pointers checked again") {
  CHECK(onRanks(2, [](const Rank& r) {
          float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[4] = {};
          for (int i = 0; i < 3; ++i) {
            RANK_TRY(sum(x, y, 4, r));
            RANK_TRY(tuttiBroadcast(r.rank == 1 ? x : nullptr, y, 4, tuttiFloat32, 1, r.comm, nullptr));
            std::string why = refused(sum(nullptr, y, 4, r), tuttiInvalidArgument, r.comm, "sendbuff is NULL");
            if (why.empty()) why = refused(sum(x, nullptr, 4, r), tuttiInvalidArgument, r.comm, "recvbuff is NULL");
            if (why.empty()) why = refused(sum(x, x + 1, 4, r), tuttiInvalidArgument, r.comm, "overlap");
            if (why.empty()) {
              why = refused(tuttiBroadcast(x, nullptr, 4, tuttiFloat32, 1, r.comm, nullptr), tuttiInvalidArgument,
                            r.comm, "recvbuff is NULL");
            }
            if (!why.empty()) return why;
          }
          RANK_TRY(sum(x, y, 4, r));
          RANK_CHECK(y[3] == 8);
          return std::string();
        }) == "");
}

TEST_CASE("calls alternate between counts, operators, roots, places and buffers") {
  CHECK(onRanks(3, [](const Rank& r) {
          for (int round = 0; round < 4; ++round) {
            for (const size_t count : {1, 2, 3, 65, 1000}) {
              const auto own = static_cast<float>(r.rank + 1);
              std::vector<float> x(count, own), y(count), all(3 * count);
              RANK_TRY(sum(x.data(), y.data(), count, r));
              RANK_CHECK(y[count - 1] == 6 && x[0] == own);
              RANK_TRY(sum(y.data(), y.data(), count, r));
              RANK_CHECK(y[0] == 18 && y[count - 1] == 18);
              RANK_TRY(tuttiAllReduce(x.data(), y.data(), count, tuttiFloat32, tuttiAvg, r.comm, nullptr));
              RANK_CHECK(y[0] == 2 && y[count - 1] == 2);
              RANK_TRY(tuttiAllReduce(x.data(), y.data(), count, tuttiFloat32, tuttiMax, r.comm, nullptr));
              RANK_CHECK(y[0] == 3 && y[count - 1] == 3);
              for (int root = 0; root < 3; ++root) {
                y.assign(count, own);
                RANK_TRY(tuttiBroadcast(y.data(), y.data(), count, tuttiFloat32, root, r.comm, nullptr));
                RANK_CHECK(y[0] == static_cast<float>(root + 1) && y[count - 1] == y[0]);
              }
              RANK_TRY(tuttiAllGather(x.data(), all.data(), count, tuttiFloat32, r.comm, nullptr));
              RANK_CHECK(all[0] == 1 && all[count] == 2 && all[3 * count - 1] == 3);
              RANK_TRY(tuttiBarrier(r.comm, nullptr));
            }
          }
          return std::string();
        }) == "");
}

TEST_CASE("a group collects a call that is known") {
  CHECK(onRanks(2, [](const Rank& r) {
          float x = 1, y = 0;
          for (int i = 0; i < 2; ++i) RANK_TRY(sum(&x, &y, 1, r));
          y = 0;
          RANK_TRY(tuttiGroupStart());
          RANK_TRY(sum(&x, &y, 1, r));
          const bool early = y != 0;
          RANK_TRY(tuttiGroupEnd());
          RANK_CHECK(!early && y == 2);
          return std::string();
        }) == "");
}

TEST_CASE("two threads of a rank make the same call at once") {
  CHECK(onRanks(2, [](const Rank& r) {
          std::string complaints[2];
          const auto calls = [&](std::string* complaint) {
            float x = 1;
            for (int i = 0; i < 300 && complaint->empty(); ++i) {
              float y = 0;
              *complaint = failed(sum(&x, &y, 1, r), "AllReduce");
              if (complaint->empty() && y != 2) *complaint = "sum is " + std::to_string(y);
            }
          };
          std::thread other(calls, &complaints[1]);
          calls(&complaints[0]);
          other.join();
          return complaints[0] + complaints[1];
        }) == "");
}

TEST_CASE("rows of short rooted calls, which one rank may be ahead of, have every value") {
  CHECK(onRanks(2, [](const Rank& r) {
          for (const size_t count : {1, 2, 3, 500, 1023, 1024, 3000}) {
            for (const bool inPlace : {false, true}) {
              std::vector<int> x(count), y(count);
              for (int call = 0; call < 200; ++call) {
                const int root = call / 100;
                const auto value = [&](int rank, size_t i) { return rank * 100'000 + call * 10 + static_cast<int>(i); };
                if (call % 40 == 39 && r.rank != root) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                for (size_t i = 0; i < count; ++i) x[i] = y[i] = value(r.rank, i);
                const int* const in = inPlace ? y.data() : x.data();
                RANK_TRY(tuttiBroadcast(in, y.data(), count, tuttiInt32, root, r.comm, nullptr));
                for (size_t i = 0; i < count; ++i) RANK_CHECK(y[i] == value(root, i));
                for (size_t i = 0; i < count; ++i) y[i] = value(r.rank, i);
                RANK_TRY(tuttiReduce(in, y.data(), count, tuttiInt32, tuttiSum, root, r.comm, nullptr));
                for (size_t i = 0; r.rank == root && i < count; ++i) RANK_CHECK(y[i] == value(0, i) + value(1, i));
              }
            }
          }
          return std::string();
        }) == "");
}

TEST_CASE("a short rooted call made again that differs between ranks is found") {
  CHECK(onRanks(2, [](const Rank& r) {
          int x[4] = {1, 2, 3, 4}, y[4] = {};
          for (int i = 0; i < 50; ++i) {
            RANK_TRY(tuttiBroadcast(x, y, 4, tuttiInt32, 0, r.comm, nullptr));
            RANK_TRY(tuttiBroadcast(x, y, 3, tuttiInt32, 0, r.comm, nullptr));
          }
          const size_t count = r.rank == 0 ? 3 : 4;
          const tuttiResult_t result = tuttiBroadcast(x, y, count, tuttiInt32, 0, r.comm, nullptr);
          if (r.rank == 0) {  // may be ahead
            if (result == tuttiSuccess) (void)tuttiBarrier(r.comm, nullptr);
            return std::string("told");
          }
          return refused(result, tuttiInvalidUsage, r.comm, "rank 0") + "refused";
        }) == "rank 0: told\nrank 1: refused\n");
}

TEST_CASE("a known call ends when a peer aborts, and is refused afterwards") {
  std::atomic<int> summed = 0;
  CHECK(onRanks(2, [&](const Rank& r) {
          float x = 1, y = 0;
          for (int i = 0; i < 3; ++i) RANK_TRY(sum(&x, &y, 1, r));
          // An abort may also end a peer's call of which this rank has got its part already.
          for (++summed; summed < 2;) std::this_thread::yield();
          if (r.rank == 1) return failed(tuttiCommAbort(r.comm), "abort") + "aborted";
          std::string why = refused(sum(&x, &y, 1, r), tuttiRemoteError, r.comm, "rank 1 has aborted");
          if (why.empty()) why = refused(sum(&x, &y, 1, r), tuttiRemoteError, r.comm, "rank 1 has aborted");
          return why + "refused";
        }) == "rank 0: refused\nrank 1: aborted\n");
}

TEST_CASE("a known call on a communicator that is gone is refused") {
  tuttiUniqueId id;
  REQUIRE(tuttiGetUniqueId(&id) == tuttiSuccess);
  tuttiComm_t comm = nullptr;
  REQUIRE(tuttiCommInitRank(&comm, 1, id, 0) == tuttiSuccess);
  float x = 1, y = 0;
  for (int i = 0; i < 2; ++i) CHECK(sum(&x, &y, 1, {0, 1, comm}) == tuttiSuccess);
  CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  CHECK(sum(&x, &y, 1, {0, 1, comm}) == tuttiInvalidArgument);
  CHECK(std::string(tuttiGetLastError(nullptr)).find("destroyed") != std::string::npos);
}

TEST_CASE("sends and receives made again are checked again, and differing ones are found") {
  CHECK(onRanks(3, [](const Rank& r) {
          const int next = (r.rank + 1) % 3, previous = (r.rank + 2) % 3;
          for (int i = 0; i < 4; ++i) {
            for (const size_t count : {1, 24, 3000, 100'000}) {
              std::vector<int> x(count, r.rank + i), y(count, -1);
              const auto send = [&] { return tuttiSend(x.data(), count, tuttiInt32, next, r.comm, nullptr); };
              const auto receive = [&] { return tuttiRecv(y.data(), count, tuttiInt32, previous, r.comm, nullptr); };
              if (r.rank == 0) RANK_TRY(send());
              RANK_TRY(receive());
              if (r.rank != 0) RANK_TRY(send());
              RANK_CHECK(y[0] == previous + i && y[count - 1] == previous + i);
              std::string why = refused(tuttiSend(nullptr, count, tuttiInt32, next, r.comm, nullptr),
                                        tuttiInvalidArgument, r.comm, "sendbuff is NULL");
              if (why.empty()) {
                why = refused(tuttiRecv(nullptr, count, tuttiInt32, previous, r.comm, nullptr), tuttiInvalidArgument,
                              r.comm, "recvbuff is NULL");
              }
              if (!why.empty()) return why;
            }
          }
          return std::string();
        }) == "");
  const std::string both = onRanks(2, [](const Rank& r) {
    int x = 1;
    for (int i = 0; i < 3; ++i) {
      RANK_TRY(r.rank == 0 ? tuttiSend(&x, 1, tuttiInt32, 1, r.comm, nullptr)
                           : tuttiRecv(&x, 1, tuttiInt32, 0, r.comm, nullptr));
    }
    float two[2] = {};
    const tuttiResult_t result = r.rank == 0 ? tuttiSend(&x, 1, tuttiInt32, 1, r.comm, nullptr)
                                             : tuttiRecv(two, 2, tuttiFloat32, 0, r.comm, nullptr);
    if (result == tuttiSuccess) (void)tuttiBarrier(r.comm, nullptr);
    if (r.rank == 1 && result != tuttiSuccess) return std::string(tuttiGetLastError(r.comm));
    return std::string("it was not found");
  });
  CAPTURE(both);
  CHECK(both.find("rank 1: tuttiRecv: ") != std::string::npos);
  CHECK(both.find("rank 0") != std::string::npos);
  CHECK(both.find("rank 1: it was not found") == std::string::npos);
}

TEST_CASE("a group of more kinds of calls than are remembered has all of them") {
  CHECK(onRanks(2, [](const Rank& r) {
          constexpr size_t kKinds = 300;
          std::vector<float> x(kKinds, static_cast<float>(r.rank + 1));
          std::vector<std::vector<float>> y(kKinds);
          RANK_TRY(tuttiGroupStart());
          for (size_t i = 0; i < kKinds; ++i) {
            y[i].resize(i + 1);
            RANK_TRY(sum(x.data(), y[i].data(), i + 1, r));
          }
          RANK_TRY(tuttiGroupEnd());
          for (size_t i = 0; i < kKinds; ++i) RANK_CHECK(y[i][0] == 3 && y[i][i] == 3);
          return std::string();
        }) == "");
}

namespace {

/// A group in which every rank sends to every rank, itself too, `each` messages one behind the other; some are empty.
std::string exchangeAll(const Rank& r, int nRanks, int each, int round) {
  const auto count = [&](int from, int to, int i) {
    const size_t kinds[] = {1, 0, 24, 2000, 70'000};
    return kinds[(from + 2 * to + i + round / 3) % 5];
  };
  const auto value = [&](int from, int to, int i) { return 1000 * from + 100 * to + 10 * i + round; };
  std::vector<std::vector<int>> sent, received;
  for (int i = 0; i < each; ++i) {
    for (int peer = 0; peer < nRanks; ++peer) {
      sent.emplace_back(count(r.rank, peer, i), value(r.rank, peer, i));
      received.emplace_back(count(peer, r.rank, i), -1);
    }
  }
  RANK_TRY(tuttiGroupStart());
  for (int i = 0; i < each; ++i) {
    for (int peer = 0; peer < nRanks; ++peer) {
      const std::vector<int>& x = sent[static_cast<size_t>(i * nRanks + peer)];
      std::vector<int>& y = received[static_cast<size_t>(i * nRanks + peer)];
      RANK_TRY(tuttiSend(x.data(), x.size(), tuttiInt32, peer, r.comm, nullptr));
      RANK_TRY(tuttiRecv(y.data(), y.size(), tuttiInt32, peer, r.comm, nullptr));
    }
  }
  RANK_TRY(tuttiGroupEnd());
  for (int i = 0; i < each; ++i) {
    for (int peer = 0; peer < nRanks; ++peer) {
      for (const int y : received[static_cast<size_t>(i * nRanks + peer)]) RANK_CHECK(y == value(peer, r.rank, i));
    }
  }
  return "";
}

}  // namespace

TEST_CASE("groups of sends and receives made again bring every value to its place") {
  for (const int nRanks : {1, 2, 3, 5}) {
    CHECK(onRanks(nRanks, [&](const Rank& r) {
            for (int round = 0; round < 18; ++round) {
              // Twelve of five ranks' are more than the fast path takes.
              const std::string why = exchangeAll(r, nRanks, round % 6 == 5 ? 12 : 1 + round % 2, round);
              if (!why.empty()) return why;
            }
            return std::string();
          }) == "");
  }
}

TEST_CASE("a group of sends and receives made again is checked again, and one that differs is found") {
  const std::string both = onRanks(2, [](const Rank& r) {
    std::vector<float> x(4, 1), y(4, 0);
    const auto exchange = [&](const float* from, size_t count) {
      (void)tuttiGroupStart();
      const tuttiResult_t sent = tuttiSend(from, count, tuttiFloat32, 1 - r.rank, r.comm, nullptr);
      const tuttiResult_t received = tuttiRecv(y.data(), 4, tuttiFloat32, 1 - r.rank, r.comm, nullptr);
      const tuttiResult_t ended = tuttiGroupEnd();
      return sent != tuttiSuccess ? sent : received != tuttiSuccess ? received : ended;
    };
    for (int i = 0; i < 3; ++i) RANK_TRY(exchange(x.data(), 4));
    const std::string why = refused(exchange(nullptr, 4), tuttiInvalidArgument, nullptr, "sendbuff is NULL");
    if (!why.empty()) return why;
    RANK_TRY(exchange(x.data(), 4));
    const tuttiResult_t last = exchange(x.data(), r.rank == 0 ? 3 : 4);
    const std::string said = tuttiGetLastError(nullptr), kept = tuttiGetLastError(r.comm);
    if (last == tuttiSuccess) (void)tuttiBarrier(r.comm, nullptr);
    if (r.rank == 1 && (last == tuttiSuccess || kept.empty())) return std::string("it was not found");
    return r.rank == 1 ? said : std::string();
  });
  CAPTURE(both);
  CHECK(both.find("rank 1: tuttiGroupEnd: ") != std::string::npos);
  CHECK(both.find("rank 0") != std::string::npos);
}
