// The resident executor's text on host threads: every algorithm's plan, as the device would walk it.  No driver.
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "algorithms/algorithm.hpp"
#include "src/exec/cuda/resident_program.hpp"
#include "src/exec/kernels/walk_body.hpp"
#include "src/schedule/passes.hpp"
#include "tests/support/host_walk.hpp"

using namespace tutti;

namespace {

/// How a case differs from others in what the executor is asked to do.
struct Way {
  size_t count;      // elements of a block, or of the vector
  size_t slotBytes;  // few, so that values are cut into slices
  uint64_t slots;
  bool direct;
  uint32_t threads;  // that play a block
};

/// All ranks' memory for one walk of one algorithm.
class Walk {
 public:
  Walk(const Algorithm& algorithm, const Shape& shape, const Way& way)
      : way_(way), n_(static_cast<size_t>(shape.nRanks)) {
    std::vector<Schedule> all;
    for (Shape s = shape; s.rank < s.nRanks; ++s.rank) {
      const Schedule built = algorithm.build(s);
      all.push_back(way.direct ? fuseForDirect(built) : fuse(built));
    }
    all = markOrigins(all);
    if (way.direct) all = markDirect(all);
    ends_.resize(n_);
    for (size_t r = 0; r < n_; ++r) addRank(all[r]);
    for (size_t r = 0; r < n_; ++r) addProgram(static_cast<int>(r), shape.nRanks);
  }

  /// Elements before a call: of rank r's input, i + 1 + 1000 r.
  void fill() {
    for (size_t r = 0; r < n_; ++r) {
      for (size_t i = 0; i < inputs_[r].size(); ++i) inputs_[r][i] = static_cast<float>(i + 1 + 1000 * r);
      std::fill(outputs_[r].begin(), outputs_[r].end(), -1.0F);
    }
  }

  void run() {
    kernels::WalkArguments arguments{};
    arguments.nMembers = static_cast<uint32_t>(n_);
    uint32_t blocks = 0;
    std::vector<bool> present;
    for (size_t r = 0; r < n_; ++r) {
      present.insert(present.end(), plans_[r]->lanes.size(), r != leftOut_);
      arguments.members[r] = {reinterpret_cast<const kernels::WalkProgram*>(programs_[r].data()),
                              reinterpret_cast<const unsigned char*>(inputs_[r].data()),
                              reinterpret_cast<unsigned char*>(outputs_[r].data()),
                              &abort_,
                              blocks,
                              0};
      blocks += static_cast<uint32_t>(plans_[r]->lanes.size());
    }
    std::vector<std::unique_ptr<kernels::LaneState>> states;
    std::vector<std::unique_ptr<kernels::HostBarrier>> barriers;
    std::vector<std::thread> threads;
    for (uint32_t block = 0; block < blocks; ++block) {
      if (!present[block]) continue;
      states.push_back(std::make_unique<kernels::LaneState>());
      barriers.push_back(std::make_unique<kernels::HostBarrier>(way_.threads));
      for (uint32_t me = 0; me < way_.threads; ++me) {
        threads.emplace_back([&arguments, block, team = kernels::HostBlock{me, way_.threads, barriers.back().get()},
                              state = states.back().get()] {
          kernels::walkBlock<kernels::Reduces<kernels::F32, kernels::Sum>, kernels::HostBlock, kernels::HostMemory,
                             kernels::HostPatience>(team, arguments, block, state);
        });
      }
    }
    for (std::thread& thread : threads) thread.join();
  }

  /// The first wrong element of a result, or "".
  std::string check(const Shape& shape) const {
    for (size_t r = 0; r < n_; ++r) {
      const bool isRoot = static_cast<int>(r) == shape.root;
      if (!isRoot && (shape.collective == Collective::Reduce || shape.collective == Collective::Gather)) continue;
      for (size_t i = 0; i < outputs_[r].size(); ++i) {
        const float want = expected(shape, r, i);
        if (outputs_[r][i] == want) continue;
        return "rank " + std::to_string(r) + " element " + std::to_string(i) + " is " + std::to_string(outputs_[r][i]) +
               " instead of " + std::to_string(want);
      }
    }
    return "";
  }

  /// Goes on with the links of another walk of as many ranks and lanes.
  void takeLinksOf(const Walk& other) {
    for (size_t r = 0; r < n_; ++r) {
      REQUIRE(ends_[r].size() == other.ends_[r].size());
      std::copy(other.ends_[r].begin(), other.ends_[r].end(), ends_[r].begin());
    }
  }
  /// How many packets bear the flag, in the lines of all links.
  size_t packetsWith(uint32_t flag) const {
    const kernels::EndLayout layout{way_.slots, way_.slotBytes};
    size_t found = 0;
    for (const auto& end : ends_) {
      const auto* bytes = reinterpret_cast<const unsigned char*>(end.data());
      for (size_t at = 0; at + layout.bytes() <= end.size() * sizeof(kernels::Pack); at += layout.bytes()) {
        const auto* packets = reinterpret_cast<const uint64_t*>(bytes + at + layout.linesAt());
        for (size_t i = 0; i < (layout.slotsAt() - layout.linesAt()) / 8; ++i) found += packets[i] >> 32 == flag;
      }
    }
    return found;
  }

  /// That rank's blocks do not take part.
  void leaveOut(size_t rank) { leftOut_ = rank; }
  /// While run() runs.
  void tellToLeave() { __atomic_store_n(&abort_, 1u, __ATOMIC_RELEASE); }

 private:
  float input(size_t rank, size_t i) const { return static_cast<float>(i + 1 + 1000 * rank); }
  float sum(size_t i) const {
    float all = 0;
    for (size_t r = 0; r < n_; ++r) all += input(r, i);
    return all;
  }
  float expected(const Shape& shape, size_t rank, size_t i) const {
    const size_t block = i / way_.count, at = i % way_.count;
    const auto root = static_cast<size_t>(shape.root);
    switch (shape.collective) {
      case Collective::AllReduce:
      case Collective::Reduce: return sum(i);
      case Collective::Broadcast: return input(root, i);
      case Collective::AllGather:
      case Collective::Gather: return input(block, at);
      case Collective::ReduceScatter: return sum(rank * way_.count + i);
      case Collective::AllToAll: return input(block, rank * way_.count + at);
      case Collective::Scatter: return input(root, rank * way_.count + i);
      case Collective::Barrier: return 0;
    }
    return 0;
  }

  static size_t extent(const std::vector<Block>& blocks) {
    size_t end = 0;
    for (const Block& b : blocks) end = std::max(end, b.offset + b.count);
    return end;
  }

  void addRank(const Schedule& schedule) {
    const Layout layout = evenLayout(schedule, way_.count, sizeof(float));
    Result<std::unique_ptr<Plan>> plan =
        bindPlan(schedule, layout, sizeof(float), way_.slotBytes, [](int, int) { return Result<Endpoint*>(nullptr); });
    REQUIRE(plan.ok());
    plans_.push_back(std::move(*plan));
    inputs_.emplace_back(schedule.inputChunks() > 0 ? extent(layout.input) : 0);
    outputs_.emplace_back(schedule.outputChunks() > 0 ? extent(layout.output) : 0);
  }

  void addProgram(int rank, int nRanks) {
    ResidentEnds ends;
    ends.layout = {way_.slots, way_.slotBytes};
    ends.rank = rank;
    ends.nRanks = nRanks;
    for (const auto& plan : plans_) ends.lanes = std::max(ends.lanes, static_cast<int>(plan->lanes.size()));
    for (auto& end : ends_) {
      if (end.empty()) end.resize(ends.bytes() / sizeof(kernels::Pack) + 1);
      ends.bases.push_back(reinterpret_cast<std::byte*>(end.data()));
    }
    ends.lends.assign(n_, way_.direct);
    const Plan& plan = *plans_[static_cast<size_t>(rank)];
    const auto measure = residentProgram(plan, ends, nullptr);
    REQUIRE(measure.ok());
    programs_.emplace_back(measure->size() / sizeof(kernels::Pack) + 1);
    auto* at = reinterpret_cast<std::byte*>(programs_.back().data());
    const auto image = residentProgram(plan, ends, at);
    std::copy(image->begin(), image->end(), at);
  }

  Way way_;
  size_t n_;
  uint32_t abort_ = 0;
  size_t leftOut_ = SIZE_MAX;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::vector<std::vector<float>> inputs_, outputs_;
  std::vector<std::vector<kernels::Pack>> ends_, programs_;
};

std::string walkTwice(const Algorithm& algorithm, const Shape& shape, const Way& way) {
  Walk walk(algorithm, shape, way);
  for (int round = 0; round < 2; ++round) {  // counters outlive a launch
    walk.fill();
    walk.run();
    if (std::string why = walk.check(shape); !why.empty()) return why;
  }
  return "";
}

}  // namespace

TEST_CASE("blocks walk every algorithm's plan to the right result") {
  const Way way = GENERATE(Way{1, 1024, 2, false, 1},     // one packet
                           Way{37, 1024, 2, false, 3},    // lines
                           Way{6007, 8192, 2, false, 1},  // slots and slices, a short last one inline
                           Way{6007, 8192, 3, true, 2});  // lent
  for (const Algorithm* algorithm : algorithms()) {
    for (const int nRanks : {2, 3, 5}) {
      Shape shape{.collective = algorithm->collective, .nRanks = nRanks, .root = nRanks - 1};
      shape.bytes = way.count * sizeof(float);
      shape.slotBytes = way.slotBytes;
      const bool large = way.count > 1000;  // takes its time under the thread sanitizer
      if (!algorithm->supports(shape) || (large && nRanks != 3)) continue;
      CAPTURE(algorithm->name, collectiveName(algorithm->collective), nRanks, way.count, way.direct);
      CHECK(walkTwice(*algorithm, shape, way) == "");
    }
  }
}

// Flags repeat, so that a packet which lay there for as long would pass for one of the message that is to come.
TEST_CASE("no line keeps its flag for long, whatever messages reach it") {
  const Algorithm* ring = findAlgorithm(Collective::AllReduce, "ring");
  REQUIRE(ring != nullptr);
  const Shape shape{.collective = Collective::AllReduce, .nRanks = 2};
  const Way longWay{1024, 8192, 2, false, 1};
  const Way fastPath = GENERATE(Way{1, 8192, 2, false, 1}, Way{2 * 1500, 8192, 2, false, 1});  // a packet; slots
  Walk first(*ring, shape, longWay);
  first.fill();
  first.run();
  REQUIRE(first.check(shape).empty());
  constexpr uint32_t kFirst = 1;  // flag of a link's first message
  REQUIRE(first.packetsWith(kFirst) > 100);
  Walk then(*ring, shape, fastPath);
  then.takeLinksOf(first);
  for (uint64_t round = 0; round < (kernels::kInlineBytes / 8 + 1) * fastPath.slots; ++round) {
    then.fill();
    then.run();
  }
  CHECK(then.check(shape).empty());
  CHECK(then.packetsWith(kFirst) == 0);
}

TEST_CASE("blocks that wait for a rank that does not come leave when told to") {
  const Algorithm* ring = findAlgorithm(Collective::AllReduce, "ring");
  REQUIRE(ring != nullptr);
  Shape shape{.collective = Collective::AllReduce, .nRanks = 3};
  const Way way = GENERATE(Way{5, 1024, 2, false, 2}, Way{6007, 8192, 2, true, 1});
  Walk walk(*ring, shape, way);
  walk.fill();
  walk.leaveOut(1);
  std::thread told([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    walk.tellToLeave();
  });
  walk.run();  // ends
  told.join();
  CHECK(walk.check(shape) != "");
}
