// Parameter server: the bits of data parallelism, bounded staleness, backup workers, rows.
#include <catch2/catch.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>
#include <new>
#include <thread>

#include "tests/support/processes.hpp"
#include "tests/unit/parallel/support.hpp"
#include "tutti/parallel/ps.h"

using namespace tutti::test;

namespace {

/// Two dense parameters and a table of 7 rows; sizes that servers do not divide evenly.
struct ServedModel {
  std::vector<float> a = std::vector<float>(5 * 3, 0.5f), b = std::vector<float>(7, -1), table;
  std::vector<tuttiParameter_t> list;
  explicit ServedModel(bool sparse, float first = 1) : table(numbers<float>(7 * 4, 99)) {
    for (float& x : table) x *= first;
    list = {{"a", matrix(a, 5, 3), 0},
            {"table", matrix(table, 7, 4), sparse ? TUTTI_PARAMETER_SPARSE : 0},
            {"b", vector(b), TUTTI_PARAMETER_NO_DECAY}};
  }
  std::vector<float> all() const {
    std::vector<float> v = a;
    v.insert(v.end(), table.begin(), table.end());
    v.insert(v.end(), b.begin(), b.end());
    return v;
  }
};

/// Rows of the table that a worker's step touches.
std::vector<int64_t> rowsAt(int worker, int step) {
  if (worker == 2) return {};
  return {(worker + step) % 5, (worker + step) % 5 + 2};
}

/// A worker's gradients of a step; rows that it does not touch have none.
struct WorkerGradients {
  std::vector<float> a, b, table;
  std::vector<tuttiTensor_t> list;
  WorkerGradients(int worker, int step)
      : a(numbers<float>(15, static_cast<uint64_t>(worker * 100 + step + 1))),
        b(numbers<float>(7, static_cast<uint64_t>(worker * 100 + step + 50))),
        table(28) {
    const std::vector<float> some = numbers<float>(28, static_cast<uint64_t>(worker * 100 + step + 70));
    for (const int64_t row : rowsAt(worker, step)) {
      std::copy_n(some.begin() + row * 4, 4, table.begin() + row * 4);
    }
    list = {matrix(a, 5, 3), matrix(table, 7, 4), vector(b)};
  }
  std::vector<float> rows(const std::vector<int64_t>& which) const {
    std::vector<float> part;
    for (const int64_t row : which) part.insert(part.end(), table.begin() + row * 4, table.begin() + row * 4 + 4);
    return part;
  }
};

tuttiOptimizer_t optimizer(int kind) {
  tuttiOptimizer_t o = TUTTI_OPTIMIZER_INITIALIZER;
  o.kind = kind;
  o.learningRate = 0.05;
  o.weightDecay = 0;
  return o;
}

/// Values after some steps of layout-invariant data parallelism, a micro-batch per rank and step.
std::vector<float> byDdp(int workers, int steps, const tuttiOptimizer_t& o) {
  std::vector<float> values;
  const std::string why = onRanks(workers, [&](const Rank& r) -> std::string {
    ServedModel model(false);
    tuttiDdpConfig_t c = TUTTI_DDP_CONFIG_INITIALIZER;
    c.numerics = tuttiNumericsLayoutInvariant;
    tuttiDdp_t ddp = nullptr;
    LAYER_TRY(tuttiDdpCreate(&ddp, r.comm, model.list.data(), 3, &c));
    std::vector<std::vector<float>> states;
    states.assign(6, std::vector<float>(28));
    for (int s = 0; s < steps; ++s) {
      const WorkerGradients g(r.rank, s);
      LAYER_TRY(tuttiDdpBegin(ddp));
      for (size_t p = 0; p < 3; ++p) {
        tuttiTensor_t view;
        LAYER_TRY(tuttiDdpGradient(ddp, p, &view));
        const size_t n = p == 0 ? 15 : p == 1 ? 28 : 7;
        std::memcpy(view.data, g.list[p].data, n * sizeof(float));
        LAYER_TRY(tuttiDdpGradReady(ddp, p));
      }
      LAYER_TRY(tuttiDdpFinish(ddp));
      for (size_t p = 0; p < 3; ++p) {
        tuttiTensor_t view, m = model.list[p].value, v = m;
        LAYER_TRY(tuttiDdpGradient(ddp, p, &view));
        m.data = states[2 * p].data();
        v.data = states[2 * p + 1].data();
        LAYER_TRY(tuttiOptimizerUpdate(&o, s + 1, 1, model.list[p].flags, &model.list[p].value, &view, &m, &v));
      }
    }
    if (r.rank == 0) values = model.all();
    LAYER_TRY(tuttiDdpDestroy(ddp));
    return "";
  });
  CHECK(why == "");
  return values;
}

/// A worker's step, dense or with rows.
std::string step(tuttiPs_t ps, int worker, int s, bool sparse) {
  const WorkerGradients g(worker, s);
  LAYER_TRY(tuttiPsPull(ps));
  if (sparse) {
    const std::vector<int64_t> rows = rowsAt(worker, s);
    const int64_t n = static_cast<int64_t>(rows.size());
    LAYER_TRY(tuttiPsPullRows(ps, 1, rows.data(), n));
    const std::vector<float> part = g.rows(rows);
    LAYER_TRY(tuttiPsPushRows(ps, 1, rows.data(), n, part.data()));
  }
  LAYER_TRY(tuttiPsPush(ps, g.list.data()));
  return "";
}

}  // namespace

TEST_CASE("without staleness a parameter server has data parallelism's bits, dense and by rows") {
  for (const bool sparse : {false, true}) {
    for (const int kind : {static_cast<int>(tuttiSgd), static_cast<int>(tuttiAdamW)}) {
      if (sparse && kind != tuttiSgd) continue;  // states of rows that nobody touched stay as they are
      CAPTURE(sparse, kind);
      const tuttiOptimizer_t o = optimizer(kind);
      const std::vector<float> expected = byDdp(3, 4, o);
      CHECK(onRanks(5, [&](const Rank& r) -> std::string {
              ServedModel model(sparse, r.rank == 0 ? 1 : 7);  // rank 0's count
              tuttiPsConfig_t c = TUTTI_PS_CONFIG_INITIALIZER;
              c.servers = 2;
              c.optimizer = o;
              tuttiPs_t ps = nullptr;
              int server = 0;
              LAYER_TRY(tuttiPsCreate(&ps, r.comm, model.list.data(), 3, &c));
              LAYER_TRY(tuttiPsIsServer(ps, &server));
              RANK_CHECK(server == (r.rank >= 3));
              tuttiPsReport_t report = TUTTI_PS_REPORT_INITIALIZER;
              if (server) {
                RANK_CHECK(tuttiPsPull(ps) == tuttiInvalidUsage);
                LAYER_TRY(tuttiPsServe(ps));
                LAYER_TRY(tuttiPsReport(ps, &report));
                RANK_CHECK(report.steps == 4 && report.dropped == 0);
                LAYER_TRY(tuttiPsDestroy(ps));
                return "";
              }
              RANK_CHECK(tuttiPsPush(ps, nullptr) == tuttiInvalidArgument);
              for (int s = 0; s < 4; ++s) {
                const std::string why = step(ps, r.rank, s, sparse);
                if (!why.empty()) return why;
              }
              LAYER_TRY(tuttiPsReport(ps, &report));
              if (!sparse) {
                for (const tuttiCall_t call : {tuttiCallSend, tuttiCallRecv}) {
                  RANK_CHECK(report.expected.bytes[call] == 50 * sizeof(float));
                  RANK_CHECK(report.traffic.bytes[call] == 4 * report.expected.bytes[call]);
                }
              }
              LAYER_TRY(tuttiPsPull(ps));
              const std::vector<int64_t> rows = {0, 1, 2, 3, 4, 5, 6}, back = {3, 2};
              if (sparse) LAYER_TRY(tuttiPsPullRows(ps, 1, rows.data(), 7));
              RANK_CHECK(tuttiPsPullRows(ps, 1, back.data(), 2) == tuttiInvalidArgument);
              RANK_CHECK(model.all() == expected);
              LAYER_TRY(tuttiPsDestroy(ps));
              return "";
            }) == "");
    }
  }
}

TEST_CASE("stale gradients all count, and nobody runs further ahead than the bound") {
  for (const int staleness : {1, TUTTI_PS_ASYNCHRONOUS}) {
    CAPTURE(staleness);
    // Worker w makes 3 + w steps: plain sums, whatever their order.
    std::vector<double> expected(15, 0.5);
    std::atomic<bool> pushed{false};
    for (int w = 0; w < 2; ++w) {
      for (int s = 0; s < 3 + w; ++s) {
        const WorkerGradients g(w, s);
        for (size_t i = 0; i < 15; ++i) expected[i] -= 0.05 * static_cast<double>(g.a[i]) / 2;
      }
    }
    CHECK(onRanks(4, [&](const Rank& r) -> std::string {
            ServedModel model(false);
            tuttiPsConfig_t c = TUTTI_PS_CONFIG_INITIALIZER;
            c.servers = 2;
            c.staleness = staleness;
            c.optimizer = optimizer(tuttiSgd);
            tuttiPs_t ps = nullptr;
            LAYER_TRY(tuttiPsCreate(&ps, r.comm, model.list.data(), 3, &c));
            if (r.rank >= 2) {
              LAYER_TRY(tuttiPsServe(ps));
              tuttiPsReport_t report = TUTTI_PS_REPORT_INITIALIZER;
              LAYER_TRY(tuttiPsReport(ps, &report));
              RANK_CHECK(report.steps == 7 && (staleness < 0 || report.stalest <= staleness));
            } else {
              for (int s = 0; s < 3 + r.rank; ++s) {
                const std::string why = step(ps, r.rank, s, false);
                if (!why.empty()) {
                  pushed = true;
                  return why;
                }
              }
              if (r.rank == 0) pushed = true;  // worker 1 looks when both have pushed all
              while (r.rank == 1 && !pushed) std::this_thread::yield();
              if (r.rank == 1) {
                for (int tries = 0; tries < 100'000; ++tries) {  // what was pushed may not be applied yet
                  LAYER_TRY(tuttiPsPull(ps));
                  if (apart(model.a, expected) < 1e-6) break;
                }
                RANK_CHECK(apart(model.a, expected) < 1e-6);
              }
            }
            LAYER_TRY(tuttiPsDestroy(ps));
            return "";
          }) == "");
  }
}

TEST_CASE("with a backup worker a step does not wait for the slowest, whose gradient is dropped") {
  std::atomic<int> others{0};
  std::atomic<bool> pulled{false};  // by the slowest: values of step 0
  CHECK(onRanks(4, [&](const Rank& r) -> std::string {
          ServedModel model(false);
          tuttiPsConfig_t c = TUTTI_PS_CONFIG_INITIALIZER;
          c.backup = 1;
          c.optimizer = optimizer(tuttiSgd);
          tuttiPs_t ps = nullptr;
          LAYER_TRY(tuttiPsCreate(&ps, r.comm, model.list.data(), 3, &c));
          if (r.rank == 3) {
            LAYER_TRY(tuttiPsServe(ps));
            tuttiPsReport_t report = TUTTI_PS_REPORT_INITIALIZER;
            LAYER_TRY(tuttiPsReport(ps, &report));
            RANK_CHECK(report.steps == 3 && report.dropped == 1);
          } else if (r.rank == 2) {
            const tuttiResult_t result = tuttiPsPull(ps);
            pulled = true;
            LAYER_TRY(result);
            while (others < 2) std::this_thread::yield();
            const WorkerGradients g(2, 0);
            LAYER_TRY(tuttiPsPush(ps, g.list.data()));
          } else {
            while (!pulled) std::this_thread::yield();
            for (int s = 0; s < 3; ++s) {
              const std::string why = step(ps, r.rank, s, false);
              if (!why.empty()) {
                others = 2;
                return why;
              }
            }
            LAYER_TRY(tuttiPsPull(ps));
            ++others;
            std::vector<double> expected(15, 0.5);
            for (int s = 0; s < 3; ++s) {
              for (int w = 0; w < 2; ++w) {
                const WorkerGradients g(w, s);
                for (size_t i = 0; i < 15; ++i) expected[i] -= 0.05 * static_cast<double>(g.a[i]) / 2;
              }
            }
            RANK_CHECK(apart(model.a, expected) < 1e-6);
          }
          LAYER_TRY(tuttiPsDestroy(ps));
          return "";
        }) == "");
}

namespace {

/// In memory that ranks share.
struct Counts {
  std::atomic<int> made;   // ranks whose parameter server is made: a rank that dies before is a failure to make it
  std::atomic<int> heard;  // of the death: an abort by the first of them would be what the others hear of
};

void awaitUpTo20s(const std::atomic<int>& count, int wanted) {
  for (int ms = 0; count.load() < wanted && ms < 20'000; ++ms) ::usleep(1000);
}

/// A rank of four of which worker 1 kills itself in step 2; rank 3 serves.
std::string withDeath(int rank, const tuttiUniqueId& id, int staleness, Counts* counts) {
  tuttiComm_t comm = nullptr;
  RANK_TRY(tuttiCommInitRank(&comm, 4, id, rank));
  ServedModel model(false);
  tuttiPsConfig_t c = TUTTI_PS_CONFIG_INITIALIZER;
  c.staleness = staleness;
  c.optimizer = optimizer(tuttiSgd);
  tuttiPs_t ps = nullptr;
  LAYER_TRY(tuttiPsCreate(&ps, comm, model.list.data(), 3, &c));
  ++counts->made;
  if (rank == 3) {
    const tuttiResult_t result = tuttiPsServe(ps);
    const std::string why = tuttiParallelGetLastError();
    tuttiPsReport_t report = TUTTI_PS_REPORT_INITIALIZER;
    LAYER_TRY(tuttiPsReport(ps, &report));
    if (staleness == 0) {
      RANK_CHECK(result == tuttiRemoteError && why.find("worker 1 is lost") != std::string::npos);
    } else {  // its last push may have died with it
      RANK_CHECK(result == tuttiSuccess && report.steps >= 11 && report.steps <= 12);
    }
  } else {
    std::string why;
    for (int s = 0; s < 5 && why.empty(); ++s) {
      if (s == 2 && rank == 1) {
        awaitUpTo20s(counts->made, 4);
        ::raise(SIGKILL);
      }
      why = step(ps, rank, s, false);
    }
    if ((staleness == 0) != (why.find("worker 1 is lost") != std::string::npos)) return "not lost: " + why;
  }
  if (staleness == 0) {  // else the server goes on until the workers have gone
    ++counts->heard;
    awaitUpTo20s(counts->heard, 3);
  }
  tuttiPsDestroy(ps);
  tuttiCommAbort(comm);
  return "";
}

}  // namespace

TEST_CASE("a worker is killed: the others go on where gradients need not be of all, else they hear who it was") {
  for (const int staleness : {0, TUTTI_PS_ASYNCHRONOUS}) {
    CAPTURE(staleness);
    void* const shared = ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    auto* const counts = new (shared) Counts{};
    const std::vector<int> ends =
        onProcesses(4, [&](int rank, const UniqueIds& ids) { return withDeath(rank, ids[0], staleness, counts); });
    CHECK(unlessEnded(ends, [](int rank) { return rank == 1; }) == "");
    ::munmap(shared, sizeof(Counts));
  }
}

TEST_CASE("what makes no sense is refused") {
  CHECK(onRanks(2, [](const Rank& r) -> std::string {
          ServedModel model(false);
          tuttiPs_t ps = nullptr;
          tuttiPsConfig_t c = TUTTI_PS_CONFIG_INITIALIZER;
          c.servers = 2;
          RANK_CHECK(tuttiPsCreate(&ps, r.comm, model.list.data(), 3, &c) == tuttiInvalidArgument);
          c.servers = 1, c.backup = 1;
          RANK_CHECK(tuttiPsCreate(&ps, r.comm, model.list.data(), 3, &c) == tuttiInvalidArgument);
          c.backup = 0;
          if (r.rank == 1) model.list[2].name = "other";
          RANK_CHECK(tuttiPsCreate(&ps, r.comm, model.list.data(), 3, &c) == tuttiInvalidUsage);
          return "";
        }) == "");
}
