#include "tools/topology/search/simplex.hpp"

namespace tutti::topology {
namespace {

constexpr double kTiny = 1e-9;
constexpr int kMostSettleSteps = 1000;

}  // namespace

Simplex::Simplex(const std::vector<double>& capacity) : n_(capacity.size()), inverse_(n_ * n_, 0) {
  for (size_t i = 0; i < n_; ++i) {
    inverse_[i * n_ + i] = 1;
    basic_.push_back(static_cast<int>(i));
    const double shift = static_cast<double>((i * 2654435761u) % 1009) / 1009;
    level_.push_back(capacity[i] * (1 + 1e-7 * shift));
  }
}

std::vector<double> Simplex::prices() const {
  std::vector<double> prices(n_, 0);
  for (size_t row = 0; row < n_; ++row) {
    if (basic_[row] < static_cast<int>(n_)) continue;
    for (size_t i = 0; i < n_; ++i) prices[i] += inverse_[row * n_ + i];
  }
  return prices;
}

void Simplex::enter(Column column) {
  std::vector<double> direction(n_, 0);
  for (size_t row = 0; row < n_; ++row) {
    for (const auto& [arc, times] : column.use) direction[row] += times * inverse_[row * n_ + static_cast<size_t>(arc)];
  }
  columns_.push_back(std::move(column));
  pivot(direction, static_cast<int>(n_ + columns_.size()) - 1);
}

bool Simplex::settle() {
  for (int step = 0; step < kMostSettleSteps; ++step) {
    const std::vector<double> now = prices();
    size_t arc = 0;
    while (arc < n_ && now[arc] > -kTiny) ++arc;
    if (arc == n_) return true;
    std::vector<double> direction(n_);
    for (size_t row = 0; row < n_; ++row) direction[row] = inverse_[row * n_ + arc];
    pivot(direction, static_cast<int>(arc));
  }
  return false;
}

void Simplex::pivot(const std::vector<double>& direction, int variable) {
  size_t out = n_;
  for (size_t row = 0; row < n_; ++row) {
    if (direction[row] <= kTiny) continue;
    if (out == n_ || level_[row] * direction[out] < level_[out] * direction[row]) out = row;
  }
  if (out == n_) return;  // the column uses no arc: nothing bounds it, and nothing is to be decided
  const double scale = 1 / direction[out];
  level_[out] *= scale;
  double* pivotRow = &inverse_[out * n_];
  for (size_t i = 0; i < n_; ++i) pivotRow[i] *= scale;
  for (size_t row = 0; row < n_; ++row) {
    const double times = direction[row];
    if (row == out || times == 0) continue;
    level_[row] -= times * level_[out];
    double* r = &inverse_[row * n_];
    for (size_t i = 0; i < n_; ++i) r[i] -= times * pivotRow[i];
  }
  basic_[out] = variable;
}

double Simplex::total() const {
  double sum = 0;
  for (size_t row = 0; row < n_; ++row) sum += basic_[row] >= static_cast<int>(n_) ? level_[row] : 0;
  return sum;
}

void Simplex::solution(std::vector<Column>* columns, std::vector<double>* rates) const {
  for (size_t row = 0; row < n_; ++row) {
    if (basic_[row] < static_cast<int>(n_) || level_[row] <= kTiny) continue;
    columns->push_back(columns_[static_cast<size_t>(basic_[row]) - n_]);
    rates->push_back(level_[row]);
  }
}

}  // namespace tutti::topology
