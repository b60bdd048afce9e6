// The text of the pass kernels on host threads: all collectives of ranks that share a launch.  No driver.
#include <catch2/catch.hpp>

#include <thread>

#include "src/exec/cuda/one_pass.hpp"
#include "src/exec/kernels/pass_body.hpp"
#include "tests/support/host_walk.hpp"

using namespace tutti;

namespace {

struct PassCase {
  Collective collective;
  int nRanks;
  int root;
  size_t count;  // elements of the vector, or of a block
  bool inPlace;
  size_t shift;  // bytes that buffers are away from alignment; of rank 1 one element more
};

/// All ranks' buffers of one call, and what they should hold.
class PassBuffers {
 public:
  explicit PassBuffers(const PassCase& c) : c_(c), n_(static_cast<size_t>(c.nRanks)) {
    for (size_t r = 0; r < n_; ++r) {
      inputs_.push_back(bytesFor(r));
      outputs_.push_back(bytesFor(r));
    }
    for (size_t r = 0; r < n_; ++r) {
      for (size_t i = 0; i < inputCount(r); ++i) put(input(r), i, value(r, i));
    }
  }

  kernels::PassCall call() const { return passCall(c_.collective, c_.count * sizeof(float), c_.root, c_.nRanks); }
  kernels::PassSide executor(size_t r) const { return {input(r), output(r)}; }

  /// The first wrong element, or "".
  std::string check() const {
    for (size_t r = 0; r < n_; ++r) {
      for (size_t i = 0; i < outputCount(r); ++i) {
        const float seen = get(output(r), i), want = expected(r, i);
        if (seen == want) continue;
        return "rank " + std::to_string(r) + " element " + std::to_string(i) + " is " + std::to_string(seen) +
               " instead of " + std::to_string(want);
      }
      for (size_t b = 0; b < kGuard; ++b) {
        if (outputs_[r].data()[outputs_[r].size() - 1 - b] != 0xee) return "bytes behind an output are written";
      }
    }
    return "";
  }

 private:
  static constexpr size_t kGuard = 32;
  using Bytes = std::vector<unsigned char>;

  bool isBarrier() const { return c_.collective == Collective::Barrier; }
  bool isRoot(size_t r) const { return static_cast<int>(r) == c_.root; }
  bool blocksIn() const {
    return c_.collective == Collective::ReduceScatter || c_.collective == Collective::AllToAll ||
           c_.collective == Collective::Scatter;
  }
  bool blocksOut() const {
    return c_.collective == Collective::AllGather || c_.collective == Collective::AllToAll ||
           c_.collective == Collective::Gather;
  }
  size_t inputCount(size_t r) const {
    const bool rooted = c_.collective == Collective::Broadcast || c_.collective == Collective::Scatter;
    return isBarrier() || (rooted && !isRoot(r)) ? 0 : c_.count * (blocksIn() ? n_ : 1);
  }
  size_t outputCount(size_t r) const {
    const bool rooted = c_.collective == Collective::Reduce || c_.collective == Collective::Gather;
    return isBarrier() || (rooted && !isRoot(r)) ? 0 : c_.count * (blocksOut() ? n_ : 1);
  }
  size_t offset(size_t r) const { return c_.shift + (r == 1 ? sizeof(float) : 0); }
  Bytes bytesFor(size_t r) const { return Bytes(c_.count * n_ * sizeof(float) + offset(r) + 16 + kGuard, 0xee); }
  static unsigned char* aligned(const Bytes& bytes) {
    auto* data = const_cast<unsigned char*>(bytes.data());
    return data + (16 - reinterpret_cast<uintptr_t>(data) % 16) % 16;
  }
  unsigned char* ownOutput(size_t r) const { return aligned(outputs_[r]) + offset(r); }
  unsigned char* ownInput(size_t r) const { return aligned(inputs_[r]) + offset(r); }
  /// In place is where the smaller of the two is the rank's block of the larger.
  bool inPlace(size_t r) const {
    const bool rooted = c_.collective == Collective::Gather || c_.collective == Collective::Scatter;
    return c_.inPlace && (!rooted || isRoot(r));
  }
  unsigned char* input(size_t r) const {
    if (!inPlace(r) || (blocksIn() && !blocksOut())) return ownInput(r);
    return ownOutput(r) + (blocksOut() && !blocksIn() ? r * c_.count * sizeof(float) : 0);
  }
  unsigned char* output(size_t r) const {
    return inPlace(r) && blocksIn() && !blocksOut() ? ownInput(r) + r * c_.count * sizeof(float) : ownOutput(r);
  }

  float value(size_t r, size_t i) const { return static_cast<float>(i % 1000 + 1 + 1000 * r); }
  float expected(size_t r, size_t i) const {
    const size_t block = i / c_.count, at = i % c_.count;
    const auto root = static_cast<size_t>(c_.root);
    switch (c_.collective) {
      case Collective::AllReduce:
      case Collective::Reduce: return sum(i);
      case Collective::Broadcast: return value(root, i);
      case Collective::AllGather:
      case Collective::Gather: return value(block, at);
      case Collective::ReduceScatter: return sum(r * c_.count + i);
      case Collective::AllToAll: return value(block, r * c_.count + at);
      case Collective::Scatter: return value(root, r * c_.count + i);
      case Collective::Barrier: break;
    }
    return 0;
  }
  float sum(size_t i) const {
    float all = 0;
    for (size_t r = 0; r < n_; ++r) all += value(r, i);
    return all;
  }
  static void put(unsigned char* to, size_t i, float v) { std::memcpy(to + i * sizeof v, &v, sizeof v); }
  static float get(const unsigned char* from, size_t i) {
    float v = 0;
    std::memcpy(&v, from + i * sizeof v, sizeof v);
    return v;
  }

  PassCase c_;
  size_t n_;
  std::vector<Bytes> inputs_, outputs_;
};

using Sums = kernels::Reduces<kernels::F32, kernels::Sum>;
using Copies = kernels::NoArithmetic;

/// `blocks` blocks of two threads each.
template <class Arithmetic>
void launchPass(kernels::PassArguments* arguments, uint32_t blocks) {
  cutTiles(arguments, blocks);
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<kernels::HostBarrier>> barriers;
  std::vector<std::unique_ptr<kernels::PassState>> states;
  for (uint32_t block = 0; block < blocks; ++block) {
    barriers.push_back(std::make_unique<kernels::HostBarrier>(2));
    states.push_back(std::make_unique<kernels::PassState>());
    for (uint32_t me = 0; me < 2; ++me) {
      threads.emplace_back([=, barrier = barriers.back().get(), state = states.back().get()] {
        kernels::Pass<Arithmetic, kernels::HostBlock>({me, 2, barrier}, *arguments, state).run(block, blocks);
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

template <class Arithmetic>
std::string runPass(const std::vector<PassCase>& cases, uint32_t blocks) {
  kernels::PassArguments arguments{};
  arguments.nRanks = static_cast<uint32_t>(cases.front().nRanks);
  std::vector<std::unique_ptr<PassBuffers>> buffers;
  for (const PassCase& c : cases) {
    buffers.push_back(std::make_unique<PassBuffers>(c));
    for (size_t r = 0; r < arguments.nRanks; ++r) {
      arguments.sides[arguments.nCalls * arguments.nRanks + r] = buffers.back()->executor(r);
    }
    arguments.calls[arguments.nCalls++] = buffers.back()->call();
  }
  if (independentCalls(arguments) != cases.size()) return "calls of different buffers are not independent";
  launchPass<Arithmetic>(&arguments, blocks);
  for (const auto& b : buffers) {
    if (std::string why = b->check(); !why.empty()) return why;
  }
  return "";
}

constexpr Collective kPassed[] = {Collective::AllReduce,     Collective::Reduce,   Collective::Broadcast,
                                  Collective::AllGather,     Collective::Gather,   Collective::Scatter,
                                  Collective::ReduceScatter, Collective::AllToAll, Collective::Barrier};

}  // namespace

TEST_CASE("one pass over all ranks' buffers makes every collective, in place or not, wherever buffers lie") {
  for (const Collective collective : kPassed) {
    for (const int nRanks : {2, 3, 5}) {
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}, size_t{9000}}) {
        for (const bool inPlace : {false, true}) {
          for (const size_t shift : {size_t{0}, size_t{4}, size_t{3}}) {
            CAPTURE(collectiveName(collective), nRanks, count, inPlace, shift);
            const std::vector<PassCase> one = {{collective, nRanks, nRanks - 1, count, inPlace, shift}};
            if (!reduces(collective)) REQUIRE(runPass<Copies>(one, 3) == "");
            if (!exchangesBlocks(collective)) REQUIRE(runPass<Sums>(one, 3) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("a launch carries several calls of any kind that its kernel serves, also empty ones") {
  std::vector<PassCase> copied, summed;
  const auto add = [](Collective collective, std::vector<PassCase>* cases) {
    cases->push_back({collective, 3, 1, 0, false, 0});
    cases->push_back({collective, 3, 0, 5000, false, 0});
    cases->push_back({collective, 3, 2, 13, true, 4});
  };
  for (const Collective collective : kPassed) {
    if (!reduces(collective)) add(collective, &copied);
    if (!exchangesBlocks(collective)) add(collective, &summed);
  }
  CHECK(runPass<Copies>(copied, 4) == "");
  CHECK(runPass<Sums>(summed, 4) == "");
  CHECK(runPass<Sums>(std::vector<PassCase>(2, {Collective::AllReduce, 3, 0, 0, false, 0}), 2) == "");
}

TEST_CASE("calls that work on each other's buffers are not carried out side by side") {
  std::vector<float> memory(1000);
  const auto at = [&](size_t i) { return reinterpret_cast<unsigned char*>(memory.data() + i); };
  kernels::PassArguments a{};
  a.nRanks = 2;
  a.nCalls = 3;
  for (kernels::PassCall& call : a.calls) call = passCall(Collective::AllReduce, 400, 0, 2);
  // Rank 0 has [0, 100), [100, 200) and so on, rank 1 the same 500 further on.
  for (size_t c = 0; c < 3; ++c) {
    for (size_t r = 0; r < 2; ++r) a.sides[c * 2 + r] = {at(c * 100 + 500 * r), at(c * 100 + 500 * r)};
  }
  CHECK(independentCalls(a) == 3);
  a.sides[2 * 2 + 1].input = at(500 + 199);  // the last element of what call 1 writes
  CHECK(independentCalls(a) == 2);
  a.sides[1 * 2 + 0].output = at(99);  // what call 0 reads and writes
  CHECK(independentCalls(a) == 1);
  a.calls[1].moves = 0;
  CHECK(independentCalls(a) == 3);
}
