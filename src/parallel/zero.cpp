// The order of gathers, sums and updates over units.
#include "tutti/parallel/zero.h"

#include <algorithm>

#include "src/parallel/zero_unit.hpp"

using namespace tutti::parallel;

struct tuttiZero {
  virtual ~tuttiZero() = default;
  virtual void value(size_t parameter, tuttiTensor_t* view) = 0;
  virtual void gradient(size_t parameter, tuttiTensor_t* view) = 0;
  virtual void begin() = 0;
  virtual void unshard(int unit) = 0;
  virtual void reshard(int unit, bool afterForward) = 0;
  virtual void ready(size_t parameter) = 0;
  virtual void step(double* norm) = 0;
  virtual void owned(size_t parameter, int64_t* begin, int64_t* end, tuttiTensor_t* values) = 0;
  virtual void ownedState(size_t parameter, int state, tuttiTensor_t* values) = 0;
  virtual void loaded(int64_t steps) = 0;
  virtual void report(tuttiZeroReport_t* report) = 0;
  tuttiZeroConfig_t config = TUTTI_ZERO_CONFIG_INITIALIZER;
  virtual bool midway() const = 0;                                   // in a step: others may wait for this rank
  tuttiComm_t comm = nullptr, replicas = nullptr, parent = nullptr;  // private copies; what comm is a copy of
};

namespace tutti::parallel {
namespace {

template <class T>
class ZeroOf final : public tuttiZero {
 public:
  ZeroOf(std::shared_ptr<Device> device, tuttiComm_t own, tuttiComm_t ownReplicas, const tuttiParameter_t* parameters,
         const std::vector<int>& units, const tuttiZeroConfig_t& c, const SumPlan& plan)
      : device_(std::move(device)),
        group_(own, *device_),
        replicas_(ownReplicas, *device_),
        plan_(plan),
        sender_(*device_, c.overlap && (group_.size() > 1 || replicas_.size() > 1)) {
    comm = own;
    replicas = ownReplicas;
    config = c;
    plan_.scale /= replicas_.size();
    for (size_t p = 0; p < units.size(); ++p) {
      parameters_.push_back({parameters[p].value, parameters[p].flags, units[p], 0});
    }
    layOut(parameters);
    group_.traffic = TUTTI_TRAFFIC_INITIALIZER;
    isReady_.assign(parameters_.size(), false);
  }

  bool midway() const override { return microBatch_ != 0; }
  void value(size_t p, tuttiTensor_t* view) override {
    const Parameter& parameter = parameterAt(p);
    Unit& unit = *units_[static_cast<size_t>(parameter.unit)];
    if (config.stage == 3 && !unit.gathering.valid()) {
      fail(tuttiInvalidUsage, "parameter ", p, ": unit ", parameter.unit, " is not unsharded");
    }
    *view = parameter.value;
    view->dtype = config.values == tuttiBfloat16 ? tuttiBfloat16 : dtypeOf<T>();
    view->data = unit.values() + parameter.offset * unit.valueBytes();
  }
  void gradient(size_t p, tuttiTensor_t* view) override {
    const Parameter& parameter = parameterAt(p);
    Unit& unit = *units_[static_cast<size_t>(parameter.unit)];
    if (microBatch_ == 0) fail(tuttiInvalidUsage, "gradients are added to between tuttiZeroBegin and tuttiZeroStep");
    if (config.stage >= 2 && unit.missing == 0 && !unit.holdsGradient()) {
      fail(tuttiInvalidUsage, "parameter ", p, ": gradients of unit ", parameter.unit, " have been summed");
    }
    *view = parameter.value;
    view->data = unit.gradient() + parameter.offset;
  }

  void begin() override {
    if (microBatch_ == config.microBatches) {
      fail(tuttiInvalidUsage, "all ", microBatch_, " micro-batches of this step have begun; tuttiZeroStep comes next");
    }
    if (microBatch_ > 0) checkAllReady();
    if (microBatch_ == 0) {
      for (auto& unit : units_) unit->clear();
      sender_.busyMs = exposedMs_ = 0;
    }
    ++microBatch_;
    std::fill(isReady_.begin(), isReady_.end(), false);
    for (auto& unit : units_) {
      if (config.stage >= 2) collect(*unit);
      unit->missing = unit->parameters;
    }
  }

  void unshard(int u) override {
    Unit& unit = unitAt(u);
    if (config.stage < 3) return;
    const int direction = u < last_ || (u == last_ && u > 0) ? -1 : 1;  // the last unit of forward is backward's first
    last_ = u;
    for (int ahead = 0; ahead <= config.prefetch; ++ahead) {
      const int next = u + direction * ahead;
      if (next < 0 || next >= static_cast<int>(units_.size())) break;
      Unit& wanted = *units_[static_cast<size_t>(next)];
      if (wanted.gathering.valid()) continue;
      wanted.makeRoom();
      wanted.gathering = sender_.send([this, &wanted] { wanted.gather(group_); });
    }
    wait(unit.gathering);
  }
  void reshard(int u, bool afterForward) override {
    Unit& unit = unitAt(u);
    if (config.stage < 3 || !unit.gathering.valid() || (afterForward && !config.reshardAfterForward)) return;
    // The turn from forward to backward asks for this unit next: it stays.
    if (afterForward && u + 1 == static_cast<int>(units_.size()) && units_.size() > 1 && config.prefetch > 0) return;
    drop(unit);
  }

  void ready(size_t p) override {
    const Parameter& parameter = parameterAt(p);
    if (microBatch_ == 0) fail(tuttiInvalidUsage, "tuttiZeroGradReady before tuttiZeroBegin");
    if (isReady_[p]) fail(tuttiInvalidUsage, "the gradient of parameter ", p, " is ready twice in one micro-batch");
    isReady_[p] = true;
    Unit& unit = *units_[static_cast<size_t>(parameter.unit)];
    unit.gradient();
    unit.takeIn(parameter.offset, static_cast<size_t>(elementsOf(parameter.value)));
    if (--unit.missing > 0) return;
    unit.endMicroBatch();
    if (config.stage >= 2) {
      unit.reducing.push_back(sender_.send([this, &unit] { unit.reduceMicroBatch(group_); }));
      // At most two units' gradients are whole: this one on its way, and the next one to be computed.
      if (sending_ != nullptr && sending_ != &unit) collect(*sending_);
      sending_ = &unit;
    } else if (microBatch_ == config.microBatches) {
      unit.reducing.push_back(sender_.send([this, &unit] { unit.reduceStep(group_, replicas_); }));
    }
  }

  void step(double* norm) override {
    if (microBatch_ != config.microBatches) {
      fail(tuttiInvalidUsage, "micro-batch ", microBatch_, " of ", config.microBatches, " was the last to begin");
    }
    checkAllReady();
    group_.throwIfFailed();
    for (auto& unit : units_) {
      collect(*unit);
      if (config.stage >= 2) wait(sender_.send([this, &unit] { unit->finishSum(replicas_); }));
      if (config.stage == 3) drop(*unit);
    }
    if (norm != nullptr || config.clip > 0) measure();
    if (norm != nullptr) getBytes(*device_, norm, length_.data(), sizeof(double));
    const double* scale = config.clip > 0 ? length_.data() + 1 : nullptr;
    ++steps_;
    for (const Parameter& p : parameters_) {
      units_[static_cast<size_t>(p.unit)]->update(config.optimizer, steps_, scale,
                                                  (p.flags & TUTTI_PARAMETER_NO_DECAY) == 0, p.offset,
                                                  p.offset + static_cast<size_t>(elementsOf(p.value)));
    }
    if (config.stage == 1 || config.stage == 2) {
      for (auto& unit : units_) wait(sender_.send([this, &unit] { unit->gather(group_); }));
    }
    microBatch_ = 0;
    last_ = -1;
  }

  void owned(size_t p, int64_t* from, int64_t* to, tuttiTensor_t* values) override {
    const Parameter& parameter = parameterAt(p);
    Unit& unit = *units_[static_cast<size_t>(parameter.unit)];
    const auto [begin, end] = ownedOf(parameter);
    *from = static_cast<int64_t>(begin - parameter.offset);
    *to = static_cast<int64_t>(end - parameter.offset);
    if (values == nullptr) return;
    *values = vectorOf(begin < end ? unit.ownValues() + (begin - unit.begin()) : nullptr, end - begin);
  }

  void ownedState(size_t p, int state, tuttiTensor_t* values) override {
    const Parameter& parameter = parameterAt(p);
    require(state >= 0 && state < statesOf(config.optimizer.kind), "the optimizer has no state ", state);
    Unit& unit = *units_[static_cast<size_t>(parameter.unit)];
    const auto [begin, end] = ownedOf(parameter);
    *values = vectorOf(begin < end ? unit.ownState(state) + (begin - unit.begin()) : nullptr, end - begin);
  }
  void loaded(int64_t steps) override {
    if (microBatch_ != 0) fail(tuttiInvalidUsage, "values are loaded between steps");
    const tuttiTraffic_t counted = group_.traffic;
    for (auto& unit : units_) wait(sender_.send([this, &unit] { unit->shareOwned(group_); }));
    group_.traffic = counted;  // not a step's
    steps_ = steps;
  }

  void report(tuttiZeroReport_t* theirs) override {
    tuttiZeroReport_t r = TUTTI_ZERO_REPORT_INITIALIZER;
    r.bytesNow = bytes_.now;
    r.bytesPeak = bytes_.peak;
    r.communicationMs = sender_.busyMs;
    r.exposedMs = sender_.threaded() ? exposedMs_ : sender_.busyMs;
    r.traffic = group_.traffic;
    addTraffic(r.traffic, replicas_.traffic);
    expect(r);
    giveStruct(r, theirs);
  }

 private:
  using Unit = ZeroUnit<T>;
  struct Parameter {
    tuttiTensor_t value;  // its shape
    unsigned flags;
    int unit;
    size_t offset;
  };

  /// Offsets in units, and the values there.
  void layOut(const tuttiParameter_t* parameters) {
    const int nUnits = parameters_.empty() ? 0 : parameters_.back().unit + 1;
    size_t p = 0;
    for (int u = 0; u < nUnits; ++u) {
      const size_t first = p;
      size_t count = 0;
      for (; p < parameters_.size() && parameters_[p].unit == u; ++p) {
        parameters_[p].offset = count;
        count += static_cast<size_t>(elementsOf(parameters_[p].value));
      }
      Array<T> flat(*device_, count, Array<T>::Any);
      for (size_t q = first; q < p; ++q) {
        const tuttiTensor_t& value = parameters[q].value;
        copyBytes(*device_, flat.data() + parameters_[q].offset, value.data,
                  static_cast<size_t>(elementsOf(value)) * sizeof(T));
      }
      if (config.broadcast) {
        group_.broadcast(flat.data(), flat.size(), dtypeOf<T>(), 0);
        replicas_.broadcast(flat.data(), flat.size(), dtypeOf<T>(), 0);
      }
      units_.push_back(
          std::make_unique<Unit>(*device_, flat.size(), config, plan_, group_.rank(), group_.size(), bytes_));
      units_.back()->parameters = p - first;
      units_.back()->fill(flat.data());
    }
    replicas_.traffic = TUTTI_TRAFFIC_INITIALIZER;
  }

  const Parameter& parameterAt(size_t p) const {
    require(p < parameters_.size(), "there is no parameter ", p);
    return parameters_[p];
  }
  Unit& unitAt(int u) {
    require(u >= 0 && u < static_cast<int>(units_.size()), "there is no unit ", u);
    return *units_[static_cast<size_t>(u)];
  }
  std::pair<size_t, size_t> ownedOf(const Parameter& p) const {
    const Unit& unit = *units_[static_cast<size_t>(p.unit)];
    const size_t last = p.offset + static_cast<size_t>(elementsOf(p.value));
    const size_t begin = std::clamp(unit.begin(), p.offset, last);
    return {begin, std::clamp(unit.begin() + unit.mine(), begin, last)};
  }
  void checkAllReady() const {
    for (size_t p = 0; p < isReady_.size(); ++p) {
      if (!isReady_[p]) fail(tuttiInvalidUsage, "parameter ", p, " has no gradient in micro-batch ", microBatch_);
    }
  }

  void wait(const Sender::Sent& sent) {
    const auto start = std::chrono::steady_clock::now();
    sender_.wait(sent);
    if (device_->onHost()) exposedMs_ += millisecondsSince(start);
  }
  tuttiTensor_t vectorOf(T* data, size_t count) const {
    tuttiTensor_t vector = tuttiVectorOf(data, dtypeOf<T>(), static_cast<int64_t>(count));
    vector.device = kindOf(*device_);
    return vector;
  }
  /// The unit's sums are done, and the gradients that went into them may go.
  void collect(Unit& unit) {
    for (const Sender::Sent& sent : unit.reducing) wait(sent);
    unit.reducing.clear();
    if (config.stage >= 2) unit.freeGradient();
  }
  void drop(Unit& unit) {
    if (unit.gathering.valid()) wait(unit.gathering);
    unit.gathering = {};
    unit.freeValues();
  }

  /// length_: of the averaged gradient over all ranks; what it is multiplied by so that it is no longer than
  /// config.clip.
  void measure() {
    Array<uint64_t> limbs(*device_, kernels::kLimbs);
    for (const Parameter& p : parameters_) {
      const auto [begin, end] = ownedOf(p);
      const bool copy = (p.flags & TUTTI_PARAMETER_COUNTED_ELSEWHERE) != 0;
      if (begin >= end || copy || (config.norm != nullptr && replicas_.rank() != 0)) continue;
      Unit& unit = *units_[static_cast<size_t>(p.unit)];
      launch<T, Kernel::Squares>(*device_, {unit.ownGradient() + (begin - unit.begin()), limbs.data(), end - begin});
    }
    Group over(config.norm != nullptr ? config.norm : comm, *device_);
    over.allReduce(limbs.data(), limbs.size(), tuttiUint64, tuttiSum);
    if (length_.empty()) length_ = Array<double>(*device_, 2);
    launch<double, Kernel::Clip>(*device_, {limbs.data(), length_.data(), config.clip});
  }

  void expect(tuttiZeroReport_t& r) const {
    const int m = config.microBatches;
    size_t mostValues = 0;
    std::vector<size_t> gradients = {0, 0};
    for (size_t u = 0; u < units_.size(); ++u) {
      // The last unit stays between forward and backward where it is prefetched.
      const bool stays = u + 1 == units_.size() && units_.size() > 1 && config.prefetch > 0;
      const int gathers =
          config.stage == 3 ? (config.reshardAfterForward && !stays ? 2 * m : m) : (config.stage == 0 ? 0 : 1);
      units_[u]->predict(r.expected, group_, gathers, config.stage >= 2 ? m : 1);
      if (replicas_.size() > 1) {
        countCall(r.expected, tuttiCallAllReduce, replicas_.size(),
                  (config.stage == 0 ? units_[u]->count() : units_[u]->mine()) * sizeof(T));
      }
      r.bytesExpected += units_[u]->expectedBytes();
      size_t values = 0;
      for (size_t next = u;
           next < units_.size() && (next <= u + static_cast<size_t>(config.prefetch) || !config.reshardAfterForward);
           ++next) {
        values += units_[next]->wholeValues();
      }
      mostValues = std::max(mostValues, values);
      gradients.push_back(units_[u]->wholeGradient());
    }
    std::sort(gradients.rbegin(), gradients.rend());
    r.bytesPeakExpected = r.bytesExpected + mostValues + gradients[0] + gradients[1];
  }

  std::shared_ptr<Device> device_;  // first: ends after what lies in its memory
  Group group_, replicas_;
  SumPlan plan_;
  ByteCount bytes_;
  std::vector<Parameter> parameters_;
  std::vector<std::unique_ptr<Unit>> units_;
  std::vector<bool> isReady_;
  int microBatch_ = 0, last_ = -1;
  Unit* sending_ = nullptr;
  Array<double> length_;
  int64_t steps_ = 0;
  double exposedMs_ = 0;
  Sender sender_;  // last: ends before what it works on
};

std::vector<int> checkedUnits(const int* units, size_t n) {
  std::vector<int> found(n, 0);
  for (size_t p = 0; p < n && units != nullptr; ++p) {
    found[p] = units[p];
    const int before = p == 0 ? -1 : found[p - 1];
    require(units[p] == before + 1 || (p > 0 && units[p] == before), "units[", p, "] is ", units[p], " after ", before);
  }
  return found;
}

void checkConfig(const tuttiZeroConfig_t& c, tuttiDataType_t dtype) {
  require(c.stage >= 0 && c.stage <= 3, "there is no stage ", c.stage);
  require(c.microBatches >= 1, "microBatches is ", c.microBatches);
  require(c.prefetch >= 0, "prefetch is ", c.prefetch);
  require(c.clip >= 0, "clip is ", c.clip);
  require(c.values == tuttiNumTypes || c.values == dtype || (c.values == tuttiBfloat16 && dtype == tuttiFloat32),
          "values cannot be kept in dtype ", static_cast<int>(c.values));
  require(c.optimizer.kind >= tuttiSgd && c.optimizer.kind <= tuttiAdamW, "there is no optimizer ", c.optimizer.kind);
  require(c.replicas == nullptr || c.numerics == tuttiNumericsFast, "hybrid sharding sums in fast numerics only");
}

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiZeroCreate(tuttiZero_t* zero, tuttiComm_t comm, const tuttiParameter_t* parameters,
                              const int* unitOf, size_t n, const tuttiZeroConfig_t* config) {
  return guardedIf(zero != nullptr && (parameters != nullptr || n == 0), "zero or parameters is NULL", [&] {
    *zero = nullptr;
    const auto c = takeConfig<tuttiZeroConfig_t>(config, TUTTI_ZERO_CONFIG_INITIALIZER, "config");
    const tuttiDataType_t dtype = n > 0 ? parameters[0].value.dtype : tuttiFloat32;
    checkComputed(dtype, "a parameter");
    checkConfig(c, dtype);
    const std::shared_ptr<Device> device = deviceOf(comm, n > 0 ? parameters[0].value.device : TUTTI_DEVICE_HOST);
    for (size_t i = 0; i < n; ++i) {
      checkContiguous(&parameters[i].value, "a parameter", elementsOf(parameters[i].value), dtype, kindOf(*device));
    }
    const std::vector<int> units = checkedUnits(unitOf, n);
    Group group(comm, *device), replicas(c.replicas, *device);
    compareParameters(group, parameters, n);
    const SumPlan plan = agreeOnSums(group, c.microBatches, 1, true, c.numerics, tuttiWireExact, false, dtype);
    for (int r = 0; r < group.size() && c.stage >= 2; ++r) {
      require(plan.mine(r) == c.microBatches, "stages 2 and 3 sum after each micro-batch: rank ", r, " has ",
              plan.mine(r), ", this one ", c.microBatches);
    }
    tuttiComm_t own = nullptr, ownReplicas = nullptr;
    if (group.size() > 1) own = splitFrom(comm, 0, group.rank());
    try {
      if (replicas.size() > 1) ownReplicas = splitFrom(c.replicas, 0, replicas.rank());
      withType(dtype, [&](auto one) {
        *zero = new ZeroOf<decltype(one)>(device, own, ownReplicas, parameters, units, c, plan);
      });
      (*zero)->parent = comm;
    } catch (...) {
      for (const tuttiComm_t made : {own, ownReplicas}) endPrivate(made, true);
      throw;
    }
  });
}

tuttiResult_t tuttiZeroDestroy(tuttiZero_t zero) {
  return guarded([&] {
    if (zero == nullptr) return;
    const bool midway = zero->midway() || hasFailed(zero->parent);
    const tuttiComm_t all[] = {zero->comm, zero->replicas};
    for (const tuttiComm_t own : all) stopPrivate(midway ? own : nullptr);
    delete zero;
    for (const tuttiComm_t own : all) endPrivate(own, midway);
  });
}

#define TUTTI_ON_ZERO(...)                          \
  return guarded([&] {                              \
    require(zero != nullptr, "the handle is NULL"); \
    __VA_ARGS__;                                    \
  })

tuttiResult_t tuttiZeroValue(tuttiZero_t zero, size_t parameter, tuttiTensor_t* value) {
  TUTTI_ON_ZERO(require(value != nullptr, "value is NULL"), zero->value(parameter, value));
}
tuttiResult_t tuttiZeroGradient(tuttiZero_t zero, size_t parameter, tuttiTensor_t* gradient) {
  TUTTI_ON_ZERO(require(gradient != nullptr, "gradient is NULL"), zero->gradient(parameter, gradient));
}
tuttiResult_t tuttiZeroBegin(tuttiZero_t zero) { TUTTI_ON_ZERO(zero->begin()); }
tuttiResult_t tuttiZeroUnshard(tuttiZero_t zero, int unit) { TUTTI_ON_ZERO(zero->unshard(unit)); }
tuttiResult_t tuttiZeroReshard(tuttiZero_t zero, int unit, int afterForward) {
  TUTTI_ON_ZERO(zero->reshard(unit, afterForward != 0));
}
tuttiResult_t tuttiZeroGradReady(tuttiZero_t zero, size_t parameter) { TUTTI_ON_ZERO(zero->ready(parameter)); }
tuttiResult_t tuttiZeroStep(tuttiZero_t zero, double* norm) { TUTTI_ON_ZERO(zero->step(norm)); }
tuttiResult_t tuttiZeroSetLearningRate(tuttiZero_t zero, double learningRate) {
  TUTTI_ON_ZERO(zero->config.optimizer.learningRate = learningRate);
}
tuttiResult_t tuttiZeroOwned(tuttiZero_t zero, size_t parameter, int64_t* begin, int64_t* end, tuttiTensor_t* values) {
  TUTTI_ON_ZERO(require(begin != nullptr && end != nullptr, "begin or end is NULL"),
                zero->owned(parameter, begin, end, values));
}
tuttiResult_t tuttiZeroOwnedState(tuttiZero_t zero, size_t parameter, int state, tuttiTensor_t* values) {
  TUTTI_ON_ZERO(require(values != nullptr, "values is NULL"), zero->ownedState(parameter, state, values));
}
tuttiResult_t tuttiZeroLoaded(tuttiZero_t zero, int64_t steps) {
  TUTTI_ON_ZERO(require(steps >= 0, "steps is ", steps), zero->loaded(steps));
}
tuttiResult_t tuttiZeroReport(tuttiZero_t zero, tuttiZeroReport_t* report) {
  TUTTI_ON_ZERO(require(report != nullptr && report->size >= sizeof(size_t), "report is NULL"), zero->report(report));
}
