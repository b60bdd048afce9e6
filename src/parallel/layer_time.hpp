// How long a rank computes in a step, product by product, on GPUs whose curve is known.
#pragma once

#include "src/parallel/gpu_curve.hpp"

namespace tutti::parallel {

/// Seconds of a layer and micro-batch.
struct LayerTime {
  double forward = 0, backward = 0;
  double again = 0;      // what backward computes a second time
  double attention = 0;  // of forward: scores, and values by them
  double whole() const { return forward + backward + again; }
};

LayerTime layerTime(const GpuCurve& gpu, int elementBytes, const tuttiModelShape_t& m, const tuttiLayout_t& l);

/// Forward and backward of the head, of a micro-batch, on the ranks that have it.  Its elements have 16 bits: programs
/// leave it out of fp8 (torchao's convert_to_float8_training, Transformer Engine).
double headSeconds(const GpuCurve& gpu, const tuttiModelShape_t& m, const tuttiLayout_t& l);

/// A step of the optimizer: it reads gradients and states and writes states and values.
double optimizerSeconds(const GpuCurve& gpu, const tuttiLayout_t& l, const tuttiLayoutCost_t& cost);

/// What a program copies of stage 3's gathers and scatters in memory (tuttiMachine_t::memoryCopies), of a micro-batch.
/// here: parameters of the rank's share of the layers, gathered
double copiesSeconds(const GpuCurve& gpu, const tuttiMachine_t& machine, const tuttiLayout_t& l, double here);

}  // namespace tutti::parallel
