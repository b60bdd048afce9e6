// The one timing loop.  A process of this program is one rank of one library; the driver tells it over the control
// channel which cell to prepare and how many calls to time, and gets this rank's times back.
//
//   driver: cell OP TYPE BYTES MEMORY apart|in-place    rank: ok BYTES_OF_BUFFERS | unsupported | wrong TEXT
//   driver: time CALLS BLOCKS reused|fresh    rank: times US:RUN:WAIT:WALL:BEFORE:AFTER... | wrong TEXT
//           per block: microseconds per call; of the whole block, microseconds on a cpu, runnable without one, in all;
//           by rank 0, those of a cache line one way between the cores of ranks 0 and 1 (0: not known)
//   driver: drop                              rank: ok                  the cell's buffers are given back
//   driver: quit
//   in-place: the result takes the input's place; of an allreduce whose data are fresh
//   MEMORY: plain (fresh pages), malloc, adopted (plain pages, registered) or own (the library's)
//   rank, on its own: hello RANK SIZE LIBRARY, gather HEX (answered by: gathered HEX...), error TEXT (and it ends)
//
// Reused data: calls are back to back, no barrier between the calls of a block, one before each block.  Fresh data:
// before each call every rank writes all that it sends, and the ranks meet; the clock runs in the calls only.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <sstream>
#include <utility>

#include "perf/common/placement.hpp"
#include "perf/compare/adapter.hpp"
#include "perf/compare/cell.hpp"
#include "perf/compare/control.hpp"
#include "perf/compare/meeting.hpp"
#include "perf/compare/shared_page.hpp"

namespace tutti::compare {
namespace {

constexpr struct {
  const char* name;
  Op op;
} kOps[] = {{"allreduce", Op::AllReduce}, {"allgather", Op::AllGather}, {"reducescatter", Op::ReduceScatter},
            {"alltoall", Op::AllToAll},   {"broadcast", Op::Broadcast}, {"reduce", Op::Reduce},
            {"barrier", Op::Barrier},     {"pingpong", Op::PingPong}};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The rank as this process's starter calls it; MPI's own is known only after MPI_Init, too late for pinning.
int startedRank() {
  for (const char* name : {"COMPARE_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (!variable(name).empty()) return std::atoi(variable(name).c_str());
  }
  return 0;
}

// COMPARE_CPUS is a list: rank r runs on entry r modulo its length.  Empty: the scheduler decides.
void pin() {
  std::vector<int> cpus;
  std::stringstream list(variable("COMPARE_CPUS"));
  for (std::string cpu; std::getline(list, cpu, ',');) cpus.push_back(std::atoi(cpu.c_str()));
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[static_cast<size_t>(startedRank()) % cpus.size()], &set);
  require(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity failed");
}

class ControlledWorld final : public World {
 public:
  explicit ControlledWorld(Control& control) : control_(control) {}
  int rank() const override { return startedRank(); }
  int size() const override { return std::atoi(variable("COMPARE_SIZE").c_str()); }
  std::vector<std::string> gather(const std::string& mine) override {
    // The driver does not know yet which connection is which rank: the first text is the rank's number.
    if (!introduced_) exchange(std::to_string(rank()));
    introduced_ = true;
    return exchange(mine);
  }

 private:
  std::vector<std::string> exchange(const std::string& mine) {
    control_.writeLine("gather " + toHex(mine) + ".");  // the dot keeps an empty text visible
    std::istringstream answer(control_.readLine());
    std::string word;
    answer >> word;
    require(word == "gathered", "the driver did not answer a gather");
    std::vector<std::string> all;
    while (answer >> word) all.push_back(fromHex(std::string_view(word).substr(0, word.size() - 1)));
    return all;
  }

  Control& control_;
  bool introduced_ = false;
};

using Clock = std::chrono::steady_clock;
double usSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// What the scheduler has given this thread so far; all zero where the kernel does not tell.
struct CpuTime {
  double runUs = 0, waitUs = 0;
};

CpuTime cpuTime() {
  static const int fd = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
  char text[96] = {};
  long long run = 0, wait = 0;
  if (fd < 0 || pread(fd, text, sizeof text - 1, 0) <= 0 || std::sscanf(text, "%lld %lld", &run, &wait) != 2) return {};
  return {.runUs = static_cast<double>(run) / 1e3, .waitUs = static_cast<double>(wait) / 1e3};
}

void* freshPages(size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(pages != MAP_FAILED, "no memory for a buffer");
  return pages;
}

/// One buffer of the cell; kept while it is large enough.
class Buffer {
 public:
  /// kind: as MEMORY above.  Null: the library has no such memory.
  void* reserve(Adapter& adapter, size_t bytes, const std::string& kind) {
    if (bytes == 0) bytes = 1;
    if (bytes <= bytes_ && kind == kind_) return memory_;
    release(adapter);
    kind_ = kind;
    bytes_ = bytes;
    if (kind == "own") {
      memory_ = adapter.allocate(bytes);
    } else if (kind == "malloc") {
      memory_ = std::malloc(bytes);
    } else {
      require(kind == "plain" || kind == "adopted", "unknown memory " + kind);
      memory_ = freshPages(bytes);
      if (kind == "adopted" && !adapter.adopt(memory_, bytes)) munmap(std::exchange(memory_, nullptr), bytes);
    }
    if (memory_ == nullptr) bytes_ = 0;
    return memory_;
  }
  void release(Adapter& adapter) {
    void* const memory = std::exchange(memory_, nullptr);
    const size_t bytes = std::exchange(bytes_, 0);
    if (memory == nullptr) return;
    if (kind_ == "own") return adapter.release(memory);
    if (kind_ == "malloc") return std::free(memory);
    if (kind_ == "adopted") adapter.giveBack(memory);
    munmap(memory, bytes);
  }

 private:
  void* memory_ = nullptr;
  size_t bytes_ = 0;
  std::string kind_;
};

class Rank {
 public:
  Rank(Control& control, Adapter& adapter) : control_(control), adapter_(adapter) {}

  void serve() {
    for (;;) {
      std::istringstream line(control_.readLine());
      std::string word;
      line >> word;
      if (word == "cell") {
        control_.writeLine(cell(line));
      } else if (word == "time") {
        control_.writeLine(time(line));
      } else if (word == "drop") {
        finish();
        send_.release(adapter_);
        recv_.release(adapter_);
        control_.writeLine("ok");
      } else {
        require(word == "quit", "unknown command " + word);
        finish();
        return;
      }
    }
  }

 private:
  std::string cell(std::istringstream& line) {
    std::string op, type, memory, place;
    size_t bytes = 0;
    require(static_cast<bool>(line >> op >> type >> bytes >> memory >> place), "cell: wrong arguments");
    finish();
    call_ = Call();
    bool known = false;
    for (const auto& o : kOps) {
      if (op == o.name) {
        call_.op = o.op;
        known = true;
      }
    }
    require(known, "unknown collective " + op);
    call_.type = type == "float" ? Type::Float : Type::Bfloat16;
    const int n = adapter_.size();
    call_.count = countOf(call_.op, call_.type, bytes, n);
    if (!adapter_.supports(call_.op, call_.type) || !buffers(memory, place)) return "unsupported";
    fill(call_, adapter_.rank(), n);
    turn_ = 0;
    adapter_.prepare(call_);
    prepared_ = true;
    adapter_.run();
    const std::string wrong = check(call_, adapter_.rank(), n);
    adapter_.barrier();  // nobody wipes or leaves while another still works on this call
    return wrong.empty() ? "ok " + std::to_string(sendBytes(call_, n) + recvBytes(call_, n)) : "wrong " + wrong;
  }

  // false if the library has no such memory.
  bool buffers(const std::string& memory, const std::string& place) {
    const int n = adapter_.size();
    const bool inPlace = place == "in-place";
    require(inPlace ? call_.op == Op::AllReduce : place == "apart", "cell: unknown place " + place);
    void* const send = send_.reserve(adapter_, sendBytes(call_, n), memory);
    call_.send = send;
    call_.recv = inPlace ? send : recv_.reserve(adapter_, recvBytes(call_, n), memory);
    return call_.send != nullptr && call_.recv != nullptr;
  }

  double timeReused(long calls) {
    const Clock::time_point start = Clock::now();
    for (long i = 0; i < calls; ++i) adapter_.run();
    return usSince(start);
  }

  double timeFresh(long calls) {
    double us = 0;
    for (long i = 0; i < calls; ++i) {
      refill(call_, adapter_.rank(), adapter_.size(), ++turn_);
      meeting_.wait();
      const Clock::time_point start = Clock::now();
      adapter_.run();
      us += usSince(start);
    }
    return us;
  }

  std::string time(std::istringstream& line) {
    long calls = 0, blocks = 0;
    std::string data;
    require(static_cast<bool>(line >> calls >> blocks >> data) && calls > 0 && blocks > 0, "time: wrong arguments");
    require(prepared_, "time: no cell");
    const bool fresh = data == "fresh";
    require(fresh || data == "reused", "time: unknown data " + data);
    wipe(call_, adapter_.rank(), adapter_.size());
    std::string answer = "times";
    double near = looks_ ? placement_.look(adapter_.rank()) : 0;
    for (long b = 0; b < blocks; ++b) {
      adapter_.barrier();
      const CpuTime before = cpuTime();
      const Clock::time_point start = Clock::now();
      const double spent = fresh ? timeFresh(calls) : timeReused(calls);
      const double wall = usSince(start);
      const CpuTime after = cpuTime();
      // A ping-pong's time is one way.
      const double us = spent / static_cast<double>(calls) / (call_.op == Op::PingPong ? 2 : 1);
      const double nearBefore = std::exchange(near, looks_ ? placement_.look(adapter_.rank()) : 0);
      char text[160];
      std::snprintf(text, sizeof text, " %.4f:%.0f:%.0f:%.0f:%.4f:%.4f", us, after.runUs - before.runUs,
                    after.waitUs - before.waitUs, wall, nearBefore, near);
      answer += text;
    }
    const std::string wrong = check(call_, adapter_.rank(), adapter_.size(), turn_);
    adapter_.barrier();
    return wrong.empty() ? answer : "wrong " + wrong;
  }

  void finish() {
    if (prepared_) adapter_.finish();
    prepared_ = false;
  }

  Control& control_;
  Adapter& adapter_;
  Call call_;
  bool prepared_ = false;
  unsigned turn_ = 0;  // whose data the send buffer has
  SharedPage page_{variable("COMPARE_FOLDER") + "/page"};
  Meeting meeting_{&page_->meeting, adapter_.size(), variable("COMPARE_YIELD") == "1"};
  perf::Placement placement_{&page_->placement};
  const bool looks_ = variable("COMPARE_LOOK") == "1" && adapter_.rank() < 2;
  Buffer send_, recv_;
};

}  // namespace
}  // namespace tutti::compare

int main() {
  using namespace tutti::compare;
  try {
    pin();
    Control control(variable("COMPARE_CONTROL"));
    try {
      ControlledWorld world(control);
      const std::unique_ptr<Adapter> adapter = makeAdapter(world);
      control.writeLine("hello " + std::to_string(adapter->rank()) + " " + std::to_string(adapter->size()) + " " +
                        adapter->library());
      Rank(control, *adapter).serve();
    } catch (const std::exception& e) {
      control.writeLine(std::string("error ") + e.what());
      std::fprintf(stderr, "%s\n", e.what());
      _exit(1);  // the library's threads and peers may be in any state: no clean end to be had
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
  return 0;
}
