// Measures the processor time that protecting tcp's bytes costs.  It times checksums, tags and encryption of one stream
// between two ends in memory, and the seals of control messages.  Ratios are to checksums of the same run.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include "src/control/sealed_links.hpp"
#include "tools/version.hpp"
#include "transport/tcp/resumable_stream.hpp"

using namespace tutti;
using namespace tutti::tcp;

namespace {

constexpr int kRounds = 9;

/// Of this thread's processor time, which other programs on the machine do not stretch.
double cpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

std::unique_ptr<RecordSeal> sealOf(Protection protection, bool first) {
  if (protection == Protection::Checksums) return nullptr;
  const Secret a = {1}, b = {2};
  return std::make_unique<RecordSeal>(first ? DirectionKeys{a, b} : DirectionKeys{b, a},
                                      protection == Protection::Encryption);
}

/// One message from one stream to the other, straight to its place where records allow it; the wire is a copy.
void carry(ResumableStream& from, ResumableStream& to, std::span<const std::byte> in, std::span<std::byte> out) {
  size_t written = 0, taken = 0;
  while (taken < out.size()) {
    const iovec source{const_cast<std::byte*>(in.data()) + written, in.size() - written};
    if (source.iov_len > 0) written += from.write(std::span(&source, 1), 0);
    std::array<iovec, 64> parts;
    const size_t n = from.toSend(parts);
    for (size_t i = 0; i < n; ++i) {
      const auto* bytes = static_cast<const std::byte*>(parts[i].iov_base);
      for (size_t left = parts[i].iov_len; left > 0;) {
        const iovec rest{out.data() + taken, out.size() - taken};
        std::array<iovec, 5> room;
        const size_t rooms = to.aim(std::span(&rest, 1), room);
        size_t come = 0;
        for (size_t r = 0; r < rooms && left > 0; ++r) {
          const size_t some = std::min(left, room[r].iov_len);
          std::memcpy(room[r].iov_base, bytes, some);
          bytes += some;
          left -= some;
          come += some;
        }
        if (!to.came(come).ok()) std::abort();
        taken += to.take(std::span(&rest, 1));
      }
      from.wasSent(parts[i].iov_len);
    }
    std::array<iovec, 4> back;
    const size_t words = to.toSend(back);
    for (size_t i = 0; i < words; ++i) {
      std::span<std::byte> room = from.room();
      std::memcpy(room.data(), back[i].iov_base, back[i].iov_len);
      if (!from.came(back[i].iov_len).ok()) std::abort();
      to.wasSent(back[i].iov_len);
    }
  }
}

/// Seconds of both ends for one message.
double streamSeconds(Protection protection, size_t bytes) {
  ResumableStream from(2 << 20, sealOf(protection, true)), to(2 << 20, sealOf(protection, false));
  std::vector<std::byte> in(bytes, std::byte{7}), out(bytes);
  const size_t repeats = std::max<size_t>(1, (size_t{32} << 20) / bytes / 8);
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = cpuSeconds();
    for (size_t i = 0; i < repeats; ++i) carry(from, to, in, out);
    best = std::min(best, (cpuSeconds() - begin) / static_cast<double>(repeats));
  }
  if (in != out) std::abort();
  return best;
}

/// Of sealing and opening one control message.
double sealSeconds(size_t bytes, bool encrypts) {
  Sealer from({1}, encrypts), to({1}, encrypts);
  const std::string message(bytes, 'x');
  constexpr int kMessages = 2000;
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = cpuSeconds();
    for (int i = 0; i < kMessages; ++i) {
      if (!to.open(from.seal(message)).ok()) std::abort();
    }
    best = std::min(best, (cpuSeconds() - begin) / kMessages);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (tutti::printsVersion(argc, argv)) return 0;
  if (const Status found = Gcm::available(); !found.ok()) {
    std::fprintf(stderr, "%s\n", found.message().c_str());
    return 1;
  }
  std::printf("records, both ends and a copy for the wire: us per message, GB/s of one core, ratio to checksums\n");
  std::printf("%10s %28s %28s %28s\n", "bytes", "checksums", "tags", "encryption");
  for (const size_t bytes : {size_t{64}, size_t{4} << 10, size_t{64} << 10, size_t{1} << 20, size_t{16} << 20}) {
    std::printf("%10zu", bytes);
    double base = 0;
    for (const Protection protection : {Protection::Checksums, Protection::Tags, Protection::Encryption}) {
      const double seconds = streamSeconds(protection, bytes);
      if (protection == Protection::Checksums) base = seconds;
      std::printf("  %10.2f %7.2f %6.2fx", seconds * 1e6, static_cast<double>(bytes) / seconds / 1e9, seconds / base);
    }
    std::printf("\n");
  }
  std::printf("\ncontrol messages, sealed and opened: us\n%10s %12s %12s\n", "bytes", "tags", "encryption");
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{1} << 10, size_t{64} << 10})
    std::printf("%10zu %12.2f %12.2f\n", bytes, sealSeconds(bytes, false) * 1e6, sealSeconds(bytes, true) * 1e6);
  return 0;
}
