// The second half of a block: an MLP, or experts.
#include "examples/gpt/call.hpp"
#include "examples/gpt/model.hpp"

namespace gpt {

template <class T>
void Model<T>::describeMlp(Block& b, int unit) {
  const int64_t h = shape_.width, up = 4 * h;
  if (!experts_) {
    int64_t b0 = 0, e0 = 0;
    b.up = makeLinear(true, h, up, 1, &b0, &e0);
    addParameter("up.weight", up, h, b0, e0, 0, h, unit, kSpread);
    addParameter("up.bias", 1, up, 0, 1, b0, e0, unit, 0);
    b.down = makeLinear(false, up, h, 1, &b0, &e0);
    addParameter("down.weight", h, up, 0, h, b0, e0, unit, kSpread / 2);
    addParameter("down.bias", 1, h, 0, 1, 0, h, unit, 0);
    return;
  }
  b.experts = std::make_unique<Experts<T>>(shape_, ep_, invariant_);
  const int64_t n = shape_.experts, f = shape_.expertWidth(), e0 = b.experts->begin(), e1 = b.experts->end();
  addParameter("router", n, h, 0, n, 0, h, unit, kSpread);
  addParameter("experts.up.weight", n * f, h, e0 * f, e1 * f, 0, h, unit, kSpread);
  addParameter("experts.up.bias", 1, n * f, 0, 1, e0 * f, e1 * f, unit, 0);
  addParameter("experts.down.weight", n * h, f, e0 * h, e1 * h, 0, f, unit, kSpread / 2);
  addParameter("experts.down.bias", 1, n * h, 0, 1, e0 * h, e1 * h, unit, 0);
  for (size_t p = parameters_.size() - 4; p < parameters_.size(); ++p) {
    parameters_[p].expert = true;
    parameters_[p].copy = rank_ != 0;  // tensor parallelism does not cut experts
  }
}

template <class T>
void Model<T>::mlpForward(const Block& b, Saved& s, Buffer& y, Storage& storage) {
  if (b.experts != nullptr) {
    std::vector<T> out;
    b.experts->forward(s.routed, s.normed2.host(), expertValues(b, storage), out);
    y = Buffer(out);
    return;
  }
  const Parameter& weight = parameters_[b.parameter + 8];
  const int64_t h = shape_.width, up = weight.row1 - weight.row0;
  linear(b.up, s.normed2, h, b.parameter + 8, s.up, tokens_, up, storage);
  s.gelu.resize(s.up.size());
  const tuttiTensor_t before = rowsOf(s.up, up), after = rowsOf(s.gelu, up);
  call(tuttiGelu(&before, &after));
  linear(b.down, s.gelu, up, b.parameter + 10, y, ownTokens_, h, storage);
}

template <class T>
void Model<T>::mlpBackward(const Block& b, Saved& s, Buffer& dy, Buffer& dx, Storage& storage) {
  if (b.experts != nullptr) {
    std::vector<T> slope;
    b.experts->backward(s.routed, dy.host(), expertValues(b, storage), slope);
    dx = Buffer(slope);
    return addGradients([this, &b, &s, &storage] { expertGradients(b, s, storage); });
  }
  const Parameter& weight = parameters_[b.parameter + 8];
  const int64_t h = shape_.width, up = weight.row1 - weight.row0;
  Buffer dgelu;
  linearBackward(b.down, s.gelu, up, b.parameter + 10, true, dy, h, dgelu, storage);
  const tuttiTensor_t before = rowsOf(s.up, up), slope = rowsOf(dgelu, up);
  call(tuttiGeluBackward(&before, &slope, &slope));
  linearBackward(b.up, s.normed2, h, b.parameter + 8, true, dgelu, up, dx, storage);
}

template <class T>
ExpertViews<T> Model<T>::expertValues(const Block& b, Storage& storage) const {
  const auto at = [&](size_t i) { return static_cast<T*>(storage.value(b.parameter + i).data); };
  return {at(8), at(9), at(10), at(11), at(12)};
}

/// Layout-invariant: a rank's micro-batch is a leaf, so the tokens of each rank have a sum of their own.
template <class T>
void Model<T>::expertGradients(const Block& b, Saved& s, Storage& storage) {
  const auto at = [&](size_t i, int source) {
    return static_cast<T*>(storage.gradientFrom(b.parameter + i, source).data);
  };
  b.experts->addRouter(s.routed, s.normed2.host(), static_cast<T*>(storage.gradient(b.parameter + 8).data));
  const int first = invariant_ ? 0 : -1, end = invariant_ ? b.experts->nSources() : 0;
  for (int source = first; source < end; ++source) {
    b.experts->addExperts(s.routed, source, {nullptr, at(9, source), at(10, source), at(11, source), at(12, source)});
  }
  for (size_t i = 8; i < 13; ++i) storage.ready(b.parameter + i);
}

#define TUTTI_GPT_MLP_OF(T)                                                    \
  template void Model<T>::describeMlp(Block&, int);                            \
  template void Model<T>::mlpForward(const Block&, Saved&, Buffer&, Storage&); \
  template void Model<T>::mlpBackward(const Block&, Saved&, Buffer&, Buffer&, Storage&);
TUTTI_GPT_MLP_OF(float)
TUTTI_GPT_MLP_OF(double)

}  // namespace gpt
