#include "examples/gpt/train.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <thread>

#include "examples/gpt/call.hpp"
#include "examples/gpt/parts.hpp"
#include "tutti/parallel/pp.h"
#include "tutti/parallel/sums.h"

namespace gpt {
namespace {

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

/// The values that this rank answers for, by their place in the whole model.
void collect(const Model<float>& model, Trainer& trainer, Outcome* outcome) {
  std::vector<float>& whole = outcome->values;
  for (size_t p = 0; p < model.parameters().size(); ++p) {
    const Parameter& parameter = model.parameters()[p];
    if (parameter.copy) continue;
    int64_t begin = 0, end = 0;
    tuttiTensor_t mine;
    trainer.owned(p, &begin, &end, &mine);
    std::vector<float> values = valuesOf(mine);
    parameter.runs(begin, end, [&](int64_t at, int64_t position, int64_t n) {
      float* from = values.data() + (at - begin);
      const int64_t first = parameter.first + position;
      if (whole.size() < static_cast<size_t>(first + n)) whole.resize(static_cast<size_t>(first + n));
      std::copy(from, from + n, whole.begin() + first);
      const tuttiTensor_t run = tuttiVectorOf(from, tuttiFloat32, n);
      uint64_t part = 0;
      call(tuttiTensorHash(&run, 1, first, &part));
      outcome->hash += part;
    });
  }
}

/// Whether what was counted since `before` is `steps` times what is expected of a step.
bool agree(const tuttiTraffic_t& counted, const tuttiTraffic_t& before, const tuttiTraffic_t& expected, double steps) {
  bool same = true;
  for (int c = 0; c < tuttiNumCalls; ++c) {
    same = same &&
           static_cast<double>(counted.calls[c] - before.calls[c]) == steps * static_cast<double>(expected.calls[c]) &&
           static_cast<double>(counted.bytes[c] - before.bytes[c]) == steps * static_cast<double>(expected.bytes[c]);
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

namespace {

/// One stage of the model on this rank, with its parameters' data parallelism.
struct Part {
  int stage = 0;
  std::unique_ptr<Model<float>> model;
  std::unique_ptr<Trainer> trainer;
};

/// A rank's share of a step.
class Rank {
 public:
  Rank(const Shape& shape, const Layout& layout, const Run& run, const std::string& text, tuttiComm_t world,
       bool overlap)
      : shape_(shape), layout_(layout), run_(run), text_(text), world_(world), groups_(layout, world) {
    const int replicas = layout.ep * layout.dp;
    std::vector<int64_t> mine(static_cast<size_t>(replicas) + 1);  // micro-batches of each
    call(tuttiSplitEven(shape.microBatches, 1, replicas, nullptr, mine.data()));
    first_ = static_cast<int>(mine[static_cast<size_t>(groups_.dpRank)]);
    count_ = static_cast<int>(mine[static_cast<size_t>(groups_.dpRank) + 1]) - first_;
    tuttiSchedule_t schedule = nullptr;
    call(tuttiScheduleCreate(&schedule, layout.schedule.c_str(), layout.pp, layout.chunks, count_));
    schedule_.reset(schedule);
    int stages = 1;
    call(tuttiScheduleShape(schedule, nullptr, &stages, nullptr));
    std::vector<int64_t> cuts(static_cast<size_t>(stages) + 1);
    call(tuttiSplitEven(shape.layers, 1, stages, nullptr, cuts.data()));
    for (int s = 0; s < stages; ++s) {
      int rank = 0;
      call(tuttiScheduleRankOf(schedule, s, &rank));
      if (s == 0) stageRank_[0] = rank;
      if (s + 1 == stages) stageRank_[1] = rank;
      if (rank != groups_.ppRank) continue;
      const bool early = run.mistake == Mistake::ShiftedStage && s > 0 && s + 1 == stages;
      const Stage stage{cuts[static_cast<size_t>(s)] - early, cuts[static_cast<size_t>(s) + 1], s == 0,
                        s + 1 == stages};
      auto model = std::make_unique<Model<float>>(shape, stage, groups_.tp, layout.sequence, run, layout.tied,
                                                  groups_.others, layout.experts, groups_.ep);
      auto trainer = makeTrainer<float>(
          model->parameters(), {layout.zero, count_, run.invariant, run.sgd, run.learningRate, run.clip, overlap,
                                run.mistake != Mistake::SumForAverage, run.mistake == Mistake::ReusedBucket, groups_.dp,
                                layout.ep, groups_.sameExperts, world});
      parts_.push_back({s, std::move(model), std::move(trainer)});
    }
    last_ = stages - 1;
    tuttiStages_t calls = TUTTI_STAGES_INITIALIZER;
    calls.context = this;
    calls.device = Place::current().kind();
    calls.forward = [](void* self, int stage, int micro, const void* in, void* out) {
      return static_cast<Rank*>(self)->guarded([&](Rank& r) { r.forward(stage, micro, in, out); });
    };
    calls.backward = [](void* self, int stage, int micro, const void* dout, void* din, int weights) {
      return static_cast<Rank*>(self)->guarded([&](Rank& r) { r.backward(stage, micro, dout, din, weights != 0); });
    };
    calls.backwardWeight = [](void* self, int stage, int micro) {
      return static_cast<Rank*>(self)->guarded([&](Rank& r) {
        Part& part = r.partOf(stage);
        part.trainer->begin();
        part.model->backwardWeight(micro);
      });
    };
    call(tuttiPipelineCreate(&pipeline_, groups_.pp, schedule, static_cast<size_t>(parts_[0].model->boundary()),
                             tuttiFloat32, &calls));
  }
  ~Rank() { tuttiPipelineDestroy(pipeline_); }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// All micro-batches, then the update.  Others hear of a failure here.
  void step(int number, Outcome* outcome) {
    try {
      stepAll(number, outcome);
    } catch (...) {
      groups_.revoke();
      throw;
    }
  }

  void stepAll(int number, Outcome* outcome) {
    step_ = number;
    losses_.assign(static_cast<size_t>(shape_.microBatches), 0);
    const tuttiResult_t result = tuttiPipelineStep(pipeline_);
    if (!complaint_.empty()) throw std::runtime_error(complaint_);
    call(result);
    outcome->norms.push_back(update());
    groups_.reduce(losses_, tuttiFloat64);
    double sum = 0;
    for (const double l : losses_) sum += l;
    outcome->losses.push_back(sum / shape_.microBatches);
  }

  /// What data parallelism, tensor parallelism and the pipeline have moved.
  struct Moved {
    tuttiTraffic_t dp = TUTTI_TRAFFIC_INITIALIZER, tp = TUTTI_TRAFFIC_INITIALIZER, pp = TUTTI_TRAFFIC_INITIALIZER;
    tuttiTraffic_t ep = TUTTI_TRAFFIC_INITIALIZER;  // expected: of all steps so far, as routed
    double wire() const { return dp.wireBytes + tp.wireBytes + pp.wireBytes + ep.wireBytes; }
  };
  Moved counted() const {
    Moved m;
    for (const Part& p : parts_) {
      addTraffic(m.dp, p.trainer->traffic());
      addTraffic(m.tp, p.model->traffic());
      tuttiTraffic_t routed = TUTTI_TRAFFIC_INITIALIZER;
      p.model->expertTraffic(&m.ep, &routed);
    }
    call(tuttiPipelineTraffic(pipeline_, &m.pp, nullptr));
    return m;
  }
  /// Of a step.
  Moved expected() const {
    Moved m;
    for (const Part& p : parts_) {
      addTraffic(m.dp, p.trainer->expected());
      addTraffic(m.tp, p.model->expected(), static_cast<uint64_t>(count_));
      tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER;
      p.model->expertTraffic(&counted, &m.ep);
    }
    call(tuttiPipelineTraffic(pipeline_, nullptr, &m.pp));
    return m;
  }
  void times(Outcome* outcome) const {
    double busy = 0, exposed = 0;
    for (const Part& p : parts_) {
      busy += p.trainer->communication();
      exposed += p.trainer->exposed();
    }
    outcome->communicationMs = std::min(outcome->communicationMs, busy);
    outcome->exposedMs = std::min(outcome->exposedMs, exposed);
  }
  void collectValues(Outcome* outcome) {
    for (Part& p : parts_) collect(*p.model, *p.trainer, outcome);
    std::vector<uint64_t> hash = {outcome->hash}, size = {outcome->values.size()};
    groups_.reduce(hash, tuttiUint64);
    groups_.reduce(size, tuttiUint64, tuttiMax);
    outcome->hash = hash[0];
    outcome->values.resize(size[0]);
    groups_.reduce(outcome->values, tuttiFloat32);  // one rank has it, the others add 0
  }

 private:
  template <class Body>
  tuttiResult_t guarded(const Body& body) noexcept {
    try {
      body(*this);
      return tuttiSuccess;
    } catch (const std::exception& error) {
      complaint_ = error.what();
      return tuttiSystemError;
    }
  }
  Part& partOf(int stage) {
    for (Part& p : parts_) {
      if (p.stage == stage) return p;
    }
    throw std::logic_error("the stage is not here");
  }
  bool odd(int micro) const { return groups_.dpRank == 1 && micro == 0; }  // where mistakes are made
  Tokens tokens(int micro, const Model<float>& model) const {
    const bool reused = odd(micro) && run_.mistake == Mistake::ReusedTokens;
    const Tokens whole = tokensOf(shape_, text_, step_, reused ? 0 : first_ + micro);
    return {model.ownTokens(whole.ids), model.ownTokens(whole.targets)};
  }

  void forward(int stage, int micro, const void* in, void* out) {
    Part& p = partOf(stage);
    const Tokens t = tokens(micro, *p.model);
    const double loss = p.model->forward(micro, t.ids.data(), t.targets.data(), static_cast<const float*>(in),
                                         static_cast<float*>(out), *p.trainer);
    if (stage == last_ && groups_.tpRank == 0 && groups_.tokenRank == 0)
      losses_[static_cast<size_t>(first_ + micro)] = loss;
  }
  void backward(int stage, int micro, const void* dout, void* din, bool weights) {
    Part& p = partOf(stage);
    const Tokens t = tokens(micro, *p.model);
    if (weights) p.trainer->begin();
    if (odd(micro) && run_.mistake == Mistake::SkippedMicroBatch) return;
    SwappedNorms swapped(*p.trainer, p.model->parameters());
    const bool swap = odd(micro) && run_.mistake == Mistake::SwappedGradients;
    Storage& storage = swap ? static_cast<Storage&>(swapped) : *p.trainer;
    p.model->backward(micro, t.ids.data(), static_cast<const float*>(dout), static_cast<float*>(din), storage, weights);
    if (groups_.dpRank == 1 && run_.mistake == Mistake::ReusedBucket) {
      static_cast<float*>(p.trainer->gradient(0).data)[0] += 1;
    }
  }
  /// Tied: embedding and head both get the sum of their gradients, wherever the other one is.
  void tie() {
    if (!layout_.tied) return;
    const tuttiTensor_t *embedding = nullptr, *head = nullptr;
    tuttiTensor_t views[2];
    for (Part& p : parts_) {
      if (p.model->embedding() >= 0)
        embedding = &(views[0] = p.trainer->gradient(static_cast<size_t>(p.model->embedding())));
      if (p.model->head() >= 0) head = &(views[1] = p.trainer->gradient(static_cast<size_t>(p.model->head())));
    }
    if (embedding == nullptr && head == nullptr) return;
    const tuttiTensor_t& mine = embedding != nullptr ? *embedding : *head;
    const size_t count = static_cast<size_t>(mine.shape[0] * mine.shape[1]);
    Room<float> other(count);
    if (embedding != nullptr && head != nullptr) {
      copyTo(other.vector(), flat(*head));
    } else {
      const int peer = stageRank_[embedding != nullptr ? 1 : 0];
      const tuttiStream_t stream = Place::current().stream();
      callComm(tuttiGroupStart(), groups_.pp);
      callComm(tuttiSend(mine.data, count, tuttiFloat32, peer, groups_.pp, stream), groups_.pp);
      callComm(tuttiRecv(other.data(), count, tuttiFloat32, peer, groups_.pp, stream), groups_.pp);
      callComm(tuttiGroupEnd(), groups_.pp);
    }
    if (run_.mistake == Mistake::UnreducedTie) return;
    addTo(flat(mine), other.vector());
    if (embedding != nullptr && head != nullptr) copyTo(flat(*head), flat(*embedding));
  }
  double update() {
    std::vector<tuttiTensor_t> counted;
    for (Part& p : parts_) {
      if (p.trainer->clips()) return p.trainer->update(1);  // the one part there is
      const std::vector<tuttiTensor_t> more = p.trainer->finish();
      counted.insert(counted.end(), more.begin(), more.end());
    }
    tie();
    double squares = 0;
    call(tuttiSumOfSquares(counted.data(), counted.size(), world_, &squares));
    const double norm = std::sqrt(squares), scale = run_.clip > 0 && norm > run_.clip ? run_.clip / norm : 1;
    for (Part& p : parts_) p.trainer->update(scale);
    return norm;
  }

  Shape shape_;
  Layout layout_;
  Run run_;
  const std::string& text_;
  tuttiComm_t world_;
  Groups groups_;
  int first_ = 0, count_ = 0, last_ = 0, step_ = 0;
  int stageRank_[2] = {0, 0};  // along the pipeline: of the first and of the last stage
  std::unique_ptr<tuttiSchedule, decltype(&tuttiScheduleDestroy)> schedule_{nullptr, &tuttiScheduleDestroy};
  std::vector<Part> parts_;
  tuttiPipeline_t pipeline_ = nullptr;
  std::vector<double> losses_;
  std::string complaint_;
};

std::unique_ptr<Rank> makeRank(const Shape& shape, const Layout& layout, const Run& run, const std::string& text,
                               tuttiComm_t world, bool overlap) {
  try {
    return std::make_unique<Rank>(shape, layout, run, text, world, overlap);
  } catch (const std::exception& error) {
    throw Refused(error.what());
  }
}

}  // namespace

Outcome train(const Shape& shape, const Layout& layout, const Run& run, const std::string& text, tuttiComm_t world,
              bool overlap) {
  checkLayout(shape, layout, run);
  const Place place(run.device);
  const std::unique_ptr<Rank> made = makeRank(shape, layout, run, text, world, overlap);
  Rank& rank = *made;
  Outcome outcome;
  outcome.stepMs = outcome.exposedMs = outcome.communicationMs = 1e30;
  Rank::Moved before;
  for (int step = 0; step < run.steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    rank.step(step, &outcome);
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
    outcome.stepMs = std::min(outcome.stepMs, ms);
    rank.times(&outcome);
    if (step == 0) before = rank.counted();  // the first step goes through other buckets than the next
  }
  Rank::Moved moved = rank.counted();
  const Rank::Moved expected = rank.expected();
  const double steps = run.steps - 1;
  const tuttiTraffic_t none = TUTTI_TRAFFIC_INITIALIZER;
  outcome.bytesAgree = agree(moved.dp, before.dp, expected.dp, steps) &&
                       agree(moved.tp, before.tp, expected.tp, steps) &&
                       agree(moved.pp, before.pp, expected.pp, steps) && agree(moved.ep, none, expected.ep, 1);
  outcome.sentBytes = steps > 0 ? (moved.wire() - before.wire()) / steps : before.wire();
  outcome.expectedBytes = expected.wire();
  rank.collectValues(&outcome);
  return outcome;
}

Outcome trainOnThreads(const Shape& shape, const Layout& layout, const Run& run, const std::string& text,
                       bool overlap) {
  const int n = layout.ranks();
  checkLayout(shape, layout, run);
  if (n == 1) return train(shape, layout, run, text, nullptr, overlap);
  tuttiUniqueId id;
  callComm(tuttiGetUniqueId(&id), nullptr);
  std::vector<Outcome> outcomes(static_cast<size_t>(n));
  std::vector<std::string> complaints(outcomes.size());
  std::atomic<int> refusals = 0, unmade = 0,
                   others = 0;  // ranks: that refused, that were not let in, that failed later
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      tuttiComm_t comm = nullptr;
      try {
        tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
        config.device = run.device;
        callComm(tuttiCommInitRankConfig(&comm, n, id, r, &config), nullptr);
        outcomes[static_cast<size_t>(r)] = train(shape, layout, run, text, comm, overlap);
        callComm(tuttiCommDestroy(comm), nullptr);
      } catch (const std::exception& error) {
        complaints[static_cast<size_t>(r)] = error.what();
        (dynamic_cast<const Refused*>(&error) != nullptr ? refusals : comm == nullptr ? unmade : others) += 1;
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
  if (refusals > 0 && others == 0) throw Refused(all);
  if (!all.empty()) throw std::runtime_error(all);
  return outcomes[0];
}

}  // namespace gpt
