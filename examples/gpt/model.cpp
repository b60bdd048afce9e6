#include "examples/gpt/model.hpp"

#include <algorithm>

#include "examples/gpt/call.hpp"
#include "tutti/parallel/sums.h"

namespace gpt {
namespace {

template <class T>
void add(Room<T>& into, const Room<T>& from) {
  if (into.size() != 0) addTo(into.vector(), from.vector());
}

}  // namespace

template <class T>
Model<T>::Model(const Shape& shape, const Stage& stage, tuttiComm_t comm, bool sequence, const Run& run, bool tied,
                const TokenGroups& others, bool experts, tuttiComm_t ep)
    : shape_(shape),
      stage_(stage),
      comm_(comm),
      sequence_(sequence),
      invariant_(run.invariant),
      tied_(tied),
      experts_(experts),
      ep_(ep),
      mistake_(run.mistake),
      leaves_(run.leaves),
      wholeTokens_(shape.perMicroBatch * shape.sequence),
      tokens_(wholeTokens_) {
  if (comm != nullptr) {
    callComm(tuttiCommUserRank(comm, &rank_), comm);
    callComm(tuttiCommCount(comm, &nRanks_), comm);
  }
  sequence_ = sequence && nRanks_ > 1;
  cutTokens(others);
  tuttiTpConfig_t config = TUTTI_TP_CONFIG_INITIALIZER;
  config.numerics = run.invariant ? tuttiNumericsLayoutInvariant : tuttiNumericsFast;
  config.sequenceParallel = sequence_;
  config.leaves = run.leaves;
  config.device = Place::current().kind();
  config.tokenComm = others.both;
  config.sequence = shape.sequence;
  call(tuttiTpCreate(&tp_, comm, &config));
  cutRows();
  tuttiTpConfig_t alone = TUTTI_TP_CONFIG_INITIALIZER;
  alone.device = config.device;
  call(tuttiTpCreate(&table_, nullptr, &alone));
  describe();
  attendOverRanks();
  for (Parameter& p : parameters_) p.copy = p.copy || otherRank_ != 0;
  const int64_t h = shape.width, qkv = shape.kvHeads * (shape.heads / shape.kvHeads + 2) * (h / shape.heads);
  const int64_t f = shape.expertWidth(), mlp = experts ? shape.experts * (h + 2 * h * f + f + h) : 8 * h * h + 5 * h;
  const int64_t perLayer = qkv * h + qkv + h * h + 5 * h + mlp;
  int64_t position = stage.first ? 0 : (shape.vocabulary + shape.sequence) * h + stage.firstLayer * perLayer;
  for (Parameter& p : parameters_) {  // numbers of elements in the whole model, whatever stages it is cut into
    p.first = position;
    position += p.whole();
  }
}

/// Which rows this rank has between the layers, and the leaves of sums over them.
template <class T>
void Model<T>::cutRows() {
  const size_t n = static_cast<size_t>(nRanks_), r = static_cast<size_t>(rank_);
  vocabulary_.resize(n + 1);
  call(tuttiTpSplit(tp_, shape_.vocabulary, 1, vocabulary_.data()));
  std::vector<int64_t> tokenCuts(n + 1);
  call(tuttiTpSplit(tp_, tokens_, 1, tokenCuts.data()));
  firstToken_ = sequence_ ? tokenCuts[r] : 0;
  ownTokens_ = sequence_ ? tokenCuts[r + 1] - tokenCuts[r] : tokens_;
  for (const bool whole : {false, true}) {
    std::vector<int64_t>& cuts = whole ? lossCuts_ : rowCuts_;
    int nLeaves = 0;
    cuts.resize(static_cast<size_t>(leaves_) + 1);
    call(tuttiTpTokenLeaves(tp_, tokens_, whole, &nLeaves, cuts.data()));
    cuts.resize(static_cast<size_t>(nLeaves) + 1);
  }
  for (int64_t t = 0; t < ownTokens_; ++t) {
    places_.push_back(static_cast<int32_t>(positions_[static_cast<size_t>(firstToken_ + t)]));
  }
}

template <class T>
Model<T>::~Model() {
  for (const Block& b : blocks_) {
    for (tuttiLinear_t linear : {b.qkv, b.proj, b.up, b.down}) tuttiLinearDestroy(linear);
  }
  tuttiLinearDestroy(head_);
  tuttiSpDestroy(sp_);
  tuttiTpDestroy(table_);
  tuttiTpDestroy(tp_);
}

template <class T>
void Model<T>::addParameter(const char* name, int64_t rows, int64_t columns, int64_t r0, int64_t r1, int64_t c0,
                            int64_t c1, int unit, double spread, double middle) {
  Parameter p{name, rows, columns, r0, r1, c0, c1, unit, spread, middle, false, rows > 1, 0};
  p.copy = rank_ != 0 && r1 - r0 == rows && c1 - c0 == columns;
  parameters_.push_back(p);
}

template <class T>
tuttiLinear_t Model<T>::makeLinear(bool column, int64_t in, int64_t out, int64_t of, int64_t* begin, int64_t* end) {
  tuttiLinearConfig_t config = TUTTI_LINEAR_CONFIG_INITIALIZER;
  config.inputs = in;
  config.outputs = out;
  config.unit = of;
  tuttiLinear_t made = nullptr;
  call((column ? tuttiColumnLinearCreate : tuttiRowLinearCreate)(&made, tp_, &config));
  std::vector<int64_t> cuts(static_cast<size_t>(nRanks_) + 1);
  call(tuttiLinearCuts(made, cuts.data()));
  *begin = cuts[static_cast<size_t>(rank_)];
  *end = cuts[static_cast<size_t>(rank_) + 1];
  return made;
}

template <class T>
void Model<T>::describe() {
  const int64_t h = shape_.width, v = shape_.vocabulary, d = h / shape_.heads;
  const int64_t group = shape_.heads / shape_.kvHeads;
  const size_t r = static_cast<size_t>(rank_);
  const int64_t v0 = vocabulary_[r], v1 = vocabulary_[r + 1];
  int unit = 0;
  if (stage_.first) {
    addParameter("embedding", v, h, v0, v1, 0, h, unit, 0.05);
    addParameter("positions", shape_.sequence, h, 0, shape_.sequence, 0, h, unit++, 0.02);
  }
  for (int64_t layer = stage_.firstLayer; layer < stage_.endLayer; ++layer, ++unit) {
    Block b{};
    b.parameter = parameters_.size();
    int64_t b0 = 0, e0 = 0;
    addParameter("norm1.gamma", 1, h, 0, 1, 0, h, unit, 0, 1);
    addParameter("norm1.beta", 1, h, 0, 1, 0, h, unit, 0);
    const int64_t qkv = shape_.kvHeads * (group + 2) * d;  // by groups: their queries, then key and value
    b.qkv = makeLinear(true, h, qkv, (group + 2) * d, &b0, &e0);
    groups_ = (e0 - b0) / ((group + 2) * d);
    addParameter("qkv.weight", qkv, h, b0, e0, 0, h, unit, kSpread);
    addParameter("qkv.bias", 1, qkv, 0, 1, b0, e0, unit, 0);
    b.proj = makeLinear(false, h, h, group * d, &b0, &e0);
    addParameter("proj.weight", h, h, 0, h, b0, e0, unit, kSpread / 2);
    addParameter("proj.bias", 1, h, 0, 1, 0, h, unit, 0);
    addParameter("norm2.gamma", 1, h, 0, 1, 0, h, unit, 0, 1);
    addParameter("norm2.beta", 1, h, 0, 1, 0, h, unit, 0);
    describeMlp(b, unit);
    blocks_.push_back(std::move(b));
  }
  if (stage_.last) {
    finalNorm_ = parameters_.size();
    addParameter("norm.gamma", 1, h, 0, 1, 0, h, unit, 0, 1);
    addParameter("norm.beta", 1, h, 0, 1, 0, h, unit, 0);
    int64_t b0 = 0, e0 = 0;
    head_ = makeLinear(true, h, v, 1, &b0, &e0);
    addParameter("head", v, h, b0, e0, 0, h, unit, kSpread);
    if (tied_) {  // begins as the embedding, and gets the same gradient in every step
      parameters_.back().like = 0;
      parameters_.back().copy = true;
    }
  }
}

template <class T>
tuttiTensor_t Model<T>::rowsOf(Buffer& b, int64_t columns) {
  const int64_t rows = columns == 0 ? tokens_ : static_cast<int64_t>(b.size()) / columns;
  return here(tuttiMatrixOf(b.data(), kType<T>, rows, columns, columns));
}

template <class T>
template <class Fill>
void Model<T>::addTokenSums(tuttiTensor_t gradient, const Fill& fill) {
  size_t count = 1;
  for (int d = 0; d < gradient.nDims; ++d) count *= static_cast<size_t>(gradient.shape[d]);
  const size_t nLeaves = rowCuts_.size() - 1;
  Buffer leaves(nLeaves * count);
  for (size_t l = 0; l < nLeaves; ++l) fill(rowCuts_[l], rowCuts_[l + 1], leaves.data() + l * count);
  const tuttiTensor_t from = leaves.vector(), to = flat(gradient);
  call(tuttiTpTokenSum(tp_, 0, &from, &to));
}

template <class T>
void Model<T>::embed(const int32_t* ids, Buffer& x, Storage& storage) {
  const tuttiTensor_t id = tuttiVectorOf(const_cast<int32_t*>(ids), tuttiInt32, tokens_);
  const tuttiTensor_t table = storage.value(0), positions = storage.value(1), out = rowsOf(x, shape_.width);
  call(tuttiVocabEmbedding(tp_, vocabulary_.data(), &id, &table, &out));
  Buffer more(x.size());
  const tuttiTensor_t which = tuttiVectorOf(places_.data(), tuttiInt32, ownTokens_), rows = rowsOf(more, shape_.width);
  const int64_t cuts[] = {0, shape_.sequence};
  call(tuttiVocabEmbedding(table_, cuts, &which, &positions, &rows));
  add(x, more);
}

template <class T>
void Model<T>::embedBackward(const int32_t* ids, Buffer& dx, Storage& storage) {
  const tuttiTensor_t id = tuttiVectorOf(const_cast<int32_t*>(ids), tuttiInt32, tokens_);
  const tuttiTensor_t table = storage.gradient(0), d = rowsOf(dx, shape_.width);
  addTokenSums(storage.gradient(1), [&](int64_t begin, int64_t end, T* leaf) {
    const int64_t cuts[] = {0, shape_.sequence}, h = shape_.width;
    const tuttiTensor_t which = tuttiVectorOf(places_.data() + begin, tuttiInt32, end - begin);
    const tuttiTensor_t rows = here(tuttiMatrixOf(dx.data() + begin * h, kType<T>, end - begin, h, h));
    const tuttiTensor_t sums = here(tuttiMatrixOf(leaf, kType<T>, shape_.sequence, h, h));
    call(tuttiVocabEmbeddingBackward(table_, cuts, &which, &rows, &sums));
  });
  call(tuttiVocabEmbeddingBackward(tp_, vocabulary_.data(), &id, &d, &table));
  storage.ready(1);
  storage.ready(0);
}

template <class T>
void Model<T>::blockForward(const Block& b, Saved& s, Buffer& x, Storage& storage) {
  const int64_t h = shape_.width, d = h / shape_.heads, group = shape_.heads / shape_.kvHeads;
  const auto value = [&](size_t i) { return storage.value(b.parameter + i); };
  const auto norm = [&](Buffer& from, size_t gamma, Buffer& to) {
    to.resize(from.size());
    const tuttiTensor_t f = rowsOf(from, h), g = value(gamma), beta = value(gamma + 1), t = rowsOf(to, h);
    call(tuttiLayerNorm(&f, &g, &beta, &t));
  };
  Buffer y;
  s.in = x;
  norm(x, 0, s.normed);
  linear(b.qkv, s.normed, h, b.parameter + 2, s.qkv, tokens_, groups_ * (group + 2) * d, storage);
  s.attention.resize(static_cast<size_t>(tokens_ * groups_ * group * d));
  s.lse.resize(static_cast<size_t>(tokens_ * groups_ * group));
  attention(s, nullptr, nullptr);
  linear(b.proj, s.attention, groups_ * group * d, b.parameter + 4, y, ownTokens_, h, storage);
  add(x, y);
  s.middle = x;
  norm(x, 6, s.normed2);
  mlpForward(b, s, y, storage);
  add(x, y);
}

template <class T>
void Model<T>::linear(tuttiLinear_t l, Buffer& from, int64_t in, size_t weight, Buffer& to, int64_t rows, int64_t out,
                      Storage& storage) {
  to.resize(static_cast<size_t>(rows * out));
  const tuttiTensor_t f = rowsOf(from, in), w = storage.value(weight), bias = storage.value(weight + 1);
  const tuttiTensor_t t = rowsOf(to, out);
  call(tuttiLinearForward(l, tokens_, &f, &w, &bias, &t));
}

template <class T>
void Model<T>::normBackward(Buffer& x, size_t gamma, Buffer& dy, Buffer& dx, Storage& storage) {
  const int64_t h = shape_.width;
  const size_t count = static_cast<size_t>(h), nLeaves = rowCuts_.size() - 1;
  dx.resize(x.size());
  Buffer dgamma(nLeaves * count), dbeta(dgamma.size());
  const tuttiTensor_t tx = rowsOf(x, h), tdy = rowsOf(dy, h), tdx = rowsOf(dx, h), g = storage.value(gamma);
  const tuttiTensor_t tg = rowsOf(dgamma, h), tb = rowsOf(dbeta, h);
  call(tuttiLayerNormBackward(&tx, &g, &tdy, rowCuts_.data(), static_cast<int>(nLeaves), &tdx, &tg, &tb));
  addGradients([this, count, nLeaves, gamma, &storage, dgamma = std::move(dgamma), dbeta = std::move(dbeta)] {
    size_t which = gamma;
    for (const Buffer* leaves : {&dgamma, &dbeta}) {
      const tuttiTensor_t from = leaves->vector(), to = flat(storage.gradient(which));
      if (mistake_ == Mistake::NormNotReduced) {
        Buffer own(count);
        const tuttiTensor_t sum = own.vector();
        const int64_t run[] = {0, static_cast<int64_t>(nLeaves)};
        call(tuttiTreeAllReduceTensors(&from, &sum, run, nullptr, nullptr));
        addTo(to, sum);
      } else {
        call(tuttiTpTokenSum(tp_, 0, &from, &to));
      }
      storage.ready(which++);
    }
  });
}

template <class T>
void Model<T>::addGradients(std::function<void()> task) {
  if (deferred_ == nullptr) return task();
  deferred_->later.push_back(std::move(task));
}

template <class T>
void Model<T>::linearBackward(tuttiLinear_t l, Buffer& x, int64_t inputs, size_t weight, bool bias, Buffer& dy,
                              int64_t outputs, Buffer& dx, Storage& storage) {
  dx.resize(x.size());
  const auto gradients = [this, l, &x, inputs, weight, bias, outputs, &storage](Buffer& d, const tuttiTensor_t* to) {
    const tuttiTensor_t f = rowsOf(x, inputs), w = storage.value(weight), t = rowsOf(d, outputs);
    const tuttiTensor_t dw = storage.gradient(weight), db = bias ? storage.gradient(weight + 1) : dw;
    call(tuttiLinearBackward(l, tokens_, &f, &w, &t, to, &dw, bias ? &db : nullptr));
    if (bias) storage.ready(weight + 1);
    storage.ready(weight);
  };
  const tuttiTensor_t to = rowsOf(dx, inputs);
  if (mistake_ == Mistake::MissingAllReduce && weight == blocks_[0].parameter + 8) {
    gradients(dy, &to);
    tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
    call(tuttiKernelsInvariant(&kernels));
    const tuttiTensor_t w = storage.value(weight);
    const tuttiMatmul_t own = {kType<T>,  0,      0,         0,       tokens_, inputs, outputs,
                               dy.data(), w.data, dx.data(), outputs, inputs,  inputs};
    return call(kernels.matmul(kernels.context, &own));
  }
  if (deferred_ == nullptr) return gradients(dy, &to);
  const tuttiTensor_t f = rowsOf(x, inputs), w = storage.value(weight), t = rowsOf(dy, outputs);
  call(tuttiLinearBackward(l, tokens_, &f, &w, &t, &to, nullptr, nullptr));
  addGradients([gradients, kept = std::make_shared<Buffer>(dy)] { gradients(*kept, nullptr); });
}

template <class T>
void Model<T>::blockBackward(const Block& b, Saved& s, Buffer& dx, Storage& storage) {
  const int64_t h = shape_.width, d = h / shape_.heads, group = shape_.heads / shape_.kvHeads;
  Buffer dnormed, dbranch, dattention, dqkv(s.qkv.size());
  mlpBackward(b, s, dx, dnormed, storage);
  normBackward(s.middle, b.parameter + 6, dnormed, dbranch, storage);
  add(dx, dbranch);
  linearBackward(b.proj, s.attention, groups_ * group * d, b.parameter + 4, true, dx, h, dattention, storage);
  attention(s, &dqkv, &dattention);
  linearBackward(b.qkv, s.normed, h, b.parameter + 2, true, dqkv, groups_ * (group + 2) * d, dnormed, storage);
  normBackward(s.in, b.parameter, dnormed, dbranch, storage);
  add(dx, dbranch);
}

template <class T>
double Model<T>::meanOf(const Buffer& losses) {
  std::vector<double> leaves(lossCuts_.size() - 1);
  const std::vector<T> each = losses.host();
  for (size_t l = 0; l < leaves.size(); ++l) {
    for (int64_t t = lossCuts_[l]; t < lossCuts_[l + 1]; ++t)
      leaves[l] += static_cast<double>(each[static_cast<size_t>(t)]);
  }
  const Room<double> mine(leaves), sum(1);
  const tuttiTensor_t from = mine.vector(), to = sum.vector();
  call(tuttiTpTokenSum(tp_, 1, &from, &to));
  return sum.host()[0] / static_cast<double>(wholeTokens_);
}

template <class T>
double Model<T>::forward(int slotNumber, const int32_t* ids, const int32_t* targets, const T* in, T* out,
                         Storage& storage) {
  if (slots_.size() <= static_cast<size_t>(slotNumber)) slots_.resize(static_cast<size_t>(slotNumber) + 1);
  Slot& slot = slots_[static_cast<size_t>(slotNumber)];
  slot.blocks.resize(blocks_.size());
  Buffer x(static_cast<size_t>(boundary()));
  int unit = 0;
  if (stage_.first) {
    storage.unshard(unit);
    embed(ids, x, storage);
    storage.reshard(unit++, true);
  } else {
    copyTo(x.vector(), here(tuttiVectorOf(const_cast<T*>(in), kType<T>, boundary())));
  }
  for (size_t l = 0; l < blocks_.size(); ++l, ++unit) {
    storage.unshard(unit);
    blockForward(blocks_[l], slot.blocks[l], x, storage);
    storage.reshard(unit, true);
  }
  if (!stage_.last) {
    copyTo(here(tuttiVectorOf(out, kType<T>, boundary())), x.vector());
    return 0;
  }
  storage.unshard(unit);
  const int64_t h = shape_.width, v = vocabularyHere();
  slot.last = x;
  slot.normed.resize(x.size());
  slot.dlogits.resize(static_cast<size_t>(tokens_ * v));
  Buffer losses(static_cast<size_t>(tokens_));
  const tuttiTensor_t tx = rowsOf(x, h), gamma = storage.value(finalNorm_), beta = storage.value(finalNorm_ + 1);
  const tuttiTensor_t normed = rowsOf(slot.normed, h), w = storage.value(finalNorm_ + 2);
  const tuttiTensor_t logits = here(tuttiMatrixOf(slot.dlogits.data(), kType<T>, tokens_, v, v));
  const tuttiTensor_t loss = losses.vector();
  const tuttiTensor_t target = tuttiVectorOf(const_cast<int32_t*>(targets), tuttiInt32, tokens_);
  call(tuttiLayerNorm(&tx, &gamma, &beta, &normed));
  call(tuttiLinearForward(head_, tokens_, &normed, &w, nullptr, &logits));
  call(tuttiVocabCrossEntropy(tp_, vocabulary_.data(), &logits, &target, &loss, &logits,
                              1 / static_cast<double>(wholeTokens_)));
  storage.reshard(unit, true);
  return meanOf(losses);
}

template <class T>
void Model<T>::backwardWeight(int slotNumber) {
  Slot& slot = slots_[static_cast<size_t>(slotNumber)];
  for (const auto& task : slot.later) task();
  slot.later.clear();
}

template <class T>
void Model<T>::backward(int slotNumber, const int32_t* ids, const T* dout, T* din, Storage& storage, bool weights) {
  Slot& slot = slots_[static_cast<size_t>(slotNumber)];
  deferred_ = weights ? nullptr : &slot;
  splits_ = !weights;
  Buffer dx(static_cast<size_t>(boundary()));
  int unit = units() - 1;
  if (stage_.last) {
    const int64_t h = shape_.width, v = vocabularyHere();
    Buffer dnormed;
    storage.unshard(unit);
    linearBackward(head_, slot.normed, h, finalNorm_ + 2, false, slot.dlogits, v, dnormed, storage);
    normBackward(slot.last, finalNorm_, dnormed, dx, storage);
    storage.reshard(unit--, false);
  } else {
    copyTo(dx.vector(), here(tuttiVectorOf(const_cast<T*>(dout), kType<T>, boundary())));
  }
  for (size_t l = blocks_.size(); l-- > 0; --unit) {
    storage.unshard(unit);
    blockBackward(blocks_[l], slot.blocks[l], dx, storage);
    storage.reshard(unit, false);
  }
  if (stage_.first) {
    storage.unshard(unit);
    const auto kept = std::make_shared<Buffer>(std::move(dx));
    const std::vector<int32_t> places(ids, ids + tokens_);
    addGradients([this, kept, places, &storage] { embedBackward(places.data(), *kept, storage); });
    storage.reshard(unit, false);
  } else {
    copyTo(here(tuttiVectorOf(din, kType<T>, boundary())), dx.vector());
  }
}

template class Model<float>;
template class Model<double>;

}  // namespace gpt
