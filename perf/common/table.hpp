// The text that nccl-tests prints, field for field, so that scripts which read it keep working: comment lines begin
// with '#', a data row has 13 fields that white space separates ($1 size .. $5 root, $6-$9 out of place, $10-$13 in
// place); nccl-tests' own further columns (-I, -S) come after those, and last what the library expected: `expect`, the
// microseconds of one call, and `plan`, ALGORITHM/PROTOCOL/CHANNELS.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "perf/common/collective.hpp"
#include "perf/common/options.hpp"

namespace tutti::perf {

/// One rank, as the header lists it.
struct RankLine {
  int rank, group, pid, device;
  std::string host, processor;
};

/// Times of single calls, in microseconds; cv is standard deviation over mean in percent.
struct Spread {
  double minUs = 0, maxUs = 0, p99Us = 0, cvPercent = 0;
  double p10Us = 0, p90Us = 0;  // for pictures
};
/// p99: the smallest time that at least 99 of 100 calls did not exceed; p10 and p90 likewise.
Spread spreadOf(std::vector<double> timesUs);

/// What the library expected of a call.
struct Expectation {
  double timeUs = 0;
  std::string algorithm, protocol;
  int channels = 1;
};

/// One placement of a row.
struct Measurement {
  double timeUs = 0;
  double algbw = 0, busbw = 0;  // GB/s, 1e9 bytes
  std::optional<size_t> wrong;  // nothing: not checked
  Spread spread;                // if asked for
  std::vector<double> callTimesUs;
};

struct Row {
  size_t bytes = 0, count = 0;
  std::string type, op = "none";
  int root = -1;
  std::optional<Measurement> outOfPlace, inPlace;  // in place: nothing where the collective has none
  std::optional<Expectation> expected;             // of one call out of place
  std::string timestamp;
  int iterations = 0;
};

/// Bandwidths from time and what the call moved; zero time or traffic gives 0.
void computeBandwidth(const Collective& c, const Layout& layout, int nRanks, Measurement* m);

/// nccl-tests' way to fit a number into `width` characters: two decimals, then one, then none, then an exponent.
std::string fitNumber(double value, int width);

std::string headerText(const Collective& c, const Options& o, const std::vector<RankLine>& ranks, int libraryVersion);
/// With line break.
std::string rowText(const Row& row, const Options& o);

struct Summary {
  size_t wrong = 0;
  double averageBusbw = 0;
  std::optional<double> wantedBusbw;  // *_TESTS_MIN_BW; less than 0.9 of it is a failure
  bool dataOk() const { return wrong == 0; }
  bool bandwidthOk() const { return !wantedBusbw || averageBusbw >= 0.9 * *wantedBusbw; }
};
/// Mean bus bandwidth over all rows and both placements, wrong elements summed.
Summary summarize(const std::vector<Row>& rows);
std::string footerText(const Collective& c, const Options& o, const Summary& summary, double peakMemoryMiB);

/// "0.1.0" from 100.
std::string versionText(int code);

}  // namespace tutti::perf
