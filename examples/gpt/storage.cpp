#include "examples/gpt/storage.hpp"

#include "examples/gpt/call.hpp"
#include "examples/gpt/expert_storage.hpp"

namespace gpt {
namespace {

tuttiOptimizer_t optimizerOf(const StorageOptions& options) {
  tuttiOptimizer_t o = TUTTI_OPTIMIZER_INITIALIZER;
  o.kind = options.sgd ? tuttiSgd : tuttiAdamW;
  o.learningRate = options.learningRate;
  return o;
}

unsigned flagsOf(const Parameter& p) {
  return (p.decays ? 0 : TUTTI_PARAMETER_NO_DECAY) | (p.copy ? TUTTI_PARAMETER_COUNTED_ELSEWHERE : 0);
}

/// The initial values of all parameters, and the list of them for the library.
template <class T>
struct Values {
  std::vector<Room<T>> data;
  std::vector<tuttiParameter_t> list;
  explicit Values(const std::vector<Parameter>& parameters) {
    for (const Parameter& p : parameters) data.emplace_back(initialValues<T>(p));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = parameters[i];
      const int64_t columns = p.column1 - p.column0;
      const tuttiDataType_t dtype = sizeof(T) == 4 ? tuttiFloat32 : tuttiFloat64;
      const tuttiTensor_t value = here(tuttiMatrixOf(data[i].data(), dtype, p.row1 - p.row0, columns, columns));
      list.push_back({p.name.c_str(), value, flagsOf(p)});
    }
  }
};

template <class T>
class Buckets final : public Trainer {
 public:
  Buckets(const std::vector<Parameter>& parameters, const StorageOptions& options)
      : values_(parameters), optimizer_(optimizerOf(options)) {
    tuttiDdpConfig_t config = TUTTI_DDP_CONFIG_INITIALIZER;
    config.numerics = options.invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
    config.microBatches = options.microBatches;
    config.overlap = options.overlap;
    config.average = options.average;
    config.guard = options.guard;
    call(tuttiDdpCreate(&ddp_, options.dp, values_.list.data(), values_.list.size(), &config));
    for (const Room<T>& v : values_.data) {
      first_.emplace_back(v.size());
      second_.emplace_back(v.size());
    }
    if (options.dp != nullptr) callComm(tuttiCommUserRank(options.dp, &rank_), options.dp);
  }
  ~Buckets() override { tuttiDdpDestroy(ddp_); }

  tuttiTensor_t value(size_t p) override { return values_.list[p].value; }
  tuttiTensor_t gradient(size_t p) override {
    tuttiTensor_t view;
    call(tuttiDdpGradient(ddp_, p, &view));
    return view;
  }
  void unshard(int) override {}
  void reshard(int, bool) override {}
  void ready(size_t p) override { call(tuttiDdpGradReady(ddp_, p)); }
  void begin() override { call(tuttiDdpBegin(ddp_)); }

  std::vector<tuttiTensor_t> finish() override {
    call(tuttiDdpFinish(ddp_));
    std::vector<tuttiTensor_t> counted;
    for (size_t p = 0; p < values_.list.size(); ++p) {
      const bool copy = rank_ != 0 || (values_.list[p].flags & TUTTI_PARAMETER_COUNTED_ELSEWHERE) != 0;
      if (!copy) counted.push_back(gradient(p));
    }
    return counted;
  }
  double update(double scale) override {
    ++steps_;
    for (size_t p = 0; p < values_.list.size(); ++p) {
      tuttiTensor_t m = values_.list[p].value, v = m;
      const tuttiTensor_t g = gradient(p);
      m.data = first_[p].data();
      v.data = second_[p].data();
      call(tuttiOptimizerUpdate(&optimizer_, steps_, scale, values_.list[p].flags, &values_.list[p].value, &g, &m, &v));
    }
    return 0;
  }
  bool clips() const override { return false; }
  void owned(size_t p, int64_t* begin, int64_t* end, tuttiTensor_t* values) override {
    *begin = 0;
    *end = rank_ == 0 ? static_cast<int64_t>(values_.data[p].size()) : 0;
    *values = here(tuttiVectorOf(values_.data[p].data(), values_.list[p].value.dtype, *end));
  }
  tuttiTraffic_t traffic() override { return report().traffic; }
  tuttiTraffic_t expected() override { return report().expected; }
  double communication() override { return report().communicationMs; }
  double exposed() override { return report().exposedMs; }

 private:
  tuttiDdpReport_t report() {
    tuttiDdpReport_t r = TUTTI_DDP_REPORT_INITIALIZER;
    call(tuttiDdpReport(ddp_, &r));
    return r;
  }
  Values<T> values_;
  tuttiOptimizer_t optimizer_;
  tuttiDdp_t ddp_ = nullptr;
  std::vector<Room<T>> first_, second_;
  int64_t steps_ = 0;
  int rank_ = 0;
};

template <class T>
class Sharded final : public Trainer {
 public:
  Sharded(const std::vector<Parameter>& parameters, const StorageOptions& options) {
    tuttiZeroConfig_t config = TUTTI_ZERO_CONFIG_INITIALIZER;
    config.stage = options.zero;
    config.numerics = options.invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
    config.microBatches = options.microBatches;
    config.overlap = options.overlap;
    config.clip = options.clip;
    config.norm = options.world;
    config.optimizer = optimizerOf(options);
    Values<T> values(parameters);
    std::vector<int> units;
    for (const Parameter& p : parameters) units.push_back(p.unit);
    call(tuttiZeroCreate(&zero_, options.dp, values.list.data(), units.data(), values.list.size(), &config));
  }
  ~Sharded() override { tuttiZeroDestroy(zero_); }

  tuttiTensor_t value(size_t p) override {
    tuttiTensor_t view;
    call(tuttiZeroValue(zero_, p, &view));
    return view;
  }
  tuttiTensor_t gradient(size_t p) override {
    tuttiTensor_t view;
    call(tuttiZeroGradient(zero_, p, &view));
    return view;
  }
  void unshard(int unit) override { call(tuttiZeroUnshard(zero_, unit)); }
  void reshard(int unit, bool afterForward) override { call(tuttiZeroReshard(zero_, unit, afterForward)); }
  void ready(size_t p) override { call(tuttiZeroGradReady(zero_, p)); }
  void begin() override { call(tuttiZeroBegin(zero_)); }
  std::vector<tuttiTensor_t> finish() override { return {}; }
  bool clips() const override { return true; }
  double update(double) override {
    double norm = 0;
    call(tuttiZeroStep(zero_, &norm));
    return norm;
  }
  void owned(size_t p, int64_t* begin, int64_t* end, tuttiTensor_t* values) override {
    call(tuttiZeroOwned(zero_, p, begin, end, values));
  }
  tuttiTraffic_t traffic() override { return report().traffic; }
  tuttiTraffic_t expected() override { return report().expected; }
  double communication() override { return report().communicationMs; }
  double exposed() override { return report().exposedMs; }

 private:
  tuttiZeroReport_t report() {
    tuttiZeroReport_t r = TUTTI_ZERO_REPORT_INITIALIZER;
    call(tuttiZeroReport(zero_, &r));
    return r;
  }
  tuttiZero_t zero_ = nullptr;
};

}  // namespace

StorageParts partsOf(const std::vector<Parameter>& parameters, const StorageOptions& options) {
  StorageParts parts{{}, {}, options, options};
  for (const Parameter& p : parameters) (p.expert ? parts.experts : parts.dense).push_back(p);
  parts.denseOptions.ep = parts.expertOptions.ep = 1;
  parts.expertOptions.dp = options.sameExperts;
  parts.expertOptions.average = false;
  if (options.invariant) parts.expertOptions.microBatches = options.ep;  // a leaf is then a rank's
  return parts;
}

template <class T>
std::unique_ptr<Trainer> makeTrainer(const std::vector<Parameter>& parameters, const StorageOptions& options) {
  if (options.ep > 1) {
    const StorageParts parts = partsOf(parameters, options);
    return std::make_unique<ExpertStorage<T>>(parameters, options, makeTrainer<T>(parts.dense, parts.denseOptions),
                                              makeTrainer<T>(parts.experts, parts.expertOptions));
  }
  if (options.zero < 0) return std::make_unique<Buckets<T>>(parameters, options);
  return std::make_unique<Sharded<T>>(parameters, options);
}
template std::unique_ptr<Trainer> makeTrainer<float>(const std::vector<Parameter>&, const StorageOptions&);
template std::unique_ptr<Trainer> makeTrainer<double>(const std::vector<Parameter>&, const StorageOptions&);

}  // namespace gpt
