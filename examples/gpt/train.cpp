#include "examples/gpt/train.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "examples/gpt/call.hpp"
#include "examples/gpt/storage.hpp"
#include "tutti/parallel/grid.h"
#include "tutti/parallel/sums.h"

namespace gpt {
namespace {

/// A grid and the groups of it that have more than one rank.
class Groups {
 public:
  Groups(const Layout& layout, tuttiComm_t world) : world_(world) {
    if (world == nullptr) return;
    const std::string axes =
        "tp=" + std::to_string(layout.tp) + ",pp=" + std::to_string(layout.pp) + ",dp=" + std::to_string(layout.dp);
    call(tuttiGridCreate(&grid_, world, axes.c_str(), nullptr));
    tp = layout.tp > 1 ? along("tp") : nullptr;
    pp = layout.pp > 1 ? along("pp") : nullptr;
    dp = layout.dp > 1 ? along("dp") : nullptr;
    call(tuttiGridCoordinate(grid_, "tp", -1, &tpRank));
    call(tuttiGridCoordinate(grid_, "pp", -1, &ppRank));
    call(tuttiGridCoordinate(grid_, "dp", -1, &dpRank));
  }
  ~Groups() { tuttiGridDestroy(grid_); }
  Groups(const Groups&) = delete;
  Groups& operator=(const Groups&) = delete;

  template <class T>
  void sum(T* data, size_t count, tuttiDataType_t dtype) const {
    if (world_ == nullptr || count == 0) return;
    callComm(tuttiAllReduce(data, data, count, dtype, tuttiSum, world_, nullptr), world_);
  }
  tuttiComm_t tp = nullptr, pp = nullptr, dp = nullptr;
  int tpRank = 0, ppRank = 0, dpRank = 0;

 private:
  tuttiComm_t along(const char* axis) {
    tuttiComm_t comm = nullptr;
    call(tuttiGridGroup(grid_, axis, &comm));
    return comm;
  }
  tuttiComm_t world_;
  tuttiGrid_t grid_ = nullptr;
};

struct Tokens {
  std::vector<int32_t> ids, targets;
};

/// Micro-batch `index` of a step: places in the text that depend on nothing but the two numbers.
Tokens tokensOf(const Shape& shape, const std::string& text, int step, int index) {
  Tokens t;
  const uint64_t room = text.size() - static_cast<uint64_t>(shape.sequence) - 1;
  for (int64_t s = 0; s < shape.perMicroBatch; ++s) {
    uint64_t x = static_cast<uint64_t>((step * shape.microBatches + index) * shape.perMicroBatch + s) + 1;
    x *= 0x9e3779b97f4a7c15u;
    const size_t at = static_cast<size_t>((x ^ (x >> 29)) % room);
    for (size_t i = 0; i < static_cast<size_t>(shape.sequence); ++i) {
      t.ids.push_back(static_cast<unsigned char>(text[at + i]));
      t.targets.push_back(static_cast<unsigned char>(text[at + i + 1]));
    }
  }
  return t;
}

/// The mistake of Mistake::SwappedGradients: two norms' gradients in each other's place.
class SwappedNorms final : public Storage {
 public:
  SwappedNorms(Storage& real, const std::vector<Parameter>& parameters) : real_(real) {
    for (size_t p = 0; p < parameters.size(); ++p) {
      if (parameters[p].name == "norm1.gamma") a_ = p;
      if (parameters[p].name == "norm2.gamma") b_ = p;
    }
  }
  tuttiTensor_t value(size_t p) override { return real_.value(p); }
  tuttiTensor_t gradient(size_t p) override { return real_.gradient(other(p)); }
  void unshard(int unit) override { real_.unshard(unit); }
  void reshard(int unit, bool afterForward) override { real_.reshard(unit, afterForward); }
  void ready(size_t p) override { real_.ready(other(p)); }

 private:
  size_t other(size_t p) const { return p == a_ ? b_ : p == b_ ? a_ : p; }
  Storage& real_;
  size_t a_ = 0, b_ = 0;
};

/// The values that this rank answers for, by their place in the whole model.
void collect(const Model<float>& model, Trainer& trainer, const Groups& groups, Outcome* outcome) {
  std::vector<float>& whole = outcome->values;
  uint64_t hash = 0;
  for (size_t p = 0; p < model.parameters().size(); ++p) {
    const Parameter& parameter = model.parameters()[p];
    if (parameter.copy) continue;
    int64_t begin = 0, end = 0;
    tuttiTensor_t mine;
    trainer.owned(p, &begin, &end, &mine);
    parameter.runs(begin, end, [&](int64_t at, int64_t position, int64_t n) {
      float* from = static_cast<float*>(mine.data) + (at - begin);
      const int64_t first = parameter.first + position;
      if (whole.size() < static_cast<size_t>(first + n)) whole.resize(static_cast<size_t>(first + n));
      std::copy(from, from + n, whole.begin() + first);
      const tuttiTensor_t run = tuttiVectorOf(from, tuttiFloat32, n);
      uint64_t part = 0;
      call(tuttiTensorHash(&run, 1, first, &part));
      hash += part;
    });
  }
  groups.sum(&hash, 1, tuttiUint64);
  outcome->hash = hash;
}

bool agree(const tuttiTraffic_t& counted, const tuttiTraffic_t& expected, double times) {
  bool same = true;
  for (int c = 0; c < tuttiNumCalls; ++c) {
    same = same && static_cast<double>(counted.calls[c]) == times * static_cast<double>(expected.calls[c]) &&
           static_cast<double>(counted.bytes[c]) == times * static_cast<double>(expected.bytes[c]);
  }
  return same;
}

}  // namespace

std::string readText(const std::string& path, const Shape& shape) {
  std::ifstream file(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (text.size() < static_cast<size_t>(shape.sequence) + 2) {
    throw std::runtime_error(path + " cannot be read, or is shorter than a sequence");
  }
  return text;
}

Outcome train(const Shape& shape, const Layout& layout, const Run& run, const std::string& text, tuttiComm_t world,
              bool overlap) {
  Groups groups(layout, world);
  std::vector<int64_t> mine(static_cast<size_t>(layout.dp) + 1);  // micro-batches of each data-parallel rank
  call(tuttiSplitEven(shape.microBatches, 1, layout.dp, nullptr, mine.data()));
  const int first = static_cast<int>(mine[static_cast<size_t>(groups.dpRank)]);
  const int end = static_cast<int>(mine[static_cast<size_t>(groups.dpRank) + 1]);
  Model<float> model(shape, Stage{0, shape.layers, true, true}, groups.tp, layout.sequence, run);
  const auto trainer =
      makeTrainer<float>(model.parameters(), {layout.zero, end - first, run.invariant, run.learningRate, run.clip,
                                              overlap, run.mistake != Mistake::SumForAverage, groups.dp, world});
  Outcome outcome;
  outcome.stepMs = outcome.exposedMs = outcome.communicationMs = 1e30;
  tuttiTraffic_t before = TUTTI_TRAFFIC_INITIALIZER;
  for (int step = 0; step < run.steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> losses(static_cast<size_t>(shape.microBatches));
    for (int m = first; m < end; ++m) {
      const bool odd = groups.dpRank == 1 && m == first;  // where mistakes are made
      const Tokens tokens = tokensOf(shape, text, step, odd && run.mistake == Mistake::ReusedTokens ? 0 : m);
      trainer->begin();
      const double loss = model.forward(0, tokens.ids.data(), tokens.targets.data(), nullptr, nullptr, *trainer);
      if (groups.tpRank == 0) losses[static_cast<size_t>(m)] = loss;
      if (odd && run.mistake == Mistake::SkippedMicroBatch) continue;
      SwappedNorms swapped(*trainer, model.parameters());
      Storage& storage = odd && run.mistake == Mistake::SwappedGradients ? static_cast<Storage&>(swapped) : *trainer;
      model.backward(0, tokens.ids.data(), nullptr, nullptr, storage);
    }
    outcome.norms.push_back(trainer->step());
    if (step == 0) before = trainer->traffic();  // the first step goes through other buckets than the next
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    outcome.stepMs = std::min(outcome.stepMs, ms);
    outcome.exposedMs = std::min(outcome.exposedMs, trainer->exposed());
    outcome.communicationMs = std::min(outcome.communicationMs, trainer->communication());
    groups.sum(losses.data(), losses.size(), tuttiFloat64);
    double sum = 0;
    for (const double l : losses) sum += l;
    outcome.losses.push_back(sum / shape.microBatches);
  }
  tuttiTraffic_t counted = trainer->traffic();
  for (int c = 0; c < tuttiNumCalls; ++c) {
    counted.calls[c] -= before.calls[c];
    counted.bytes[c] -= before.bytes[c];
  }
  const tuttiTraffic_t tp = model.traffic(), tpExpected = model.expected(), dpExpected = trainer->expected();
  const double passes = static_cast<double>(run.steps) * (end - first);
  outcome.bytesAgree = agree(counted, dpExpected, run.steps - 1) && agree(tp, tpExpected, passes);
  outcome.sentBytes =
      (trainer->traffic().wireBytes - before.wireBytes) / std::max(1, run.steps - 1) + tp.wireBytes / run.steps;
  outcome.expectedBytes = dpExpected.wireBytes + tpExpected.wireBytes * (end - first);
  collect(model, *trainer, groups, &outcome);
  int64_t size = static_cast<int64_t>(outcome.values.size());
  if (world != nullptr) callComm(tuttiAllReduce(&size, &size, 1, tuttiInt64, tuttiMax, world, nullptr), world);
  outcome.values.resize(static_cast<size_t>(size));
  groups.sum(outcome.values.data(), outcome.values.size(), tuttiFloat32);  // one rank has it, the others add 0
  return outcome;
}

Outcome trainOnThreads(const Shape& shape, const Layout& layout, const Run& run, const std::string& text,
                       bool overlap) {
  const int n = layout.ranks();
  if (n == 1) return train(shape, layout, run, text, nullptr, overlap);
  tuttiUniqueId id;
  callComm(tuttiGetUniqueId(&id), nullptr);
  std::vector<Outcome> outcomes(static_cast<size_t>(n));
  std::vector<std::string> complaints(outcomes.size());
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      tuttiComm_t comm = nullptr;
      try {
        callComm(tuttiCommInitRank(&comm, n, id, r), nullptr);
        outcomes[static_cast<size_t>(r)] = train(shape, layout, run, text, comm, overlap);
        callComm(tuttiCommDestroy(comm), nullptr);
      } catch (const std::exception& error) {
        complaints[static_cast<size_t>(r)] = error.what();
        if (comm != nullptr) tuttiCommAbort(comm);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::string all;
  for (int r = 0; r < n; ++r) {
    const std::string& complaint = complaints[static_cast<size_t>(r)];
    if (!complaint.empty()) all += "rank " + std::to_string(r) + ": " + complaint + "\n";
    outcomes[0].bytesAgree = outcomes[0].bytesAgree && outcomes[static_cast<size_t>(r)].bytesAgree;
  }
  if (!all.empty()) throw std::runtime_error(all);
  return outcomes[0];
}

}  // namespace gpt
