#include "src/parallel/wire.hpp"

namespace tutti::parallel {
namespace {

/// Elements of a rank's slice: the same for all, so that encoded blocks do not straddle ranks.
int64_t sliceOf(const Group& group, tuttiWire_t wire, int64_t count) {
  const int64_t unit = blockOf(wire) * group.size();
  return (count + unit - 1) / unit * blockOf(wire);
}

}  // namespace

int64_t blockOf(tuttiWire_t wire) { return wire == tuttiWireInt8 ? kInt8Block : 1; }

int64_t encodedBytes(tuttiWire_t wire, int64_t n) {
  return wire == tuttiWireInt8 ? n / kInt8Block * (kInt8Block + 4) : wire == tuttiWireBf16 ? 2 * n : 4 * n;
}

void encode(Device& device, tuttiWire_t wire, const float* from, int64_t n, unsigned char* to) {
  if (wire == tuttiWireInt8) {
    return launch<float, Kernel::EncodeBlocks>(device, {to, from, static_cast<uint64_t>(n / kInt8Block), 0});
  }
  launch<float, Kernel::Narrow>(device, {to, from, static_cast<uint64_t>(n), 0});
}

void decode(Device& device, tuttiWire_t wire, const unsigned char* from, int64_t n, float* to) {
  if (wire == tuttiWireInt8) {
    return launch<float, Kernel::DecodeBlocks>(device, {to, from, static_cast<uint64_t>(n / kInt8Block), 0});
  }
  launch<float, Kernel::Widen>(device, {to, from, static_cast<uint64_t>(n), 0});
}

namespace {

/// As encode(), of `from` with the residual of the last time, which becomes that of this time; null: none is kept.
void encodeWith(Device& device, tuttiWire_t wire, float* from, int64_t n, unsigned char* to, Array<float>* residual) {
  const auto count = static_cast<size_t>(n);
  if (residual != nullptr && residual->size() == count) addVector<float>(device, from, residual->data(), count);
  encode(device, wire, from, n, to);
  if (residual == nullptr) return;
  Array<float> sent(device, count, Array<float>::Any);
  decode(device, wire, to, n, sent.data());
  if (residual->size() != count) *residual = Array<float>(device, count, Array<float>::Any);
  copyBytes(device, residual->data(), from, count * sizeof(float));
  launch<float, Kernel::Rest>(device, {residual->data(), sent.data(), static_cast<uint64_t>(n), 0});
}

}  // namespace

void encodedAllReduce(Group& group, tuttiWire_t wire, float* data, int64_t count, Residuals* residuals) {
  if (group.size() == 1 || count == 0) return;
  Device& device = group.device();
  const int64_t n = group.size(), slice = sliceOf(group, wire, count), bytes = encodedBytes(wire, slice);
  const auto floats = [&](int64_t elements) { return Array<float>(device, static_cast<size_t>(elements)); };
  Array<float> padded = floats(n * slice), sum = floats(slice), one = floats(slice);
  copyBytes(device, padded.data(), data, static_cast<size_t>(count) * sizeof(float));
  Array<unsigned char> out(device, static_cast<size_t>(n * bytes)), in(device, out.size());
  encodeWith(device, wire, padded.data(), n * slice, out.data(), residuals == nullptr ? nullptr : &residuals->vector);
  const std::vector<size_t> counts(static_cast<size_t>(n), static_cast<size_t>(bytes));
  group.allToAll(out.data(), counts, in.data(), counts, tuttiUint8);
  for (int64_t r = 0; r < n; ++r) {
    decode(device, wire, in.data() + r * bytes, slice, one.data());
    addVector<float>(device, sum.data(), one.data(), sum.size());
  }
  encodeWith(device, wire, sum.data(), slice, out.data() + group.rank() * bytes,
             residuals == nullptr ? nullptr : &residuals->slice);
  std::vector<int64_t> cuts;
  for (int64_t r = 0; r <= n; ++r) cuts.push_back(r * bytes);
  group.allGather(out.data(), cuts.data(), tuttiUint8);
  decode(device, wire, out.data(), n * slice, padded.data());
  copyBytes(device, data, padded.data(), static_cast<size_t>(count) * sizeof(float));
}

void predictEncoded(tuttiTraffic_t& traffic, const Group& group, tuttiWire_t wire, int64_t count) {
  if (group.size() == 1 || count == 0) return;
  const uint64_t bytes = static_cast<uint64_t>(encodedBytes(wire, sliceOf(group, wire, count)));
  const uint64_t n = static_cast<uint64_t>(group.size());
  countCall(traffic, tuttiCallAllToAllv, group.size(), (n - 1) * bytes);
  countCall(traffic, tuttiCallAllGather, group.size(), n * bytes);
}

}  // namespace tutti::parallel
