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

/// data [count] becomes the sum over the group: each rank sums its slice in float32, everything travels encoded.
void encodedAllReduce(Group& group, tuttiWire_t wire, float* data, int64_t count);
/// The traffic of that.
void predictEncoded(tuttiTraffic_t& traffic, const Group& group, tuttiWire_t wire, int64_t count);

}  // namespace tutti::parallel
