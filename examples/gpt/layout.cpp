// Which layouts a model can be trained under.
#include "examples/gpt/layout.hpp"

#include <sstream>

namespace gpt {
namespace {

template <class... Parts>
void refuseIf(bool condition, const Parts&... parts) {
  if (!condition) return;
  std::ostringstream sentence;
  (sentence << ... << parts);
  throw Refused(sentence.str());
}

void checkShape(const Shape& s) {
  refuseIf(s.kvHeads < 1 || s.heads < 1 || s.heads % s.kvHeads != 0 || s.width < s.heads || s.width % s.heads != 0,
           "a width of ", s.width, " in ", s.heads, " heads, of which ", s.kvHeads,
           " have keys: each divides the one before");
  refuseIf(s.vocabulary < 256 || s.sequence < 1 || s.layers < 1 || s.perMicroBatch < 1, s.layers, " layers, ",
           s.perMicroBatch, " sequences of ", s.sequence, " tokens, ", s.vocabulary,
           " words: at least 1, and 256 words");
  refuseIf(s.choices < 1 || s.experts < s.choices, s.choices, " of ", s.experts, " experts for each token");
}

void checkExperts(const Shape& s, const Layout& l, const Run& run) {
  refuseIf(!l.experts && l.ep > 1, l.ep, " ranks over experts, and blocks have none");
  if (!l.experts) return;
  const int replicas = l.ep * l.dp, each = s.microBatches / replicas;
  refuseIf((l.sequence && l.tp > 1) || l.ulysses * l.ring > 1, "where blocks have experts a rank has whole sequences; ",
           "these are cut over ", l.sequence ? l.tp : 1, " x ", l.ulysses, " x ", l.ring, " ranks");
  refuseIf(run.device != TUTTI_DEVICE_HOST, "blocks with experts are computed on the host, whose numbers the router's ",
           "choices are, not on device ", run.device);
  refuseIf(l.ep > 1 && l.zero >= 0, "experts that ", l.ep, " ranks share lie in buckets, not in stage ", l.zero,
           " of ZeRO");
  refuseIf(l.ep > 1 && each * replicas != s.microBatches,
           "ranks over experts have as many micro-batches each: ", s.microBatches, " over ", replicas, " ranks");
  refuseIf(l.ep > 1 && run.invariant && (each & (each - 1)) != 0, "ranks over experts have a power of two of ",
           "micro-batches each in layout-invariant mode: ", s.microBatches, " over ", replicas, " ranks are ", each);
}

}  // namespace

void checkLayout(const Shape& shape, const Layout& l, const Run& run) {
  checkShape(shape);
  for (const int ranks : {l.tp, l.pp, l.dp, l.ep, l.ulysses, l.ring, l.chunks}) {
    refuseIf(ranks < 1, "an axis of ", ranks, " ranks or chunks: at least 1");
  }
  checkExperts(shape, l, run);
  const int replicas = l.ep * l.dp, tokenRanks = l.ulysses * l.ring;
  refuseIf(shape.microBatches < replicas, shape.microBatches, " micro-batches over ", replicas, " ranks (dp ", l.dp,
           ", ep ", l.ep, "): each has one at least");
  refuseIf(l.zero >= 0 && (l.chunks > 1 || l.schedule == "zbv"), "ZeRO ", l.zero,
           " takes its norm of one stage of each ", "rank, and ", l.schedule, " with ", l.chunks, " chunks has more");
  refuseIf(l.zero == 3 && l.schedule.find("zb-") == 0, l.schedule, " makes gradients of weights after stage 3 of ZeRO ",
           "has given the weights back");
  refuseIf(l.zero >= 0 && l.tied, "tied weights are summed between buckets and update, not in stage ", l.zero,
           " of ZeRO");
  refuseIf(tokenRanks > 1 && l.sequence && l.tp > 1, "tokens are cut over ", l.tp, " tensor-parallel ranks and ",
           tokenRanks, " of Ulysses and rings: over one of them only");
  refuseIf(tokenRanks > 1 && run.invariant && shape.perMicroBatch > 1, shape.perMicroBatch,
           " sequences of a micro-batch over ", tokenRanks, " ranks of tokens: in layout-invariant mode it has one");
}

}  // namespace gpt
