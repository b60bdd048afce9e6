// Gradients on the wire in fewer bytes.
#pragma once

#include <vector>

#include "src/parallel/group.hpp"
#include "tutti/parallel/dp.h"

namespace tutti::parallel {

constexpr int64_t kInt8Block = kernels::kInt8Block;  // elements under one scale

/// Bytes of n elements in a format; n is a multiple of the format's block.
int64_t encodedBytes(tuttiWire_t wire, int64_t n);
int64_t blockOf(tuttiWire_t wire);
/// In the device's memory.
void encode(Device& device, tuttiWire_t wire, const float* from, int64_t n, unsigned char* to);
void decode(Device& device, tuttiWire_t wire, const unsigned char* from, int64_t n, float* to);

/// What rounding has taken from a vector and from this rank's slice of its sum, in the calls before; empty before the
/// first one.
struct Residuals {
  Array<float> vector, slice;
};

/// data [count] becomes the sum over the group: each rank sums its slice in float32, everything travels encoded.
/// residuals: null, or those of the calls before, which are added here: what one call leaves out the next ones bring
/// (error feedback), at both places where something is rounded.  Where a number is not finite nothing is kept.
/// Source: Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed training
/// of speech DNNs", Interspeech 2014; Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression
/// schemes", ICML 2019; of the sum: Tang et al., "DoubleSqueeze", ICML 2019.
void encodedAllReduce(Group& group, tuttiWire_t wire, float* data, int64_t count, Residuals* residuals = nullptr);
/// The traffic of that.
void predictEncoded(tuttiTraffic_t& traffic, const Group& group, tuttiWire_t wire, int64_t count);

}  // namespace tutti::parallel
