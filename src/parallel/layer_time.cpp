#include "src/parallel/layer_time.hpp"

#include <algorithm>
#include <vector>

#include "src/parallel/model_parameters.hpp"

namespace tutti::parallel {
namespace {

bool byBlocks(const tuttiModelShape_t& m) { return m.keyBlock < m.sequence; }

struct Pass {
  double forward = 0, backward = 0;
  void add(const Pass& p) { forward += p.forward, backward += p.backward; }
};

/// Of what turns 16-bit operands into 8-bit ones.
double castSeconds(const GpuCurve& gpu, int bytes, double elements) {
  return bytes == 1 ? elements * gpu.castBytes / gpu.memory : 0;
}

/// y = x w: forward, and backward's two products of the same numbers.  w is cast once a step, which is left out.
Pass passOf(const GpuCurve& gpu, int bytes, const ProductShape& p) {
  const double backward =
      productSeconds(gpu, bytes, {p.m, p.k, p.n, p.count}) + productSeconds(gpu, bytes, {p.k, p.n, p.m, p.count});
  return {productSeconds(gpu, bytes, p) + castSeconds(gpu, bytes, p.m * p.k * p.count),
          backward + castSeconds(gpu, bytes, p.m * p.n * p.count)};
}

/// A token's values, once more for each of its experts: sorted by expert, and their results before they are summed.
constexpr double kSortedBytes = 2 + 2;

/// The operations between products go at the speed of memory.  Every byte that backward needs is written and read in
/// forward, and twice as many go in backward.  The bytes are those of Korthikanti et al., 2022, section 4.  Its MLP
/// keeps 2 before and 2 after the activation for each of its 4 h columns; SwiGLU's three parts are as many for the
/// columns of the two products that stand for its three.
Pass betweenProducts(const GpuCurve& gpu, double keptBytes) {
  const double forward = 2 * keptBytes / gpu.memory;
  return {forward, 2 * forward};
}

/// Attention's scores, and values by them.  With blocks of keys (keyBlock) neither leaves the multiprocessors, and
/// backward, which computes the scores again, has five products to forward's two; whole scores go through memory.
Pass attentionPass(const GpuCurve& gpu, const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  const double own = m.sequence / l.cp, keys = m.visible * m.sequence, width = attentionWidth(m) / m.heads;
  const double heads = m.heads / l.tp * l.microBatch;
  if (byBlocks(m)) {
    const double product = 2 * own * keys * width * heads / gpu.attention;
    const double one = std::max(product, productSeconds(gpu, 2, {own, width, keys, heads, true}));
    return {2 * one, 5 * one};
  }
  Pass pass = passOf(gpu, 2, {own, keys, width, heads});
  pass.add(passOf(gpu, 2, {own, width, keys, heads}));
  pass.add(betweenProducts(gpu, 5 * heads * own * keys));
  return pass;
}

}  // namespace

LayerTime layerTime(const GpuCurve& gpu, int bytes, const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  const double tokens = m.sequence / l.cp * l.microBatch, h = m.hidden, t = l.tp;
  const double keys = m.kvHeads > 0 ? m.kvHeads / m.heads : 1;
  Pass pass;
  std::vector<ProductShape> products = {{tokens, (1 + 2 * keys) * h / t, h}, {tokens, h, h / t}};
  // What a model has beside attention and experts, as two products.
  const double dense = parametersOf(m).dense / m.layers, attentions = 2 * (1 + keys) * h * h;
  const double width = m.experts > 0 && m.parameters <= 0 ? 0 : std::max(0.0, (dense - attentions) / (2 * h));
  if (width > 0) {
    products.push_back({tokens, width / t, h});
    products.push_back({tokens, h, width / t});
  }
  double kept = (l.sequenceParallel != 0 ? 18 / t : 10 + 8 / t) + 4 * width / h / t;
  if (m.experts > 0) {
    const double here = m.experts / l.ep, rows = tokens * m.choices / here / t;
    products.push_back({rows, expertWidth(m), h, here});
    products.push_back({rows, h, expertWidth(m), here});
    kept += m.choices * (kSortedBytes + 4 * expertWidth(m) / h) / t;
  }
  for (const ProductShape& product : products) pass.add(passOf(gpu, bytes, product));
  const double matrices = pass.forward;
  pass.add(betweenProducts(gpu, kept * tokens * h));
  const double besideAttention = pass.forward;
  const Pass attention = attentionPass(gpu, m, l);
  pass.add(attention);
  LayerTime time{pass.forward, pass.backward, 0, attention.forward};
  if (l.recompute == tuttiRecomputeFull) time.again = time.forward;
  if (l.recompute == tuttiRecomputeSelective && !byBlocks(m)) time.again = time.attention;
  if (l.recompute == tuttiRecomputeAlternate) time.again = besideAttention - matrices / 2;
  return time;
}

double headSeconds(const GpuCurve& gpu, const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  if (m.vocabulary <= 0) return 0;
  const double tokens = m.sequence / l.cp * l.microBatch;
  const Pass pass = passOf(gpu, 2, {tokens, m.vocabulary / l.tp, m.hidden});
  const Pass losses = betweenProducts(gpu, 4 * tokens * m.vocabulary / l.tp);
  return pass.forward + pass.backward + losses.forward + losses.backward;
}

double optimizerSeconds(const GpuCurve& gpu, const tuttiLayout_t& l, const tuttiLayoutCost_t& cost) {
  if (l.optimizerBytes <= 0) return 0;
  const double parameters = cost.optimizer / l.optimizerBytes;
  return (2 * cost.optimizer + parameters * (l.gradientBytes + l.valueBytes)) / gpu.memory;
}

double copiesSeconds(const GpuCurve& gpu, const tuttiMachine_t& machine, const tuttiLayout_t& l, double here) {
  if (l.zero < 3) return 0;
  const double gathered = gathersOf(machine, l) * 2 * l.valueBytes, scattered = l.valueBytes + l.gradientBytes;
  return machine.memoryCopies * here * (gathered + scattered) / gpu.memory;
}

}  // namespace tutti::parallel
