// How many parameters a model's layers have, and what its passes send how often.
#pragma once

#include "tutti/parallel/planner.h"

namespace tutti::parallel {

struct ModelParameters {
  double dense, experts;
  double whole() const { return dense + experts; }
};

inline double expertWidth(const tuttiModelShape_t& m) {
  return m.expertWidth > 0 ? m.expertWidth : 4 * m.hidden / m.choices;
}

/// 4 h^2 of attention and 8 h^2 of an MLP, or 2 h f of each expert.
inline ModelParameters parametersOf(const tuttiModelShape_t& m) {
  const double experts = m.experts > 0 ? m.layers * m.experts * 2 * m.hidden * expertWidth(m) : 0;
  if (m.parameters > 0) return {m.parameters - experts, experts};
  return {(m.experts > 0 ? 4 : 12) * m.layers * m.hidden * m.hidden, experts};
}

/// Of the layers of a rank's stages, as its tensor-parallel part has them.
inline double parametersHere(const tuttiModelShape_t& m, const tuttiLayout_t& l) {
  const ModelParameters all = parametersOf(m);
  return (all.dense / l.tp + all.experts / l.ep) / l.pp;
}

/// Of attention's scores and of the head, beside a layer's matrices.
inline double attentionWidth(const tuttiModelShape_t& m) { return m.attentionWidth > 0 ? m.attentionWidth : m.hidden; }
inline double attentionShare(const tuttiModelShape_t& m) {
  return m.visible * m.sequence * attentionWidth(m) / (6 * m.hidden * m.hidden);
}
inline double headShare(const tuttiModelShape_t& m) { return m.vocabulary / (12 * m.layers * m.hidden); }
/// What backward computes again, as a part of a forward pass.
inline double recomputed(const tuttiModelShape_t& m, int recompute) {
  const double attention = attentionShare(m);
  const double again = recompute == tuttiRecomputeFull        ? 1 + attention
                       : recompute == tuttiRecomputeSelective ? attention
                       : recompute == tuttiRecomputeAlternate ? 0.5
                                                              : 0;
  return again / (1 + attention + headShare(m));
}

/// How often a layer's forward pass runs for a micro-batch.
inline double forwardsOf(const tuttiLayout_t& l) { return l.recompute == tuttiRecomputeFull ? 2 : 1; }
/// How often stage 3 gathers a layer's values for a micro-batch.
inline double gathersOf(const tuttiMachine_t& machine, const tuttiLayout_t& l) {
  return l.zero < 3 ? 0 : machine.gathers > 0 ? machine.gathers : 2;
}
/// Of keys and values in every forward pass and the backward pass, then of their gradients, which go all the way home.
inline double ringHops(const tuttiLayout_t& l) { return (forwardsOf(l) + 1) * (l.cp - 1) + l.cp; }

}  // namespace tutti::parallel
