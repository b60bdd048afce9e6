// What a parameter server does with gradients.
#include <algorithm>

#include "src/parallel/ps.hpp"

namespace tutti::parallel {

template <class T>
PsShard<T>::PsShard(const std::vector<PsTable>& tables, int server, int workers, const tuttiPsConfig_t& config)
    : tables_(tables), server_(server), config_(config), pending_(static_cast<size_t>(workers)) {
  size_t elements = 0, rows = 0;
  for (const PsTable& t : tables) {
    offsets_.push_back(elements);
    rowOffsets_.push_back(rows);
    elements += static_cast<size_t>(t.rowsOf(server) * t.width);
    rows += static_cast<size_t>(t.rowsOf(server));
  }
  values.resize(elements);
  if (statesOf(config.optimizer.kind) > 0) first_.resize(elements);
  if (statesOf(config.optimizer.kind) > 1) second_.resize(elements);
  for (Pending& p : pending_) {
    p.gradient.resize(elements);
    p.touched.resize(rows);
  }
}

template <class T>
int64_t PsShard<T>::slowest() const {
  int64_t least = INT64_MAX;
  for (const Pending& p : pending_) {
    if (!p.gone) least = std::min(least, p.clock);
  }
  return least;
}

template <class T>
int64_t PsShard<T>::waitToRead(int64_t clock, std::unique_lock<std::mutex>& lock) {
  changed_.wait(lock, [&] {
    if (!failure_.empty() || config_.staleness == TUTTI_PS_ASYNCHRONOUS) return true;
    return config_.staleness == 0 ? version_ >= clock : slowest() >= clock - config_.staleness;
  });
  if (!failure_.empty()) throw Failure{tuttiRemoteError, failure_};
  if (config_.staleness != 0) stalest_ = std::max(stalest_, clock - slowest());
  return config_.staleness == 0 ? version_ : clock;
}

template <class T>
void PsShard<T>::addRows(int worker, size_t table, const std::vector<int64_t>& rows, const T* gradient) {
  const std::lock_guard guard(mutex_);
  Pending& p = pending_[static_cast<size_t>(worker)];
  const PsTable& t = tables_[table];
  const size_t width = static_cast<size_t>(t.width);
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t row = static_cast<size_t>(rows[i] - t.cuts[static_cast<size_t>(server_)]);
    std::copy_n(gradient + i * width, width, p.gradient.data() + offsets_[table] + row * width);
    p.touched[rowOffsets_[table] + row] = 1;
  }
}

template <class T>
size_t PsShard<T>::needed() const {
  const size_t possible = static_cast<size_t>(
      std::count_if(pending_.begin(), pending_.end(), [](const Pending& p) { return !p.gone || p.full; }));
  return std::min(possible, pending_.size() - static_cast<size_t>(config_.backup));
}

template <class T>
void PsShard<T>::push(int worker, int64_t clock, const T* gradient) {
  const std::lock_guard guard(mutex_);
  Pending& p = pending_[static_cast<size_t>(worker)];
  const bool late = config_.staleness == 0 && clock < version_;
  for (size_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].sparse()) continue;
    const size_t count = static_cast<size_t>(tables_[t].rowsOf(server_) * tables_[t].width);
    std::copy_n(gradient, count, p.gradient.data() + offsets_[t]);
    gradient += count;
  }
  ++p.clock;
  if (late) {
    ++dropped_;
    std::fill(p.touched.begin(), p.touched.end(), 0);
    std::fill(p.gradient.begin(), p.gradient.end(), T(0));
  } else if (config_.staleness == 0) {
    p.full = true;
    finishStep();
  } else {
    apply({worker}, T(1) / static_cast<T>(pending_.size()));
  }
  changed_.notify_all();
}

template <class T>
void PsShard<T>::finishStep() {
  std::vector<int> from;
  for (size_t w = 0; w < pending_.size(); ++w) {
    if (pending_[w].full) from.push_back(static_cast<int>(w));
  }
  if (from.empty() || from.size() < needed()) return;
  apply(from, static_cast<T>(1.0 / static_cast<double>(from.size())));
}

/// The sum over `from` along the tree, scaled, goes into the values; those workers' gradients are empty again.
template <class T>
void PsShard<T>::apply(const std::vector<int>& from, T scale) {
  ++version_;
  for (size_t t = 0; t < tables_.size(); ++t) {
    const PsTable& table = tables_[t];
    const size_t width = static_cast<size_t>(table.sparse() ? table.width : table.width * table.rowsOf(server_));
    const size_t rows = table.sparse() ? static_cast<size_t>(table.rowsOf(server_)) : 1;
    for (size_t row = 0; row < rows && width != 0; ++row) {
      const bool touched = !table.sparse() || std::any_of(from.begin(), from.end(), [&](int w) {
        return pending_[static_cast<size_t>(w)].touched[rowOffsets_[t] + row] != 0;
      });
      if (!touched) continue;
      const size_t at = offsets_[t] + row * width;
      sums_.resize(from.size() * width);
      for (size_t i = 0; i < from.size(); ++i) {
        std::copy_n(pending_[static_cast<size_t>(from[i])].gradient.data() + at, width, sums_.data() + i * width);
      }
      treeSum(sums_.data(), static_cast<int64_t>(from.size()), width);
      scaleVector(hostDevice(), sums_.data(), width, static_cast<double>(scale));
      updateElements<T>(hostDevice(), config_.optimizer, version_, 1, nullptr,
                        (table.flags & TUTTI_PARAMETER_NO_DECAY) == 0, values.data() + at, sums_.data(),
                        first_.empty() ? nullptr : first_.data() + at, second_.empty() ? nullptr : second_.data() + at,
                        width);
    }
  }
  for (const int w : from) {
    Pending& p = pending_[static_cast<size_t>(w)];
    p.full = false;
    std::fill(p.touched.begin(), p.touched.end(), 0);
    std::fill(p.gradient.begin(), p.gradient.end(), T(0));
  }
}

template <class T>
void PsShard<T>::leave(int worker, const std::string& died) {
  const std::lock_guard guard(mutex_);
  Pending& p = pending_[static_cast<size_t>(worker)];
  p.gone = true;  // what it has pushed counts
  const size_t here =
      static_cast<size_t>(std::count_if(pending_.begin(), pending_.end(), [](const Pending& q) { return !q.gone; }));
  if (!died.empty() && config_.staleness == 0 && here + static_cast<size_t>(config_.backup) < pending_.size() &&
      failure_.empty()) {
    failure_ = joined("worker ", worker, " is lost, and gradients of all are needed: ", died);
  }
  if (config_.staleness == 0 && failure_.empty()) finishStep();
  changed_.notify_all();
}

template <class T>
std::string PsShard<T>::failure() {
  const std::lock_guard guard(mutex_);
  return failure_;
}

template <class T>
void PsShard<T>::report(tuttiPsReport_t& r) {
  const std::lock_guard guard(mutex_);
  r.steps = version_;
  r.dropped = dropped_;
  r.stalest = stalest_;
}

template class PsShard<float>;
template class PsShard<double>;

}  // namespace tutti::parallel
