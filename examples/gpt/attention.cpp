// Attention of the model: on this rank's heads alone, or with other ranks that have other tokens.
#include <algorithm>
#include <stdexcept>

#include "examples/gpt/call.hpp"
#include "examples/gpt/model.hpp"

namespace gpt {
/// Which tokens this rank has.
template <class T>
void Model<T>::cutTokens(const TokenGroups& others) {
  others_ = others;
  if (others.both != nullptr) {
    callComm(tuttiCommCount(others.both, &otherRanks_), others.both);
    callComm(tuttiCommUserRank(others.both, &otherRank_), others.both);
  }
  if (otherRanks_ == 1) {
    for (int64_t t = 0; t < tokens_; ++t) positions_.push_back(t % shape_.sequence);
    return;
  }
  tuttiSpConfig_t config = TUTTI_SP_CONFIG_INITIALIZER;  // of one head: only for the tokens
  config.sequence = shape_.sequence;
  config.heads = config.kvHeads = config.headDim = 1;
  config.tokens = invariant_ ? 0 : others.tokens;
  config.leaves = invariant_ ? leaves_ : 0;
  tuttiSp_t sp = nullptr;
  int64_t count = 0;
  call(tuttiSpCreate(&sp, others.ulysses, others.ring, &config));
  call(tuttiSpTokens(sp, &count, nullptr));
  std::vector<int64_t> one(static_cast<size_t>(count));
  call(tuttiSpTokens(sp, &count, one.data()));
  call(tuttiSpDestroy(sp));
  for (int64_t s = 0; s < shape_.perMicroBatch; ++s) positions_.insert(positions_.end(), one.begin(), one.end());
  tokens_ = static_cast<int64_t>(positions_.size());
}

template <class T>
std::vector<int32_t> Model<T>::ownTokens(const std::vector<int32_t>& whole) const {
  std::vector<int32_t> own;
  const size_t perSequence = positions_.size() / static_cast<size_t>(shape_.perMicroBatch);
  for (size_t i = 0; i < positions_.size(); ++i) {
    own.push_back(whole[i / perSequence * static_cast<size_t>(shape_.sequence) + static_cast<size_t>(positions_[i])]);
  }
  return own;
}

/// The mistake of Mistake::WrongHop: the keys that come first from another rank are earlier tokens, all to be seen, and
/// get the triangular mask of this rank's own.
template <class T>
tuttiResult_t Model<T>::maskFirstHop(void* context, const tuttiMatmul_t* product) {
  FaultyHop& f = *static_cast<FaultyHop*>(context);
  const tuttiResult_t result = f.kernels.matmul(f.kernels.context, product);
  if (result != tuttiSuccess || !product->transposeB) return result;
  const int64_t hop = f.scores++ / f.perHop;
  for (int64_t i = 0; i < product->m && hop == 1; ++i) {
    for (int64_t j = i + 1; j < product->n; ++j) static_cast<T*>(product->c)[i * product->ldc + j] = T(-1e30);
  }
  return result;
}

template <class T>
void Model<T>::attendOverRanks() {
  if ((otherRanks_ == 1 && !invariant_) || blocks_.empty() || groups_ == 0) return;
  const int64_t d = shape_.width / shape_.heads;
  tuttiSpConfig_t config = TUTTI_SP_CONFIG_INITIALIZER;
  config.sequence = shape_.sequence;
  config.batch = shape_.perMicroBatch;
  config.heads = groups_ * (shape_.heads / shape_.kvHeads);
  config.kvHeads = groups_;
  config.headDim = d;
  config.tokens = invariant_ ? 0 : others_.tokens;
  config.leaves = invariant_ ? leaves_ : 0;
  config.device = Place::current().kind();
  if (mistake_ == Mistake::WrongMask && otherRank_ == 0) config.causal = 0;
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  call(invariant_ ? tuttiKernelsInvariant(&kernels) : tuttiKernelsFast(&kernels));
  if (mistake_ == Mistake::WrongHop && otherRank_ + 1 == otherRanks_) {
    faultyHop_ = {kernels, config.batch * config.heads, 0};
    kernels.context = &faultyHop_;
    kernels.matmul = maskFirstHop;
  }
  config.kernels = &kernels;
  call(tuttiSpCreate(&sp_, others_.ulysses, others_.ring, &config));
}

/// As attention: queries, keys and values lie apart for tuttiSp_t, by groups in the model.
template <class T>
void Model<T>::attentionOverRanks(Saved& saved, Buffer* dqkv, Buffer* dattention) {
  const int64_t d = shape_.width / shape_.heads, group = shape_.heads / shape_.kvHeads;
  const int64_t columns[3] = {groups_ * group * d, groups_ * d, groups_ * d};
  Buffer parts[3];
  for (int i = 0; i < 3; ++i) parts[i].resize(static_cast<size_t>(tokens_ * columns[i]));
  const auto each = [&](Buffer& qkv, bool back) {  // heads of each kind: rows are tokens and groups
    const int64_t rows = tokens_ * groups_, wide = (group + 2) * d;
    if (rows == 0) return;
    T* at = qkv.data();
    for (int i = 0; i < 3; ++i) {
      const int64_t n = i == 0 ? group * d : d;
      const tuttiTensor_t among = here(tuttiMatrixOf(at, kType<T>, rows, n, wide));
      const tuttiTensor_t apart = here(tuttiMatrixOf(parts[i].data(), kType<T>, rows, n, n));
      copyTo(back ? among : apart, back ? apart : among);
      at += n;
    }
  };
  tuttiTensor_t views[3];
  for (int i = 0; i < 3; ++i) views[i] = rowsOf(parts[i], columns[i]);
  if (dqkv == nullptr) {
    size_t kept = 0;
    call(tuttiSpSaved(sp_, &kept));
    saved.kept.resize(kept);
    each(saved.qkv, false);
    const tuttiTensor_t out = rowsOf(saved.attention, columns[0]);
    return call(tuttiSpForward(sp_, &views[0], &views[1], &views[2], &out, saved.kept.data()));
  }
  const tuttiTensor_t dout = rowsOf(*dattention, columns[0]);
  call(tuttiSpBackward(sp_, saved.kept.data(), &dout, &views[0], &views[1], &views[2]));
  each(*dqkv, true);
}

/// Forward, or backward into *dqkv from *dattention: one call per group of heads that this rank has.
template <class T>
void Model<T>::attention(Saved& saved, Buffer* dqkv, Buffer* dattention) {
  const int64_t d = shape_.width / shape_.heads, group = shape_.heads / shape_.kvHeads;
  const int64_t wide = groups_ * (group + 2) * d, narrow = groups_ * group * d;
  tuttiAttention_t s = TUTTI_ATTENTION_INITIALIZER;
  s.batch = shape_.perMicroBatch;
  s.queries = s.keys = shape_.sequence;
  s.heads = group;
  s.kvHeads = 1;
  s.headDim = d;
  tuttiKernels_t kernels = TUTTI_KERNELS_INITIALIZER;
  call(invariant_ ? tuttiKernelsInvariant(&kernels) : tuttiKernelsFast(&kernels));
  if (sp_ != nullptr) return attentionOverRanks(saved, dqkv, dattention);
  for (int64_t g = 0; g < groups_; ++g) {
    const auto part = [&](Buffer& b, int64_t offset, int64_t columns) {
      return here(tuttiMatrixOf(b.data() + g * (group + 2) * d + offset, kType<T>, tokens_, columns, wide));
    };
    const auto heads = [&](Buffer& b) {
      return here(tuttiMatrixOf(b.data() + g * group * d, kType<T>, tokens_, group * d, narrow));
    };
    const tuttiTensor_t q = part(saved.qkv, 0, group * d), k = part(saved.qkv, group * d, d);
    const tuttiTensor_t v = part(saved.qkv, (group + 1) * d, d), out = heads(saved.attention);
    const tuttiTensor_t lse = here(tuttiVectorOf(saved.lse.data() + g * tokens_ * group, kType<T>, tokens_ * group));
    if (dqkv == nullptr) {
      call(tuttiAttentionForward(&s, &kernels, &q, &k, &v, &out, &lse));
      continue;
    }
    const tuttiTensor_t dq = part(*dqkv, 0, group * d), dk = part(*dqkv, group * d, d);
    const tuttiTensor_t dv = part(*dqkv, (group + 1) * d, d), dout = heads(*dattention);
    call(tuttiAttentionBackward(&s, &kernels, &q, &k, &v, &out, &lse, &dout, &dq, &dk, &dv));
  }
}

template <class T>
tuttiTraffic_t Model<T>::traffic() const {
  tuttiTraffic_t counted = TUTTI_TRAFFIC_INITIALIZER;
  call(tuttiTpTraffic(tp_, &counted, 0));
  if (sp_ != nullptr) {
    tuttiTraffic_t more = TUTTI_TRAFFIC_INITIALIZER;
    call(tuttiSpTraffic(sp_, kType<T>, &more, nullptr));
    addTraffic(counted, more);
  }
  return counted;
}

template <class T>
tuttiTraffic_t Model<T>::expected() const {
  tuttiTraffic_t sum = TUTTI_TRAFFIC_INITIALIZER;
  const int passes = splits_ ? 7 : 3;
  for (const Block& b : blocks_) {
    for (tuttiLinear_t linear : {b.qkv, b.proj, b.up, b.down}) {
      if (linear == nullptr) continue;
      call(tuttiLinearPredict(linear, tokens_, kType<T>, passes, &sum));
    }
  }
  for (size_t b = 0; b < blocks_.size() && sp_ != nullptr; ++b) {
    tuttiTraffic_t more = TUTTI_TRAFFIC_INITIALIZER;
    call(tuttiSpTraffic(sp_, kType<T>, nullptr, &more));
    addTraffic(sum, more);
  }
  for (const Parameter& p : parameters_) {  // sums over tokens; the layers' are of all tokens of the group
    const bool ours = p.name == "positions" || p.name.find("norm") == 0;
    call(tuttiTpTokenPredict(tp_, !ours, p.count(), kType<T>, &sum));
  }
  if (stage_.first) call(tuttiVocabPredict(tp_, tokens_, shape_.width, kType<T>, 3, &sum));
  if (stage_.last) {
    call(tuttiLinearPredict(head_, tokens_, kType<T>, passes, &sum));
    call(tuttiVocabPredict(tp_, tokens_, shape_.width, kType<T>, 4, &sum));
    call(tuttiTpTokenPredict(tp_, 1, 1, tuttiFloat64, &sum));  // of the mean loss
  }
  return sum;
}

template <class T>
void Model<T>::expertTraffic(tuttiTraffic_t* counted, tuttiTraffic_t* expected) const {
  for (const Block& b : blocks_) {
    if (b.experts != nullptr) addTraffic(*expected, b.experts->expected());
  }
  for (const Slot& slot : slots_) {
    for (const Saved& saved : slot.blocks) {
      if (saved.routed.ep == nullptr) continue;
      tuttiTraffic_t one = TUTTI_TRAFFIC_INITIALIZER;
      call(tuttiEpTraffic(saved.routed.ep.get(), 0, kType<T>, 0, &one, nullptr));
      addTraffic(*counted, one);
    }
  }
}

#define TUTTI_GPT_ATTENTION_OF(T)                                                       \
  template void Model<T>::cutTokens(const TokenGroups&);                                \
  template std::vector<int32_t> Model<T>::ownTokens(const std::vector<int32_t>&) const; \
  template void Model<T>::attendOverRanks();                                            \
  template void Model<T>::attention(Saved&, Buffer*, Buffer*);                          \
  template tuttiTraffic_t Model<T>::traffic() const;                                    \
  template tuttiTraffic_t Model<T>::expected() const;                                   \
  template void Model<T>::expertTraffic(tuttiTraffic_t*, tuttiTraffic_t*) const;
TUTTI_GPT_ATTENTION_OF(float)
TUTTI_GPT_ATTENTION_OF(double)

}  // namespace gpt
