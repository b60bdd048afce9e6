// One of several ranks as processes, on hosts that are only called so: sums that are rounded between hosts.
//   wire_ranks FORMAT [all] [again]   FORMAT: what TUTTI_WIRE says.  all: every kind of data in every type; else every
//                                     kind in one type, and every type.  again: prints a checksum of all results, for
//                                     who compares runs
// Every sum is held to the sum in double within the bound of docs/networks.md, for all its elements; AllReduce also to
// the bits of rank 0; calls that are no sums of floats, and small ones, are exact.  Exit status 0 if all is so.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "src/base/crc32c.hpp"
#include "src/base/split_mix.hpp"
#include "src/base/wire_format.hpp"
#include "tests/support/ranks.hpp"
#include "tests/unit/exec/naive_reduce.hpp"

using namespace tutti;
using namespace tutti::test;

namespace {

WireFormat format = WireFormat::Full;
uint32_t allResults = 0;
bool everyCase = false;

enum class Data { Even, Ranges, Tiny, Mixed, Special };
constexpr Data kData[] = {Data::Even, Data::Ranges, Data::Tiny, Data::Mixed, Data::Special};

std::vector<double> makeInput(int rank, size_t count, tuttiDataType_t dtype, Data data);

/// Numbers of one rank's input, the same wherever they are asked for; the last ones are kept.
const std::vector<double>& inputOf(int rank, size_t count, tuttiDataType_t dtype, Data data) {
  using Key = std::tuple<int, size_t, tuttiDataType_t, Data>;
  static std::map<Key, std::vector<double>> kept;
  if (kept.size() > 64) kept.clear();
  const auto [found, made] = kept.try_emplace({rank, count, dtype, data});
  if (made) found->second = makeInput(rank, count, dtype, data);
  return found->second;
}

/// The type's number next to x towards zero: without its table of all numbers, which took most of the time.
double truncated(tuttiDataType_t dtype, double x) {
  if (dtype == tuttiFloat64 || !std::isfinite(x)) return x;
  if (dtype == tuttiFloat16 && std::fabs(x) < 0x1p-14) return std::trunc(x * 0x1p24) * 0x1p-24;
  const auto single = static_cast<float>(x);
  if (dtype == tuttiFloat32) return single;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(single) & (dtype == tuttiFloat16 ? 0xffffe000 : 0xffff0000));
}

std::vector<double> makeInput(int rank, size_t count, tuttiDataType_t dtype, Data data) {
  uint64_t random = static_cast<uint64_t>(rank) * 1000003 + count * 31 + static_cast<uint64_t>(data);
  std::vector<double> x(count);
  const unsigned spread = dtype == tuttiFloat16 ? 12 : 60;
  double powers[60];
  for (unsigned i = 0; i < spread; ++i) powers[i] = std::ldexp(1, static_cast<int>(i) - static_cast<int>(spread) / 2);
  const double tiny = dtype == tuttiFloat16 ? 0x1p-22 : 0x1p-130;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = nextSplitMix(&random);
    const unsigned r = bits % 64;
    const double unit = static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-63;
    x[i] = 3 * unit * unit * unit;  // many small ones, as a normal distribution has
    if (data == Data::Ranges) x[i] *= powers[r % spread];
    if (data == Data::Tiny) x[i] *= tiny;
    if (data == Data::Mixed && r < 40) x[i] = r < 30 ? 0 : 1000 * x[i];
    if (data == Data::Special && r == 0 && rank % 2 == 0) x[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? INFINITY : -INFINITY;
    x[i] = truncated(dtype, x[i]);
  }
  return x;
}

/// Memory of numbers, off any alignment, between guards.
class Buffer {
 public:
  Buffer(tuttiDataType_t dtype, size_t count, size_t shift)
      : dtype_(dtype), count_(count), shift_(shift), bytes_(shift + count * dataTypeBytes(dtype) + 16, 0x3c) {}
  void* at(size_t i) { return bytes_.data() + shift_ + i * dataTypeBytes(dtype_); }
  const void* at(size_t i) const { return bytes_.data() + shift_ + i * dataTypeBytes(dtype_); }
  void set(const std::vector<double>& x) {
    for (size_t i = 0; i < x.size(); ++i) putValue(dtype_, at(i), x[i]);
  }
  double get(size_t i) const {
    double d = 0;
    float f = 0;
    uint16_t half = 0;
    if (dtype_ == tuttiFloat64) return std::memcpy(&d, at(i), 8), d;
    if (dtype_ == tuttiFloat32) return std::memcpy(&f, at(i), 4), double{f};
    return std::memcpy(&half, at(i), 2), decode(formatOf(dtype_), half);
  }
  uint32_t checksum() const { return crc32c(static_cast<const std::byte*>(at(0)), count_ * dataTypeBytes(dtype_)); }
  bool guarded() const {
    const auto guard = [](unsigned char c) { return c == 0x3c; };
    return std::all_of(bytes_.begin(), bytes_.begin() + static_cast<long>(shift_), guard) &&
           std::all_of(bytes_.end() - 16, bytes_.end(), guard);
  }

 private:
  tuttiDataType_t dtype_;
  size_t count_, shift_;
  std::vector<unsigned char> bytes_;
};

/// Error of one rounding for each unit of |x|, and of the largest of a block; of the type's own additions; the least.
struct Bound {
  double ofNumber, ofBlock, ofAddition, least;
};
Bound boundOf(tuttiDataType_t dtype) {
  Bound b{0, 0, 0x1p-24, 0x1p-126};
  if (dtype == tuttiFloat64) b.ofAddition = 0x1p-53;
  if (dtype == tuttiFloat16) b.ofAddition = 0x1p-11, b.least = 0x1p-25;
  if (dtype == tuttiBfloat16) b.ofAddition = 0x1p-8;
  if (!isNarrower(format, dtype)) return b;
  if (format == WireFormat::Bf16) b.ofNumber = 0x1p-8;
  if (format == WireFormat::Fp8) b.ofNumber = 0x1p-4, b.ofBlock = 0x1p-17;
  if (format == WireFormat::Int8) b.ofBlock = 1.0 / 125;
  return b;
}

/// result[i] is the sum of inputs[.][first + i] times `factor`, within the bound of nRanks roundings.
std::string compare(const std::vector<std::vector<double>>& inputs, size_t first, size_t count, tuttiDataType_t dtype,
                    double factor, bool average, const Buffer& result) {
  const double n = static_cast<double>(inputs.size());
  const Bound b = boundOf(dtype);
  // Each rounding is of a partial sum with the errors before it: n of them grow by (1 + u) each.
  const double growth = std::pow(1 + b.ofNumber + b.ofBlock + b.ofAddition, n);
  std::vector<double> sums(count, 0), sizes(count, 0);
  std::vector<bool> nan(count, false);
  for (size_t i = 0; i < count; ++i) {
    for (const std::vector<double>& x : inputs) {
      sums[i] += factor * x[first + i];
      sizes[i] += std::isfinite(x[first + i]) ? std::fabs(factor * x[first + i]) : 0;
    }
  }
  for (size_t i = 0; i < count; ++i) {
    // Blocks begin where pieces of the vector do, which this knows nothing of: at most 31 numbers off to either side.
    double most = 0;
    for (size_t k = i - std::min(i, kWireBlock - 1); k < std::min(count, i + kWireBlock); ++k)
      most = std::max(most, sizes[k]);
    const double error = n * growth * ((b.ofNumber + 2 * b.ofAddition) * sizes[i] + b.ofBlock * most + 2 * b.least);
    const double divisor = average ? n : 1;
    const double expected = sums[i] / divisor, got = result.get(i);
    const double bound = error / divisor + b.ofAddition * std::fabs(expected) + b.least;
    const bool good = std::isnan(expected)   ? std::isnan(got)
                      : std::isinf(expected) ? got == expected
                                             : std::fabs(got - expected) <= bound;
    if (!good)
      return "element " + std::to_string(i) + " is " + std::to_string(got) + ", not " + std::to_string(expected) +
             " (within " + std::to_string(bound) + ")";
  }
  return "";
}

struct Case {
  tuttiDataType_t dtype = tuttiFloat32;
  size_t count = 0;
  Data data = Data::Even;
  tuttiRedOp_t op = tuttiSum;
  bool inPlace = false;
  size_t shift = 0;
};

std::string sameEverywhere(const Rank& r, const Buffer& result) {
  const uint32_t mine = result.checksum();
  std::vector<uint32_t> all(static_cast<size_t>(r.nRanks));
  RANK_TRY(tuttiAllGather(&mine, all.data(), 1, tuttiUint32, r.comm, nullptr));
  for (int rank = 0; rank < r.nRanks; ++rank)
    if (all[static_cast<size_t>(rank)] != all[0]) return "rank " + std::to_string(rank) + " has other bits than rank 0";
  allResults = allResults * 31 + mine;
  return "";
}

std::string allReduce(const Rank& r, const Case& c) {
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < r.nRanks; ++rank) inputs.push_back(inputOf(rank, c.count, c.dtype, c.data));
  Buffer in(c.dtype, c.count, c.shift), out(c.dtype, c.count, (c.shift + 4) % 16);
  Buffer& from = c.inPlace ? out : in;
  from.set(inputs[static_cast<size_t>(r.rank)]);
  tuttiRedOp_t op = c.op;
  const float factor = 0.5;
  const bool premul = op == tuttiNumOps;
  if (premul)
    RANK_TRY(
        tuttiRedOpCreatePreMulSum(&op, const_cast<float*>(&factor), tuttiFloat32, tuttiScalarHostImmediate, r.comm));
  RANK_TRY(tuttiAllReduce(from.at(0), out.at(0), c.count, c.dtype, op, r.comm, nullptr));
  if (premul) RANK_TRY(tuttiRedOpDestroy(op, r.comm));
  RANK_CHECK(out.guarded());
  tuttiEstimate_t plan = TUTTI_ESTIMATE_INITIALIZER;
  RANK_TRY(
      tuttiCommEstimate(r.comm, tuttiCallAllReduce, c.count, c.dtype, c.op == tuttiNumOps ? tuttiSum : c.op, 0, &plan));
  const std::string_view algorithm = plan.algorithm;
  // By these two all ranks sum up for themselves, exactly: NaN may have the sign of another rank's, and of sums of
  // small floats it matters which are made in one go.
  const bool once = algorithm != "oneshot" && algorithm != "recursivedoubling";
  const bool rounded = isNarrower(format, c.dtype) && c.count * dataTypeBytes(c.dtype) >= 16 * 1024 && once;
  if (rounded || (c.data != Data::Special && (once || dataTypeBytes(c.dtype) > 2))) {
    if (std::string why = sameEverywhere(r, out); !why.empty()) return why;
  }
  return compare(inputs, 0, c.count, c.dtype, premul ? factor : 1, op == tuttiAvg, out);
}

std::string reduce(const Rank& r, const Case& c) {
  const int root = r.nRanks - 1;
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < r.nRanks; ++rank) inputs.push_back(inputOf(rank, c.count, c.dtype, c.data));
  Buffer in(c.dtype, c.count, c.shift), out(c.dtype, c.count, c.shift);
  Buffer& from = c.inPlace && r.rank == root ? out : in;
  from.set(inputs[static_cast<size_t>(r.rank)]);
  RANK_TRY(tuttiReduce(from.at(0), out.at(0), c.count, c.dtype, c.op, root, r.comm, nullptr));
  if (r.rank != root) return "";
  allResults = allResults * 31 + out.checksum();
  return compare(inputs, 0, c.count, c.dtype, 1, c.op == tuttiAvg, out);
}

std::string reduceScatter(const Rank& r, const Case& c) {
  const size_t all = c.count * static_cast<size_t>(r.nRanks), first = c.count * static_cast<size_t>(r.rank);
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < r.nRanks; ++rank) inputs.push_back(inputOf(rank, all, c.dtype, c.data));
  Buffer in(c.dtype, all, c.shift), out(c.dtype, c.count, c.shift);
  in.set(inputs[static_cast<size_t>(r.rank)]);
  RANK_TRY(tuttiReduceScatter(in.at(0), c.inPlace ? in.at(first) : out.at(0), c.count, c.dtype, c.op, r.comm, nullptr));
  if (c.inPlace) std::memcpy(out.at(0), in.at(first), c.count * dataTypeBytes(c.dtype));
  allResults = allResults * 31 + out.checksum();
  return compare(inputs, first, c.count, c.dtype, 1, c.op == tuttiAvg, out);
}

/// Blocks of different sizes, one of which is empty.
std::string reduceScatterV(const Rank& r) {
  std::vector<size_t> counts, displs;
  size_t all = 0;
  for (int rank = 0; rank < r.nRanks; ++rank) {
    counts.push_back(rank == 1 ? 0 : 3000 + 1717 * static_cast<size_t>(rank));
    displs.push_back(all);
    all += counts.back();
  }
  const auto mine = static_cast<size_t>(r.rank);
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < r.nRanks; ++rank) inputs.push_back(inputOf(rank, all, tuttiFloat32, Data::Ranges));
  Buffer in(tuttiFloat32, all, 0), out(tuttiFloat32, counts[mine], 0);
  in.set(inputs[mine]);
  RANK_TRY(
      tuttiReduceScatterv(in.at(0), out.at(0), counts.data(), displs.data(), tuttiFloat32, tuttiSum, r.comm, nullptr));
  return compare(inputs, displs[mine], counts[mine], tuttiFloat32, 1, false, out);
}

/// Calls that no wire rounds: other types and operators, and moves.
std::string exactCalls(const Rank& r) {
  constexpr size_t kCount = 20'011;
  const auto n = static_cast<size_t>(r.nRanks);
  const auto value = [](size_t rank, size_t i) { return 1.0f + static_cast<float>(rank * 1009 + i) / 65536; };
  std::vector<float> mine(kCount), out(kCount * n);
  for (size_t i = 0; i < kCount; ++i) mine[i] = value(static_cast<size_t>(r.rank), i);
  RANK_TRY(tuttiAllReduce(mine.data(), out.data(), kCount, tuttiFloat32, tuttiMax, r.comm, nullptr));
  for (size_t i = 0; i < kCount; ++i) RANK_CHECK(out[i] == value(n - 1, i));
  RANK_TRY(tuttiAllGather(mine.data(), out.data(), kCount, tuttiFloat32, r.comm, nullptr));
  for (size_t i = 0; i < kCount * n; ++i) RANK_CHECK(out[i] == value(i / kCount, i % kCount));
  out.assign(mine.begin(), mine.end());
  RANK_TRY(tuttiBroadcast(out.data(), out.data(), kCount, tuttiFloat32, 0, r.comm, nullptr));
  for (size_t i = 0; i < kCount; ++i) RANK_CHECK(out[i] == value(0, i));
  const int next = (r.rank + 1) % r.nRanks, before = (r.rank + r.nRanks - 1) % r.nRanks;
  RANK_TRY(tuttiGroupStart());
  RANK_TRY(tuttiSend(mine.data(), kCount, tuttiFloat32, next, r.comm, nullptr));
  RANK_TRY(tuttiRecv(out.data(), kCount, tuttiFloat32, before, r.comm, nullptr));
  RANK_TRY(tuttiGroupEnd());
  for (size_t i = 0; i < kCount; ++i) RANK_CHECK(out[i] == value(static_cast<size_t>(before), i));
  std::vector<int32_t> whole(kCount), sum(kCount);
  for (size_t i = 0; i < kCount; ++i) whole[i] = static_cast<int32_t>(i * 40'503 % 100'003) + r.rank;
  RANK_TRY(tuttiAllReduce(whole.data(), sum.data(), kCount, tuttiInt32, tuttiSum, r.comm, nullptr));
  const auto ranks = static_cast<int32_t>(r.nRanks * (r.nRanks - 1) / 2);
  for (size_t i = 0; i < kCount; ++i) RANK_CHECK(sum[i] == (whole[i] - r.rank) * r.nRanks + ranks);
  float little = 1 + 0x1p-20f;  // small calls gain nothing
  RANK_TRY(tuttiAllReduce(&little, &little, 1, tuttiFloat32, tuttiSum, r.comm, nullptr));
  RANK_CHECK(little == static_cast<float>(r.nRanks) * (1 + 0x1p-20f));
  return "";
}

/// Several sums in a group, beside a move of the same size.
std::string groups(const Rank& r) {
  constexpr size_t kCount = 30'001;
  std::vector<std::vector<double>> inputs;
  for (int rank = 0; rank < r.nRanks; ++rank) inputs.push_back(inputOf(rank, kCount, tuttiFloat32, Data::Ranges));
  Buffer in(tuttiFloat32, kCount, 0), sum(tuttiFloat32, kCount, 0), most(tuttiFloat32, kCount, 0),
      moved(tuttiFloat32, kCount, 4);
  in.set(inputs[static_cast<size_t>(r.rank)]);
  moved.set(inputs[static_cast<size_t>(r.rank)]);
  RANK_TRY(tuttiGroupStart());
  RANK_TRY(tuttiAllReduce(in.at(0), sum.at(0), kCount, tuttiFloat32, tuttiSum, r.comm, nullptr));
  RANK_TRY(tuttiAllReduce(in.at(0), most.at(0), kCount, tuttiFloat32, tuttiMax, r.comm, nullptr));
  RANK_TRY(tuttiBroadcast(moved.at(0), moved.at(0), kCount, tuttiFloat32, 0, r.comm, nullptr));
  RANK_TRY(tuttiGroupEnd());
  for (size_t i = 0; i < kCount; ++i) {
    double largest = inputs[0][i];
    for (const std::vector<double>& x : inputs) largest = std::max(largest, x[i]);
    RANK_CHECK(most.get(i) == largest);
    RANK_CHECK(moved.get(i) == inputs[0][i]);
  }
  if (std::string why = sameEverywhere(r, sum); !why.empty()) return why;
  return compare(inputs, 0, kCount, tuttiFloat32, 1, false, sum);
}

/// Every kind of data in the type that most sums have, and the one that the other types differ in.
bool chosen(tuttiDataType_t dtype, Data data) {
  const Data own = dtype == tuttiFloat16 ? Data::Tiny : dtype == tuttiBfloat16 ? Data::Mixed : Data::Ranges;
  return everyCase || dtype == tuttiFloat32 || data == own;
}

std::string sums(const Rank& r) {
  for (const tuttiDataType_t dtype : {tuttiFloat32, tuttiFloat16, tuttiBfloat16, tuttiFloat64}) {
    for (const Data data : kData) {
      if (!chosen(dtype, data)) continue;
      const size_t counts[] = {0, 1, 8'192, 20'011, 131'077};  // the last of one kind of data alone
      for (size_t k = 0; k < (data == Data::Ranges ? 5u : 4u); ++k) {
        Case c{.dtype = dtype, .count = counts[k], .data = data};
        c.op = k % 2 == 0 ? tuttiSum : tuttiAvg;
        c.inPlace = (k + static_cast<size_t>(data)) % 2 == 0;
        c.shift = k * dataTypeBytes(dtype) % 16;
        const std::pair<const char*, std::string (*)(const Rank&, const Case&)> calls[] = {
            {"AllReduce", allReduce}, {"Reduce", reduce}, {"ReduceScatter", reduceScatter}};
        for (const auto& [name, call] : calls) {
          if (call == reduceScatter && c.count > 20'011) continue;
          if (std::string why = call(r, c); !why.empty())
            return std::string(name) + " of " + std::to_string(c.count) + " " + dataTypeName(dtype) + ", data " +
                   std::to_string(static_cast<int>(data)) + ": " + why;
        }
      }
    }
  }
  return allReduce(r, {.count = 50'021, .op = tuttiNumOps, .shift = 4});
}

std::string check(const Rank& r) {
  const std::pair<const char*, std::function<std::string(const Rank&)>> parts[] = {
      {"sums", sums}, {"sums of uneven blocks", reduceScatterV}, {"exact calls", exactCalls}, {"groups", groups}};
  for (const auto& [name, part] : parts)
    if (std::string why = part(r); !why.empty()) return std::string(name) + ": " + why;
  // A child rounds as its parent does.
  tuttiComm_t child = nullptr;
  RANK_TRY(tuttiCommSplit(r.comm, 0, r.nRanks - r.rank, &child, nullptr));
  Rank reversed{r.nRanks - 1 - r.rank, r.nRanks, child};
  if (std::string why = allReduce(reversed, {.count = 40'000, .data = Data::Ranges}); !why.empty())
    return "child: " + why;
  RANK_TRY(tuttiCommDestroy(child));
  return "";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  format = parseWireFormat(argv[1]).value();
  everyCase = argc > 2 && std::string_view(argv[2]) == "all";
  const bool again = std::string_view(argv[argc - 1]) == "again";
  Rank r{};
  std::string why = failed(tuttiCommInitEnv(&r.comm, nullptr), "join");
  if (why.empty()) {
    tuttiCommUserRank(r.comm, &r.rank);
    tuttiCommCount(r.comm, &r.nRanks);
    why = check(r);
  }
  if (why.empty()) why = failed(tuttiCommDestroy(r.comm), "destroy");
  if (!why.empty()) std::fprintf(stderr, "rank %d: %s\n", r.rank, why.c_str());
  if (again && r.rank == 0) std::printf("checksum %08x\n", allResults);
  return why.empty() ? 0 : 1;
}
