// Training steps of a chain of matrices with rectified linear units, cut over ranks in four ways.  What communication
// costs is a step's time less that of the same computation on all ranks at once without it.
#include <cmath>
#include <functional>
#include <memory>

#include "perf/layers/layers.hpp"

namespace tutti::perf {
namespace {

tuttiTensor_t matrixAt(float* data, int64_t rows, int64_t columns) {
  return tuttiMatrixOf(data, tuttiFloat32, rows, columns, columns);
}

/// Layers [0, n) of width x width: their weights, one micro-batch's activations, gradients.
struct Chain {
  int64_t n, rows, width;
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  std::vector<std::vector<float>> weights, gradients, x;
  std::vector<float> dy, dx;

  Chain(int64_t layers, int64_t of, int64_t w) : n(layers), rows(of), width(w) {
    parallelTry(tuttiKernelsFast(&kernels));
    const size_t square = static_cast<size_t>(w * w), part = static_cast<size_t>(of * w);
    for (int64_t l = 0; l < n; ++l) {
      weights.emplace_back(square);
      for (size_t i = 0; i < square; ++i) {
        weights.back()[i] = std::sin(static_cast<float>(i + 1)) / std::sqrt(static_cast<float>(w));
      }
    }
    gradients.assign(static_cast<size_t>(n), std::vector<float>(square));
    x.assign(static_cast<size_t>(n) + 1, std::vector<float>(part, 0.5f));
    dy.assign(part, 1.0f / static_cast<float>(part));
    dx.resize(part);
  }
  void multiply(bool ta, bool tb, bool add, int64_t m, int64_t c, int64_t k, const float* a, const float* b,
                float* to) {
    const tuttiMatmul_t call{tuttiFloat32, ta, tb, add, m, c, k, a, b, to, ta ? m : k, tb ? k : c, c};
    parallelTry(kernels.matmul(kernels.context, &call));
  }
  void forward(int64_t l, const float* w) {
    std::vector<float>& y = x[static_cast<size_t>(l) + 1];
    multiply(false, true, false, rows, width, width, x[static_cast<size_t>(l)].data(), w, y.data());
    for (float& v : y) v = v > 0 ? v : 0;
  }
  void backward(int64_t l, const float* w, float* gradient) {
    const std::vector<float>& y = x[static_cast<size_t>(l) + 1];
    for (size_t i = 0; i < y.size(); ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
    multiply(true, false, true, width, width, rows, dy.data(), x[static_cast<size_t>(l)].data(), gradient);
    multiply(false, false, false, rows, width, width, dy.data(), w, dx.data());
    std::swap(dy, dx);
  }
  void startBackward() { std::fill(dy.begin(), dy.end(), 1.0f / static_cast<float>(dy.size())); }
  std::vector<tuttiParameter_t> parameters() {
    std::vector<tuttiParameter_t> list;
    for (auto& w : weights) list.push_back({"w", matrixAt(w.data(), width, width), 0});
    return list;
  }
};

tuttiOptimizer_t plainDescent() {
  tuttiOptimizer_t o = TUTTI_OPTIMIZER_INITIALIZER;
  o.kind = tuttiSgd;
  o.learningRate = 1e-3;
  o.weightDecay = 0;
  return o;
}

void update(Chain& c, int64_t l, const tuttiTensor_t& gradient) {
  const tuttiOptimizer_t o = plainDescent();
  const tuttiTensor_t value = matrixAt(c.weights[static_cast<size_t>(l)].data(), c.width, c.width);
  parallelTry(tuttiOptimizerUpdate(&o, 1, 1, 0, &value, &gradient, nullptr, nullptr));
}

void stepAlone(Chain& c) {
  for (auto& g : c.gradients) std::fill(g.begin(), g.end(), 0.0f);
  for (int64_t l = 0; l < c.n; ++l) c.forward(l, c.weights[static_cast<size_t>(l)].data());
  c.startBackward();
  for (int64_t l = c.n; l-- > 0;) {
    c.backward(l, c.weights[static_cast<size_t>(l)].data(), c.gradients[static_cast<size_t>(l)].data());
  }
  for (int64_t l = 0; l < c.n; ++l) {
    update(c, l, matrixAt(c.gradients[static_cast<size_t>(l)].data(), c.width, c.width));
  }
}

void stepData(Chain& c, tuttiDdp_t ddp) {
  parallelTry(tuttiDdpBegin(ddp));
  for (int64_t l = 0; l < c.n; ++l) c.forward(l, c.weights[static_cast<size_t>(l)].data());
  c.startBackward();
  tuttiTensor_t gradient;
  for (int64_t l = c.n; l-- > 0;) {
    parallelTry(tuttiDdpGradient(ddp, static_cast<size_t>(l), &gradient));
    c.backward(l, c.weights[static_cast<size_t>(l)].data(), static_cast<float*>(gradient.data));
    parallelTry(tuttiDdpGradReady(ddp, static_cast<size_t>(l)));
  }
  parallelTry(tuttiDdpFinish(ddp));
  for (int64_t l = 0; l < c.n; ++l) {
    parallelTry(tuttiDdpGradient(ddp, static_cast<size_t>(l), &gradient));
    update(c, l, gradient);
  }
}

void stepSharded(Chain& c, tuttiZero_t zero) {
  tuttiTensor_t value, gradient;
  parallelTry(tuttiZeroBegin(zero));
  for (int64_t l = 0; l < c.n; ++l) {
    parallelTry(tuttiZeroUnshard(zero, static_cast<int>(l)));
    parallelTry(tuttiZeroValue(zero, static_cast<size_t>(l), &value));
    c.forward(l, static_cast<const float*>(value.data));
    parallelTry(tuttiZeroReshard(zero, static_cast<int>(l), 1));
  }
  c.startBackward();
  for (int64_t l = c.n; l-- > 0;) {
    parallelTry(tuttiZeroUnshard(zero, static_cast<int>(l)));
    parallelTry(tuttiZeroValue(zero, static_cast<size_t>(l), &value));
    parallelTry(tuttiZeroGradient(zero, static_cast<size_t>(l), &gradient));
    c.backward(l, static_cast<const float*>(value.data), static_cast<float*>(gradient.data));
    parallelTry(tuttiZeroGradReady(zero, static_cast<size_t>(l)));
    parallelTry(tuttiZeroReshard(zero, static_cast<int>(l), 0));
  }
  parallelTry(tuttiZeroStep(zero, nullptr));
}

/// Pairs of a column and a row layer; comm NULL: of this rank's part alone.
class TensorPairs {
 public:
  TensorPairs(const LayerOptions& o, tuttiComm_t comm, int nRanks, int tiles)
      : rows_(o.rows * nRanks), width_(o.width), hidden_(o.width / nRanks), pairs_(std::max<int64_t>(o.layers / 2, 1)) {
    tuttiTpConfig_t config = TUTTI_TP_CONFIG_INITIALIZER;
    config.tiles = tiles;
    tp_ = std::make_unique<Tp>(tuttiTpCreate, comm, &config);
    tuttiLinearConfig_t in = TUTTI_LINEAR_CONFIG_INITIALIZER, out = in;
    in.inputs = width_, in.outputs = comm == nullptr ? hidden_ : hidden_ * nRanks;
    out.inputs = in.outputs, out.outputs = width_;
    column_ = std::make_unique<Linear>(tuttiColumnLinearCreate, tp_->get(), &in);
    row_ = std::make_unique<Linear>(tuttiRowLinearCreate, tp_->get(), &out);
    const auto room = [](int64_t n) { return std::vector<float>(static_cast<size_t>(n), 1e-3f); };
    up_ = dup_ = down_ = ddown_ = room(width_ * hidden_);
    x_ = y_ = dx_ = room(rows_ * width_);
    h_ = dh_ = room(rows_ * hidden_);
  }
  void step() {
    const tuttiTensor_t x = matrixAt(x_.data(), rows_, width_), y = matrixAt(y_.data(), rows_, width_);
    const tuttiTensor_t dx = matrixAt(dx_.data(), rows_, width_), h = matrixAt(h_.data(), rows_, hidden_);
    const tuttiTensor_t dh = matrixAt(dh_.data(), rows_, hidden_), up = matrixAt(up_.data(), hidden_, width_);
    const tuttiTensor_t dup = matrixAt(dup_.data(), hidden_, width_), down = matrixAt(down_.data(), width_, hidden_);
    const tuttiTensor_t ddown = matrixAt(ddown_.data(), width_, hidden_);
    for (int64_t p = 0; p < pairs_; ++p) {
      parallelTry(tuttiLinearForward(column_->get(), rows_, &x, &up, nullptr, &h));
      parallelTry(tuttiLinearForward(row_->get(), rows_, &h, &down, nullptr, &y));
    }
    for (int64_t p = 0; p < pairs_; ++p) {
      parallelTry(tuttiLinearBackward(row_->get(), rows_, &h, &down, &y, &dh, &ddown, nullptr));
      parallelTry(tuttiLinearBackward(column_->get(), rows_, &x, &up, &dh, &dx, &dup, nullptr));
    }
  }

 private:
  int64_t rows_, width_, hidden_, pairs_;
  std::unique_ptr<Tp> tp_;
  std::unique_ptr<Linear> column_, row_;
  std::vector<float> up_, dup_, down_, ddown_, x_, y_, dx_, h_, dh_;
};

/// A stage of the chain: its times are of forward and backward without waiting.
struct Stage {
  Chain chain;
  double forwardMs = 0, backwardMs = 0;
  tuttiStages_t calls() {
    tuttiStages_t s = TUTTI_STAGES_INITIALIZER;
    s.context = this;
    s.forward = [](void* self, int, int, const void* in, void* out) {
      return static_cast<Stage*>(self)->forward(in, out);
    };
    s.backward = [](void* self, int, int, const void* dout, void* din, int) {
      return static_cast<Stage*>(self)->backward(dout, din);
    };
    s.backwardWeight = [](void*, int, int) { return tuttiSuccess; };
    return s;
  }
  tuttiResult_t forward(const void* in, void* out) {
    const double start = nowMs();
    const size_t count = chain.x[0].size();
    if (in != nullptr) std::copy_n(static_cast<const float*>(in), count, chain.x[0].begin());
    for (int64_t l = 0; l < chain.n; ++l) chain.forward(l, chain.weights[static_cast<size_t>(l)].data());
    if (out != nullptr) std::copy_n(chain.x.back().begin(), count, static_cast<float*>(out));
    forwardMs += nowMs() - start;
    return tuttiSuccess;
  }
  tuttiResult_t backward(const void* dout, void* din) {
    const double start = nowMs();
    chain.startBackward();
    if (dout != nullptr) std::copy_n(static_cast<const float*>(dout), chain.dy.size(), chain.dy.begin());
    for (int64_t l = chain.n; l-- > 0;) {
      chain.backward(l, chain.weights[static_cast<size_t>(l)].data(), chain.gradients[static_cast<size_t>(l)].data());
    }
    if (din != nullptr) std::copy(chain.dy.begin(), chain.dy.end(), static_cast<float*>(din));
    backwardMs += nowMs() - start;
    return tuttiSuccess;
  }
};

/// Of a few rounds the least: what else the machine does adds to it.
struct Least {
  double ms = INFINITY;
  void take(double one) { ms = std::min(ms, one); }
};

class Table {
 public:
  explicit Table(const Ranks& w) : w_(w) {
    if (w.rank != 0) return;
    std::printf("%-26s %11s %11s %11s %11s %11s\n", "layer", "compute ms", "step ms", "overlapped", "exposed ms",
                "overlapped");
  }
  void row(const char* name, double alone, double without, double with) const {
    if (w_.rank != 0) return;
    std::printf("%-26s %11.2f %11.2f %11.2f %11.2f %11.2f\n", name, alone, without, with, without - alone,
                with - alone);
    std::fflush(stdout);
  }

 private:
  const Ranks& w_;
};

class Measurement {
 public:
  Measurement(const LayerOptions& options, const Ranks& ranks) : o_(options), w_(ranks) {}

  /// Milliseconds of the slowest rank's median step, ranks beginning together.
  double timed(const std::function<void()>& step) const {
    return overRanks(w_,
                     medianMs(o_.steps,
                              [&] {
                                check(tuttiBarrier(w_.comm, nullptr), "Barrier");
                                step();
                              }),
                     tuttiMax);
  }
  struct Row {
    Least alone, without, with;
  };
  Row rounds(const std::function<void()>& alone, const std::function<void()>& without,
             const std::function<void()>& with) const {
    Row row;
    for (int round = 0; round < o_.rounds; ++round) {
      row.alone.take(timed(alone));
      row.without.take(timed(without));
      row.with.take(timed(with));
    }
    return row;
  }

  Row data() const {
    Chain chain(o_.layers, o_.rows, o_.width);
    const auto parameters = chain.parameters();
    tuttiDdpConfig_t config = TUTTI_DDP_CONFIG_INITIALIZER;
    const Ddp with(tuttiDdpCreate, w_.comm, parameters.data(), parameters.size(), &config);
    config.overlap = 0;
    const Ddp without(tuttiDdpCreate, w_.comm, parameters.data(), parameters.size(), &config);
    return rounds([&] { stepAlone(chain); }, [&] { stepData(chain, without.get()); },
                  [&] { stepData(chain, with.get()); });
  }
  Row sharded() const {
    Chain chain(o_.layers, o_.rows, o_.width);
    const auto parameters = chain.parameters();
    std::vector<int> units;
    for (int l = 0; l < o_.layers; ++l) units.push_back(l);
    tuttiZeroConfig_t config = TUTTI_ZERO_CONFIG_INITIALIZER;
    config.stage = 3;
    config.optimizer = plainDescent();
    const Zero with(tuttiZeroCreate, w_.comm, parameters.data(), units.data(), parameters.size(), &config);
    config.overlap = 0;
    const Zero without(tuttiZeroCreate, w_.comm, parameters.data(), units.data(), parameters.size(), &config);
    return rounds([&] { stepAlone(chain); }, [&] { stepSharded(chain, without.get()); },
                  [&] { stepSharded(chain, with.get()); });
  }
  Row tensor() const {
    TensorPairs alone(o_, nullptr, w_.nRanks, 1), without(o_, w_.comm, w_.nRanks, 1), with(o_, w_.comm, w_.nRanks, 4);
    return rounds([&] { alone.step(); }, [&] { without.step(); }, [&] { with.step(); });
  }
  /// compute is what the schedule's bubble makes of measured forward and backward times; messages always overlap.
  Row pipeline() const {
    Stage stage{Chain(std::max<int64_t>(o_.layers / w_.nRanks, 1), o_.rows, o_.width)};
    const int microBatches = 4 * w_.nRanks;
    const Schedule schedule(tuttiScheduleCreate, "gpipe", w_.nRanks, 1, microBatches);
    const tuttiStages_t calls = stage.calls();
    const Pipeline pipeline(tuttiPipelineCreate, w_.comm, schedule.get(), stage.chain.x[0].size(), tuttiFloat32,
                            &calls);
    Row row;
    for (int round = 0; round < o_.rounds; ++round) {
      stage.forwardMs = stage.backwardMs = 0;
      const double step = timed([&] { parallelTry(tuttiPipelineStep(pipeline.get())); });
      const double calls1 = static_cast<double>(o_.steps + 1) * microBatches;
      tuttiSimulation_t s = TUTTI_SIMULATION_INITIALIZER;
      s.forward = overRanks(w_, stage.forwardMs / calls1, tuttiMax);
      s.backwardInput = overRanks(w_, stage.backwardMs / calls1, tuttiMax);
      s.backwardWeight = 0;
      parallelTry(tuttiScheduleSimulate(schedule.get(), &s));
      if (step < row.with.ms) row.alone.ms = s.total;
      row.with.take(step);
    }
    row.without.ms = NAN;
    return row;
  }

 private:
  const LayerOptions& o_;
  const Ranks& w_;
};

}  // namespace

void measureSteps(const LayerOptions& options) {
  const Ranks ranks = joinRanks();
  const Measurement m(options, ranks);
  if (options.dpOnly) {
    const Measurement::Row dp = m.data();
    if (ranks.rank == 0) std::printf("%.4f %.4f %.4f\n", dp.alone.ms, dp.without.ms, dp.with.ms);
  } else {
    if (ranks.rank == 0) {
      std::printf("%d ranks, %lld matrices of %lld x %lld float32, %lld rows per rank\n", ranks.nRanks,
                  static_cast<long long>(options.layers), static_cast<long long>(options.width),
                  static_cast<long long>(options.width), static_cast<long long>(options.rows));
    }
    const Table table(ranks);
    const auto print = [&](const char* name, const Measurement::Row& r) {
      table.row(name, r.alone.ms, r.without.ms, r.with.ms);
    };
    print("data parallel", m.data());
    print("zero 3", m.sharded());
    print("tensor parallel, 4 tiles", m.tensor());
    print("pipeline, gpipe", m.pipeline());
  }
  check(tuttiCommDestroy(ranks.comm), "CommDestroy");
}

}  // namespace tutti::perf
