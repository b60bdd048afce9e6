// Data parallelism with buckets.
#include <algorithm>
#include <memory>

#include "src/parallel/gradients.hpp"
#include "src/parallel/sender.hpp"
#include "tutti/parallel/dp.h"
#include "tutti/parallel/sums.h"

using namespace tutti::parallel;

namespace tutti::parallel {

/// Bytes from which an all-reduce reaches 80 % of the best bandwidth that the planner expects.
size_t kneeOfAllReduce(const Group& group) {
  constexpr size_t kLeast = size_t{1} << 18, kMost = size_t{1} << 26;
  if (group.size() == 1) return kLeast;
  std::vector<std::pair<size_t, double>> curve;
  double best = 0;
  for (size_t bytes = kLeast; bytes <= kMost; bytes *= 2) {
    tuttiEstimate_t estimate = TUTTI_ESTIMATE_INITIALIZER;
    check(tuttiCommEstimate(group.comm(), tuttiCallAllReduce, bytes / 4, tuttiFloat32, tuttiSum, 0, &estimate),
          group.comm());
    curve.emplace_back(bytes, static_cast<double>(bytes) / estimate.timeUs);
    best = std::max(best, curve.back().second);
  }
  for (const auto& [bytes, bandwidth] : curve) {
    if (bandwidth >= 0.8 * best) return bytes;
  }
  return kMost;
}

}  // namespace tutti::parallel

struct tuttiDdp {
  virtual ~tuttiDdp() = default;
  virtual void gradient(size_t parameter, tuttiTensor_t* view) = 0;
  virtual void begin() = 0;
  virtual void ready(size_t parameter) = 0;
  virtual void finish() = 0;
  virtual void share(int microBatches) = 0;
  virtual void report(tuttiDdpReport_t* report) = 0;
  virtual bool midway() const = 0;               // in a step: others may wait for this rank
  tuttiComm_t comm = nullptr, parent = nullptr;  // private copy; what it is of
};

namespace tutti::parallel {
namespace {

template <class T>
class DdpOf final : public tuttiDdp {
 public:
  DdpOf(std::shared_ptr<Device> device, tuttiComm_t own, const tuttiParameter_t* parameters, size_t n,
        const tuttiDdpConfig_t& config, const SumPlan& plan)
      : device_(std::move(device)),
        group_(own, *device_),
        config_(config),
        plan_(plan),
        sender_(*device_, config.overlap && !config.guard) {
    comm = own;
    for (size_t i = 0; i < n; ++i) values_.push_back(parameters[i].value);
    bucketBytes_ = config.bucketBytes != 0 ? config.bucketBytes : kneeOfAllReduce(group_);
    if (config.broadcast) {
      for (const tuttiTensor_t& v : values_) group_.broadcast(v.data, static_cast<size_t>(elementsOf(v)), v.dtype, 0);
    }
    group_.traffic = TUTTI_TRAFFIC_INITIALIZER;
    std::vector<uint32_t> order;
    for (size_t i = n; i-- > 0;) order.push_back(static_cast<uint32_t>(i));  // backward goes from the last to the first
    build(order);
  }

  void gradient(size_t parameter, tuttiTensor_t* view) override {
    require(parameter < values_.size(), "there is no parameter ", parameter);
    *view = values_[parameter];
    const Place& place = places_[parameter];
    view->data = buckets_[place.bucket]->gradient.data() + place.offset;
  }

  void begin() override {
    if (microBatch_ == plan_.mine(group_.rank())) {
      fail(tuttiInvalidUsage, "all ", microBatch_, " micro-batches of this step have begun; tuttiDdpFinish comes next");
    }
    if (microBatch_ == 0) start();
    if (microBatch_ > 0) endMicroBatch();
    ++microBatch_;
    std::fill(isReady_.begin(), isReady_.end(), false);
    for (auto& bucket : buckets_) bucket->missing = bucket->parameters.size();
  }

  void ready(size_t parameter) override {
    require(parameter < values_.size(), "there is no parameter ", parameter);
    if (microBatch_ == 0) fail(tuttiInvalidUsage, "tuttiDdpGradReady before tuttiDdpBegin");
    if (isReady_[parameter]) {
      fail(tuttiInvalidUsage, "the gradient of parameter ", parameter, " is ready twice in one micro-batch");
    }
    isReady_[parameter] = true;
    if (!rebuilt_ && microBatch_ == 1) order_.push_back(static_cast<uint32_t>(parameter));
    const Place& place = places_[parameter];
    Bucket& bucket = *buckets_[place.bucket];
    bucket.gradient.takeIn(place.offset, static_cast<size_t>(elementsOf(values_[parameter])));
    --bucket.missing;
    if (config_.guard) guards_[parameter] = bitsOf(parameter);
    if (microBatch_ == plan_.mine(group_.rank()) && overlaps()) launchReady();
  }

  void finish() override {
    if (microBatch_ != plan_.mine(group_.rank())) {
      fail(tuttiInvalidUsage, "micro-batch ", microBatch_, " of ", plan_.mine(group_.rank()), " was the last to begin");
    }
    group_.throwIfFailed();
    checkGuards();
    if (microBatch_ == 0) start();                      // a rank without micro-batches takes part in the sums
    for (auto& bucket : buckets_) bucket->missing = 0;  // what is not ready has no gradient
    failed_ = true;                                     // unless all that follows succeeds
    launchReady();
    const auto before = std::chrono::steady_clock::now();
    sender_.waitForPosted();
    failed_ = false;
    exposedMs_ = sender_.threaded() ? millisecondsSince(before) : sender_.busyMs;
    microBatch_ = 0;
    ++steps_;
    if (!rebuilt_) rebuild();
  }

  bool midway() const override { return microBatch_ != 0 || failed_; }

  void share(int microBatches) override {
    if (microBatch_ != 0) fail(tuttiInvalidUsage, "shares change between steps");
    const tuttiTraffic_t counted = group_.traffic;
    plan_ = agreeOnSums(group_, microBatches, config_.weight, config_.average != 0, config_.numerics, config_.wire,
                        config_.feedback != 0, dtypeOf<T>());
    group_.traffic = counted;  // not a step's
    build(std::vector<uint32_t>(built_));
  }

  void report(tuttiDdpReport_t* theirs) override {
    tuttiDdpReport_t r = TUTTI_DDP_REPORT_INITIALIZER;
    r.nBuckets = static_cast<int>(buckets_.size());
    r.bucketBytes = bucketBytes_;
    r.steps = steps_;
    r.communicationMs = sender_.busyMs;
    r.exposedMs = exposedMs_;
    r.traffic = group_.traffic;
    for (const auto& b : buckets_) {
      b->gradient.predict(r.expected, group_, evenCuts(static_cast<int64_t>(b->gradient.count()), 1, group_.size()),
                          true);
    }
    giveStruct(r, theirs);
  }

 private:
  struct Bucket {
    Bucket(Device& device, size_t count, const SumPlan& plan, int rank) : gradient(device, count, plan, rank) {}
    FlatGradient<T> gradient;
    std::vector<uint32_t> parameters;
    size_t missing = 0;
  };
  struct Place {
    size_t bucket, offset;
  };

  /// Fill buckets in this order.
  void build(const std::vector<uint32_t>& order) {
    built_ = order;
    buckets_.clear();
    orThrow(device_->trim());  // other buckets have other sizes
    places_.resize(values_.size());
    isReady_.assign(values_.size(), false);
    guards_.resize(values_.size());
    const size_t first =
        config_.firstBucketBytes != 0 ? config_.firstBucketBytes : std::min<size_t>(size_t{1} << 20, bucketBytes_);
    std::vector<uint32_t> members;
    size_t count = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      places_[order[i]] = {buckets_.size(), count};
      members.push_back(order[i]);
      count += static_cast<size_t>(elementsOf(values_[order[i]]));
      if (i + 1 < order.size() && count * sizeof(T) < (buckets_.empty() ? first : bucketBytes_)) continue;
      buckets_.push_back(std::make_unique<Bucket>(*device_, count, plan_, group_.rank()));
      buckets_.back()->parameters = std::move(members);
      members.clear();
      count = 0;
    }
  }

  /// In the order in which rank 0's gradients became ready; those that did not come last.
  void rebuild() {
    rebuilt_ = true;
    for (uint32_t i = 0; i < values_.size(); ++i) {
      if (std::find(order_.begin(), order_.end(), i) == order_.end()) order_.push_back(i);
    }
    const tuttiTraffic_t counted = group_.traffic;
    group_.broadcastHost(order_.data(), order_.size(), tuttiUint32, 0);
    group_.traffic = counted;  // once in a lifetime, not a step's
    std::vector<Array<T>> kept;
    for (size_t i = 0; i < values_.size(); ++i) {
      tuttiTensor_t view;
      gradient(i, &view);
      kept.emplace_back(*device_, static_cast<size_t>(elementsOf(view)), Array<T>::Any);
      copyBytes(*device_, kept.back().data(), view.data, kept.back().size() * sizeof(T));
    }
    build(order_);
    for (size_t i = 0; i < values_.size(); ++i) {
      tuttiTensor_t view;
      gradient(i, &view);
      copyBytes(*device_, view.data, kept[i].data(), kept[i].size() * sizeof(T));
    }
  }

  uint64_t bitsOf(size_t parameter) {
    tuttiTensor_t view;
    gradient(parameter, &view);
    uint64_t hash = 0;
    tuttiTensor_t flat = tuttiVectorOf(view.data, view.dtype, elementsOf(view));
    flat.device = view.device;
    if (tuttiTensorHash(&flat, 1, 0, &hash) != tuttiSuccess) fail(tuttiInternalError, tuttiParallelGetLastError());
    return hash;
  }
  /// Nobody wrote to what was ready in the last micro-batch; all ranks hear of it.
  void checkGuards() {
    if (!config_.guard) return;
    int64_t written = -1;
    for (size_t p = 0; p < values_.size() && microBatch_ > 0; ++p) {
      if (isReady_[p] && guards_[p] != bitsOf(p)) written = static_cast<int64_t>(p);
    }
    int64_t most = written;
    const tuttiTraffic_t counted = group_.traffic;
    group_.allReduceHost(&most, 1, tuttiInt64, tuttiMax);
    group_.traffic = counted;
    if (most < 0) return;
    fail(tuttiInvalidUsage, "the gradient of parameter ", most, " was written after tuttiDdpGradReady",
         written < 0 ? " on another rank" : ", which gave it away");
  }

  void start() {
    for (auto& bucket : buckets_) bucket->gradient.clear();
    next_ = 0;
    sender_.busyMs = 0;
  }
  void endMicroBatch() {
    for (auto& bucket : buckets_) bucket->gradient.endMicroBatch();
  }

  /// Send what is ready, in the order of buckets.
  void launchReady() {
    while (next_ < buckets_.size() && buckets_[next_]->missing == 0) {
      Bucket* bucket = buckets_[next_++].get();
      if (microBatch_ > 0) bucket->gradient.endMicroBatch();
      sender_.post([this, bucket] { bucket->gradient.reduceAll(group_); });
    }
  }
  bool overlaps() const { return config_.overlap && !config_.guard; }

  std::shared_ptr<Device> device_;  // first: ends after what lies in its memory
  Group group_;
  tuttiDdpConfig_t config_;
  SumPlan plan_;
  size_t bucketBytes_ = 0;
  std::vector<tuttiTensor_t> values_;
  std::vector<std::unique_ptr<Bucket>> buckets_;
  std::vector<Place> places_;
  std::vector<bool> isReady_;
  std::vector<uint64_t> guards_;         // bits of gradients when they became ready
  std::vector<uint32_t> order_, built_;  // of readiness; of the buckets
  bool rebuilt_ = false, failed_ = false;
  int64_t microBatch_ = 0;
  size_t next_ = 0;
  int steps_ = 0;
  double exposedMs_ = 0;
  Sender sender_;  // last: ends before what it works on
};

}  // namespace
}  // namespace tutti::parallel

tuttiResult_t tuttiDdpCreate(tuttiDdp_t* ddp, tuttiComm_t comm, const tuttiParameter_t* parameters, size_t n,
                             const tuttiDdpConfig_t* config) {
  return guardedIf(ddp != nullptr && (parameters != nullptr || n == 0), "ddp or parameters is NULL", [&] {
    *ddp = nullptr;
    const auto c = takeConfig<tuttiDdpConfig_t>(config, TUTTI_DDP_CONFIG_INITIALIZER, "config");
    const tuttiDataType_t dtype = n > 0 ? parameters[0].value.dtype : tuttiFloat32;
    checkComputed(dtype, "a parameter");
    const std::shared_ptr<Device> device = deviceOf(comm, n > 0 ? parameters[0].value.device : TUTTI_DEVICE_HOST);
    for (size_t i = 0; i < n; ++i) {
      checkContiguous(&parameters[i].value, "a parameter", elementsOf(parameters[i].value), dtype, kindOf(*device));
    }
    Group group(comm, *device);
    compareParameters(group, parameters, n);
    const SumPlan plan =
        agreeOnSums(group, c.microBatches, c.weight, c.average != 0, c.numerics, c.wire, c.feedback != 0, dtype);
    tuttiComm_t own = nullptr;
    if (group.size() > 1) own = splitFrom(comm, 0, group.rank());
    try {
      withType(dtype, [&](auto zero) { *ddp = new DdpOf<decltype(zero)>(device, own, parameters, n, c, plan); });
      (*ddp)->parent = comm;
    } catch (...) {
      if (own != nullptr) tuttiCommAbort(own);
      throw;
    }
  });
}

tuttiResult_t tuttiDdpDestroy(tuttiDdp_t ddp) {
  return guarded([&] {
    if (ddp == nullptr) return;
    const tuttiComm_t own = ddp->comm;
    const bool midway = ddp->midway() || hasFailed(ddp->parent);
    if (midway) stopPrivate(own);
    delete ddp;
    endPrivate(own, midway);
  });
}

tuttiResult_t tuttiDdpGradient(tuttiDdp_t ddp, size_t parameter, tuttiTensor_t* gradient) {
  return guardedIf(ddp != nullptr && gradient != nullptr, "ddp or gradient is NULL",
                   [&] { ddp->gradient(parameter, gradient); });
}
tuttiResult_t tuttiDdpBegin(tuttiDdp_t ddp) {
  return guardedIf(ddp != nullptr, "ddp is NULL", [&] { ddp->begin(); });
}
tuttiResult_t tuttiDdpGradReady(tuttiDdp_t ddp, size_t parameter) {
  return guardedIf(ddp != nullptr, "ddp is NULL", [&] { ddp->ready(parameter); });
}
tuttiResult_t tuttiDdpFinish(tuttiDdp_t ddp) {
  return guardedIf(ddp != nullptr, "ddp is NULL", [&] { ddp->finish(); });
}
tuttiResult_t tuttiDdpShare(tuttiDdp_t ddp, int microBatches) {
  return guardedIf(ddp != nullptr, "ddp is NULL", [&] { ddp->share(microBatches); });
}
tuttiResult_t tuttiDdpReport(tuttiDdp_t ddp, tuttiDdpReport_t* report) {
  return guardedIf(ddp != nullptr && report != nullptr && report->size >= sizeof(size_t), "ddp or report is NULL",
                   [&] { ddp->report(report); });
}
