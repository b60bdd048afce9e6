// How long products of matrices take on a generation of GPUs, by their shape and type.
#pragma once

#include <optional>

#include "tutti/parallel/planner.h"

namespace tutti::parallel {

/// m x k by k x n, so many of them.
struct ProductShape {
  double m, n, k;
  double count = 1;
  bool onChip = false;  // operands do not come from memory, nor results go there
};

struct GpuCurve {
  int gpu;  // tuttiGpu_t
  double multiprocessors;
  double peak[2];       // FLOP/s of the data sheet, dense: elements of 2 bytes, of 1 byte; 0: has none
  double sustained[2];  // the best that long runs reach
  double memory;        // bytes per second that copies reach
  double sheet;         // bytes per second of the data sheet
  double watts;         // the limit at which products were measured
  double blocks;        // multiprocessors that a collective's kernel takes
  double attention;     // FLOP/s of attention by blocks of keys, forward and backward
  double castBytes;     // read and written for an operand of 16 bits that is turned into 8
};

/// nullptr if there is none.
const GpuCurve* curveOf(int gpu);

/// The machine's generation with its limits of power and memory; empty if it has none.
std::optional<GpuCurve> curveOf(const tuttiMachine_t& machine);

/// What a collective's kernel leaves of the GPU while it runs.
GpuCurve besideCollective(const GpuCurve& gpu);

/// Tiles of the result go to multiprocessors in waves; the last wave is as long as a full one.  Products with few tiles
/// are cut along k, too.  None is faster than its operands come from memory, or than long runs sustain.
double productSeconds(const GpuCurve& gpu, int elementBytes, const ProductShape& shape);

}  // namespace tutti::parallel
