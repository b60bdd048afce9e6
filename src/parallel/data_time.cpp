#include "src/parallel/data_time.hpp"

#include "src/parallel/model_parameters.hpp"

namespace tutti::parallel {
namespace {

/// Wang et al., "ZeRO++", 2023: forward gathers INT8 (qwZ); the node's ranks keep the values among them, and backward
/// gathers from there (hpZ); gradients go as INT4, by all-to-alls in two steps (qgZ).  Scales of blocks are left out,
/// as there.
DataTime plusTime(const tuttiModelShape_t& model, const tuttiMachine_t& machine, const tuttiLayout_t& l,
                  const RingLink& link) {
  constexpr double kForward = 1, kGradients = 0.5;  // bytes of an element
  const double here = parametersHere(model, l), replicas = l.dp * l.cp * l.ep, m = l.microBatches;
  const double inNode = std::min(replicas, 1.0 * replicasInNode(machine, l)), layersHere = model.layers / l.pp;
  const double across = m * here * (kForward + kGradients) * (replicas - 1) / replicas;
  const double inside = m * here * l.valueBytes * (inNode - 1) / inNode;
  const double calls = m * layersHere;
  DataTime t;
  t.bytes = across + inside;
  t.ms = (across / link.bandwidth + inside / machine.nodeBandwidth) * 1e3 + 2 * calls * link.onceMs +
         calls * (inNode - 1) * machine.nodeLatencyUs / 1e3;
  t.kept = here * l.valueBytes / inNode;
  return t;
}

}  // namespace

DataTime dataTime(const tuttiModelShape_t& model, const tuttiMachine_t& machine, const tuttiLayout_t& l, double bytes) {
  const int replicas = l.dp * l.cp * l.ep;
  if (replicas == 1) return {.bytes = bytes};
  const RingLink link = ringOf(machine, replicas, replicasInNode(machine, l));
  if (l.zero == 3 && machine.zeroPlus > 0) return plusTime(model, machine, l, link);
  const double m = l.microBatches, layersHere = model.layers / l.pp;
  const double gathers = l.zero == 3 ? m * gathersOf(machine, l) : 1, sums = l.zero >= 2 ? m : 1;
  // Beyond the two gathers of a micro-batch that the layout's bytes have.
  const double more = l.zero == 3 ? gathers - 2 * m : 0;
  DataTime t{.bytes = bytes + more * parametersHere(model, l) * l.valueBytes * (replicas - 1) / replicas};
  const double each = l.zero == 3 ? layersHere * std::max(1, machine.tensors) : l.zero == 2 ? layersHere : 1;
  const double calls = (gathers + sums) * each;
  t.hostMs = l.zero == 3 ? calls * replicas * machine.partUs / 1e3 : 0;
  t.ms = t.bytes / link.bandwidth * 1e3 + calls * link.onceMs + t.hostMs;
  return t;
}

}  // namespace tutti::parallel
