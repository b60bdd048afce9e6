#include "perf/common/bench.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>

namespace tutti::perf {
namespace {

constexpr unsigned char kPoison = 0xa5;

double nowUs() {
  using namespace std::chrono;
  return duration<double, std::micro>(steady_clock::now().time_since_epoch()).count();
}
double threadCpuUs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) / 1e3;
}

size_t inPlaceCount(const Layout& l) {
  return l.inPlaceCount > 0 ? l.inPlaceCount : std::max(l.sendCount, l.recvCount);
}

std::string processorName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  utsname machine{};
  return uname(&machine) == 0 ? machine.machine : "processor";
}

// The first processor that this thread may run on.
int firstProcessor() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &set)) return cpu;
  }
  return 0;
}

}  // namespace

Bench::Bench(World& world, const Options& options, const Collective& collective, int thread)
    : world_(world), options_(options), collective_(collective), thread_(thread) {
  const std::vector<tuttiComm_t> comms = world.join(thread);
  ranks_.resize(comms.size());
  for (size_t k = 0; k < comms.size(); ++k) {
    Rank& r = ranks_[k];
    r.comm = comms[k];
    r.worldRank = world.firstRank(thread) + static_cast<int>(k);
    check(tuttiCommUserRank(r.comm, &r.geometry.rank), r.comm, "tuttiCommUserRank");
    check(tuttiCommCount(r.comm, &r.geometry.nRanks), r.comm, "tuttiCommCount");
    if (!options.nullStream) check(tuttiStreamCreate(&r.stream), nullptr, "tuttiStreamCreate");
  }
  std::vector<int> sizes;
  for (const Rank& r : ranks_) sizes.push_back(r.geometry.nRanks);
  const std::vector<int> all = world.gather(thread, sizes);
  smallestGroup_ = *std::min_element(all.begin(), all.end());
  for (int nRanks : all) {
    const char* why = collective.refuses != nullptr ? collective.refuses(nRanks) : nullptr;
    if (why != nullptr) throw Failure(std::string(why) + " (" + std::to_string(nRanks) + " ranks)");
  }
  if (!options.allRoots && collective.rooted && options.root >= smallestGroup_) {
    throw Failure("--root " + std::to_string(options.root) + " is not below " + std::to_string(smallestGroup_));
  }
  allocate();
}

Bench::~Bench() {
  for (Rank& r : ranks_) {
    if (r.stream != nullptr) (void)tuttiStreamDestroy(r.stream);
  }
}

size_t Bench::largestBytes(const Rank& r, bool send) const {
  size_t most = 0;
  Geometry g = r.geometry;
  g.bytes = sweepSizes(options_).back();
  for (const TypeInfo& type : options_.types) {
    g.elementBytes = type.bytes;
    for (int root = 0; root < smallestGroup_; ++root) {
      if (root != options_.root && !(options_.allRoots && (root == g.rank || root == 0))) continue;
      for (bool inPlace : {false, true}) {
        g.root = root;
        g.inPlace = inPlace;
        const Layout l = collective_.layout(g);
        most = std::max(most, type.bytes * (send ? l.sendCount : inPlace ? inPlaceCount(l) : l.recvCount));
      }
      if (!collective_.rooted) break;
    }
  }
  return most;
}

void Bench::allocate() {
  for (Rank& r : ranks_) {
    const tuttiComm_t comm = options_.registration > 0 || options_.adopt ? r.comm : nullptr;
    r.send = Buffer(largestBytes(r, true), options_.misalignBytes, comm, options_.adopt);
    r.recv = Buffer(largestBytes(r, false), options_.misalignBytes, comm, options_.adopt);
  }
}

std::vector<RankLine> Bench::describeRanks() {
  struct Line {
    int group, pid, device;
    char host[64], processor[96];
  };
  std::vector<Line> mine;
  for (const Rank& r : ranks_) {
    Line line{world_.groupOf(r.worldRank), getpid(), firstProcessor(), {}, {}};
    gethostname(line.host, sizeof line.host - 1);
    std::strncpy(line.processor, processorName().c_str(), sizeof line.processor - 1);
    mine.push_back(line);
  }
  std::vector<RankLine> lines;
  for (const Line& l : world_.gather(thread_, mine)) {
    lines.push_back({static_cast<int>(lines.size()), l.group, l.pid, l.device, l.host, l.processor});
  }
  return lines;
}

void Bench::chooseOperator(const TypeInfo& type, const OpInfo& op) {
  const bool same = type_.type == type.type && op_.kind == op.kind && !ranks_.front().tile.empty();
  type_ = type;
  op_ = op;
  if (!collective_.reduces) return;
  for (Rank& r : ranks_) {
    if (!same) r.tile = world_.pattern(type, op, r.geometry.nRanks)->input(r.geometry.rank);
    r.op = op.op;
    if (op.kind != OpKind::MulSum) continue;
    std::byte scalar[8];
    encodeElement(type, ReducePattern::scalarOf(r.geometry.rank), scalar);
    check(tuttiRedOpCreatePreMulSum(&r.op, scalar, type.type, tuttiScalarHostImmediate, r.comm), r.comm,
          "tuttiRedOpCreatePreMulSum");
    r.ownOp = true;
  }
}

void Bench::dropOperators() {
  for (Rank& r : ranks_) {
    if (r.ownOp) check(tuttiRedOpDestroy(r.op, r.comm), r.comm, "tuttiRedOpDestroy");
    r.ownOp = false;
  }
}

void Bench::place(int root, size_t bytes, bool inPlace) {
  for (Rank& r : ranks_) {
    r.geometry.root = root;
    r.geometry.bytes = bytes;
    r.geometry.elementBytes = type_.bytes;
    r.geometry.inPlace = inPlace;
    r.layout = collective_.layout(r.geometry);
    r.call = {.send = inPlace ? r.recv.data() + r.layout.inPlaceSend * type_.bytes : r.send.data(),
              .recv = inPlace ? r.recv.data() + r.layout.inPlaceRecv * type_.bytes : r.recv.data(),
              .count = r.layout.count,
              .type = type_.type,
              .op = r.op,
              .comm = r.comm,
              .stream = r.stream,
              .geometry = r.geometry};
    if (collective_.vectors != nullptr) r.call.vectors = collective_.vectors(r.geometry);
  }
}

// Poisons what is received into, with the room around it, then writes what is sent.
void Bench::fill(uint32_t seed) {
  constexpr size_t guard = Buffer::kGuardBytes;
  for (Rank& r : ranks_) {
    const size_t recvBytes = type_.bytes * (r.geometry.inPlace ? inPlaceCount(r.layout) : r.layout.recvCount);
    std::memset(r.recv.data() - guard, kPoison, recvBytes + 2 * guard);
    fillInput(r, seed);
  }
}

void Bench::fillInput(const Rank& r, uint32_t seed) {
  void* send = const_cast<void*>(r.call.send);
  if (collective_.reduces) {
    fillTiled(send, type_.bytes, 0, r.layout.sendCount, r.tile, seed);
  } else {
    fillTravel(send, type_.bytes, 0, r.layout.sendCount, travelKey(type_, r.geometry.rank, seed));
  }
}

size_t Bench::verifyBlock(const Rank& r, const Block& b, uint32_t seed) const {
  const std::byte* data = static_cast<const std::byte*>(r.call.recv) + b.offset * type_.bytes;
  if (b.source == Block::kReduction) {
    const std::shared_ptr<const ReducePattern> pattern = world_.pattern(type_, op_, r.geometry.nRanks);
    return countWrongTiled(data, type_.bytes, b.sourceIndex, b.count, pattern->expected(), seed);
  }
  return countWrongTravel(data, type_.bytes, b.sourceIndex, b.count, travelKey(type_, b.source, seed));
}

// Wrong elements of one rank; a foreign byte where nothing may be written counts like one.
size_t Bench::verify(const Rank& r, uint32_t seed) const {
  constexpr size_t guard = Buffer::kGuardBytes;
  const bool inPlace = r.geometry.inPlace;
  const size_t extent = type_.bytes * (inPlace ? inPlaceCount(r.layout) : r.layout.recvCount);
  size_t wrong =
      countOtherBytes(r.recv.data() - guard, guard, kPoison) + countOtherBytes(r.recv.data() + extent, guard, kPoison);
  size_t end = 0;  // of the blocks so far, in elements
  for (const Block& b : collective_.expect(r.geometry)) {
    if (!inPlace) wrong += countOtherBytes(r.recv.data() + end * type_.bytes, (b.offset - end) * type_.bytes, kPoison);
    wrong += verifyBlock(r, b, seed);
    end = b.offset + b.count;
  }
  if (inPlace) return wrong;
  wrong += countOtherBytes(r.recv.data() + end * type_.bytes, extent - end * type_.bytes, kPoison);
  if (collective_.reduces) {
    return wrong + countWrongTiled(r.call.send, type_.bytes, 0, r.layout.sendCount, r.tile, seed);
  }
  const TravelKey key = travelKey(type_, r.geometry.rank, seed);
  return wrong + countWrongTravel(r.call.send, type_.bytes, 0, r.layout.sendCount, key);
}

// One round of calls: all ranks of this thread, `times` times.
void Bench::issue(int times) {
  const int steps = collective_.steps != nullptr ? collective_.steps(ranks_.front().geometry.nRanks) : 1;
  const bool group = collective_.steps != nullptr || ranks_.size() > 1 || times > 1;
  // Steps depend on each other, so a group holds one step; calls of a single step may all go together.
  const int rounds = steps > 1 ? times : 1, callsPerGroup = steps > 1 ? 1 : times;
  for (int round = 0; round < rounds; ++round) {
    for (int step = 0; step < steps; ++step) {
      if (group) check(tuttiGroupStart(), nullptr, "tuttiGroupStart");
      for (int i = 0; i < callsPerGroup; ++i) {
        for (Rank& r : ranks_) {
          r.call.step = step;
          check(collective_.call(r.call), r.comm, collective_.name);
        }
      }
      if (group) check(tuttiGroupEnd(), nullptr, collective_.name);
    }
  }
}

void Bench::finish() {
  for (Rank& r : ranks_) {
    if (r.stream != nullptr) check(tuttiStreamSynchronize(r.stream), r.comm, collective_.name);
  }
}

void Bench::meetBeforeTiming() {
  world_.barrier(thread_);
  if (ranks_.size() > 1) check(tuttiGroupStart(), nullptr, "tuttiGroupStart");
  for (Rank& r : ranks_) check(tuttiBarrier(r.comm, r.stream), r.comm, "tuttiBarrier");
  if (ranks_.size() > 1) check(tuttiGroupEnd(), nullptr, "tuttiBarrier");
  finish();
}

void Bench::meetWithNewData() {
  for (const Rank& r : ranks_) fillInput(r, seed_);
  ++seed_;
  meetBeforeTiming();
}

// Untimed calls with data as timed ones have them, from which Tutti learns: the first makes plans.
void Bench::warmUp() {
  for (int i = 0; i <= options_.warmup; ++i) {
    if (options_.fresh && i > 0) meetWithNewData();
    issue(options_.aggregate);
  }
  finish();
}

// One timed round of calls.
void Bench::complete() {
  issue(options_.aggregate);
  if (options_.blocking == 0) return;
  finish();
  world_.barrier(thread_);
}

// Microseconds per call: every round of calls is timed alone, with data that was written just before.
double Bench::timeFreshCalls(std::vector<double>* callTimesUs) {
  double elapsed = 0;
  for (int i = 0; i < options_.iterations; ++i) {
    meetWithNewData();
    const double start = nowUs();
    complete();
    finish();
    const double us = nowUs() - start;
    elapsed += us;
    if (options_.wantsCallTimes() && i >= options_.skipIterations) callTimesUs->push_back(us / options_.aggregate);
  }
  return elapsed / options_.iterations / options_.aggregate;
}

// For the band of a picture: after the calls that are timed together, which reading the clock would slow.
void Bench::timeSingly(std::vector<double>* callTimesUs) {
  meetBeforeTiming();
  double last = nowUs();
  for (int i = 0; i < options_.iterations; ++i) {
    complete();
    finish();
    const double now = nowUs();
    callTimesUs->push_back((now - last) / options_.aggregate);
    last = now;
  }
}

// Microseconds per call.
double Bench::timeCalls(std::vector<double>* callTimesUs) {
  meetBeforeTiming();
  const double start = nowUs(), cpuStart = threadCpuUs();
  double last = start;
  for (int i = 0; i < options_.iterations; ++i) {
    complete();
    if (!options_.perIteration) continue;
    finish();
    const double now = nowUs();
    if (i >= options_.skipIterations) callTimesUs->push_back((now - last) / options_.aggregate);
    last = now;
  }
  finish();
  const double elapsed = options_.cpuTime ? threadCpuUs() - cpuStart : nowUs() - start;
  if (options_.wantsCallTimes() && !options_.perIteration) timeSingly(callTimesUs);
  return elapsed / options_.iterations / options_.aggregate;
}

Measurement Bench::measure(int root, size_t bytes, bool inPlace) {
  place(root, bytes, inPlace);
  fill(seed_++);
  warmUp();
  Measurement m;
  m.timeUs = options_.fresh ? timeFreshCalls(&m.callTimesUs) : timeCalls(&m.callTimesUs);
  size_t wrong = 0;
  if (options_.fresh && options_.checks > 0 && options_.aggregate == 1) {  // of the last timed call
    for (const Rank& r : ranks_) wrong += verify(r, seed_ - 1);
  }
  for (int i = 0; i < options_.checks; ++i, ++seed_) {
    fill(seed_);
    issue(1);  // in place, a second call would reduce the first one's result
    finish();
    for (const Rank& r : ranks_) wrong += verify(r, seed_);
  }
  average(&m, wrong);
  return m;
}

// Brings the ranks' figures together: every thread ends with the same.
void Bench::average(Measurement* m, size_t wrong) {
  struct Figures {
    double time, min, max, p99, cv, p10, p90;
    size_t wrong;
  };
  const Spread s = spreadOf(m->callTimesUs);
  std::vector<Figures> mine(ranks_.size(), {m->timeUs, s.minUs, s.maxUs, s.p99Us, s.cvPercent, s.p10Us, s.p90Us, 0});
  mine[0].wrong = wrong;
  const std::vector<Figures> all = world_.gather(thread_, mine);
  const auto over = [&](double Figures::*field) {
    double sum = 0, least = all[0].*field, most = least;
    for (const Figures& f : all) {
      sum += f.*field;
      least = std::min(least, f.*field);
      most = std::max(most, f.*field);
    }
    switch (options_.average) {
      case Average::Rank0: return all[0].*field;
      case Average::Min: return least;
      case Average::Max: return most;
      case Average::Mean: break;
    }
    return sum / static_cast<double>(all.size());
  };
  m->timeUs = over(&Figures::time);
  m->spread = {over(&Figures::min), over(&Figures::max), over(&Figures::p99),
               over(&Figures::cv),  over(&Figures::p10), over(&Figures::p90)};
  if (options_.checks > 0) {
    m->wrong = 0;
    for (const Figures& f : all) *m->wrong += f.wrong;
  }
  const Rank& first = ranks_.front();
  computeBandwidth(collective_, first.layout, first.geometry.nRanks, m);
}

// Of the call that was placed last.
std::optional<Expectation> Bench::expectation() const {
  if (collective_.estimate == nullptr) return std::nullopt;
  const Rank& first = ranks_.front();
  tuttiEstimate_t e = TUTTI_ESTIMATE_INITIALIZER;
  check(collective_.estimate(first.call, &e), first.comm, "tuttiCommEstimate");
  return Expectation{e.timeUs, e.algorithm, e.protocol, e.nChannels};
}

Row Bench::measureRow(const TypeInfo& type, const OpInfo& op, int root, size_t bytes) {
  chooseOperator(type, op);
  Row row;
  row.outOfPlace = measure(root, bytes, false);
  row.expected = expectation();
  const Layout layout = ranks_.front().layout;
  if (collective_.hasInPlace == nullptr || collective_.hasInPlace(ranks_.front().geometry.nRanks)) {
    row.inPlace = measure(root, bytes, true);
  }
  dropOperators();
  row.bytes = layout.rowBytes;
  row.count = layout.count;
  row.type = type.name;
  if (collective_.reduces) row.op = op.name;
  if (collective_.rooted) row.root = root;
  row.iterations = options_.iterations;
  return row;
}

}  // namespace tutti::perf
